"""Makes one executor's next plan: who gives way, who gets how many tokens, who starts, who is made known ahead of time.

Decides by the views of the executor and of those who wait, and by the time of the last tick. Sends nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from services.scheduler import policy
from services.scheduler.budget import LEAST_CHUNK_TOKENS, SURE_CHUNK_TOKENS, StepBudget
from services.scheduler.executors import Executor, Flight
from services.scheduler.lane import Lane, pages_up
from services.scheduler.request import Request
from services.scheduler.waiting import WaitingQueue
from shared import wire
from shared.config import SchedulerConfig

AHEAD_REQUESTS = 128  # made known to an executor before their turn, so that their hints can order them
ADMITS_IN_PLAN = 32  # so that no plan is long to read
EXPRESS_FACTOR = 4  # who has so many times fewer prompt tokens left than another one does not wait for that one,
EXPRESS_SHARE = 0.5  # but goes on beside it, in at most this share of each step
PATIENCE_PLANS = 4  # prompts that decodes have crowded out of so many plans go before them, for a little


class Draft:
    """A plan under construction. What it slices is planned on the lanes at once."""

    def __init__(self, executor: Executor, budget: StepBudget) -> None:
        self.executor = executor
        self.budget = budget
        self.room_tokens = executor.room_tokens
        self.releases = executor.release_ended()
        self.preempts: list[int] = []
        self.admits: list[wire.Admit] = []
        self._lanes: list[Lane] = []
        self._slices: list[wire.Slice] = []
        self._reserved_tokens = 0
        self._serves_prompts = False
        self._crowds_out = False

    @property
    def free_slices(self) -> int:
        return self.executor.info.max_batch - len(self._slices)

    def unserved(self) -> list[Lane]:
        """Those that run and have no slice in this plan yet, the most senior first."""
        seq = self.executor.next_seq
        return [lane for lane in self.executor.running() if lane.served_seq < seq and not lane.held]

    def time_for(self, tokens: int, context: int) -> int:
        """How many of a prompt's next tokens there is time for."""
        chunk = self.budget.chunk(tokens, context)
        self._crowds_out |= tokens > 0 and not chunk
        return chunk

    def preempt(self, lane: Lane) -> None:
        lane.preempt()
        self.preempts.append(lane.number)

    def decode(self, lane: Lane) -> None:
        self.budget.spend_token(lane.context_tokens())
        self._slice(lane, 1, lane.growth_tokens(1))

    def chunk(self, lane: Lane, num_tokens: int) -> None:
        self._prompt_slice(lane, num_tokens, lane.growth_tokens(num_tokens))

    def start(self, request: Request, num_tokens: int, reserved_tokens: int) -> Lane:
        lane = request.lane or self.admit(request)
        self._prompt_slice(lane, num_tokens, reserved_tokens)
        return lane

    def admit(self, request: Request) -> Lane:
        lane = self.executor.admit(request)
        self.admits.append(request.admit(lane.number))
        return lane

    def finish(self, now_s: float) -> wire.StepPlan | None:
        """The plan, on its way; None if there is nothing to do."""
        if not (self._slices or self.admits or self.preempts or self.releases):
            return None
        crowded = self._crowds_out and not self._serves_prompts
        self.executor.crowded_plans = self.executor.crowded_plans + 1 if crowded else 0
        seq, relieves = self.executor.next_seq, bool(self.preempts or self.releases)
        self.executor.depart(Flight(seq, tuple(self._lanes), self._reserved_tokens, relieves, now_s))
        return wire.StepPlan(
            seq, tuple(self.admits), tuple(self._slices), preempt=tuple(self.preempts), release=self.releases
        )

    def _prompt_slice(self, lane: Lane, num_tokens: int, reserved_tokens: int) -> None:
        self.budget.spend_chunk(num_tokens, lane.context_tokens())
        self._serves_prompts = True
        self._slice(lane, num_tokens, reserved_tokens)

    def _slice(self, lane: Lane, num_tokens: int, reserved_tokens: int) -> None:
        lane.plan(self.executor.next_seq, num_tokens)
        self._lanes.append(lane)
        self._slices.append(wire.Slice(lane.number, num_tokens))
        self._reserved_tokens += reserved_tokens
        self.room_tokens -= reserved_tokens


class Planner:
    def __init__(self, config: SchedulerConfig, waiting: WaitingQueue) -> None:
        self._config = config
        self._order = policy.ORDERS[config.policy]
        self._waiting = waiting

    def plan(
        self, executor: Executor, others: Sequence[Executor], now_s: float, *, admitting: bool
    ) -> wire.StepPlan | None:
        """The executor's next plan.

        Args:
            others: the other executors, whose waiting requests may move here.
            admitting: whether requests that hold nothing may start.
        """
        config = self._config
        draft = Draft(executor, StepBudget(executor.cost, config.step_budget_s, config.max_step_tokens))
        _relieve(draft)
        if executor.crowded_plans >= PATIENCE_PLANS:
            self._serve_prompts(draft, others, now_s, admitting=admitting, most_tokens=SURE_CHUNK_TOKENS)
        _decode(draft)
        self._serve_prompts(draft, others, now_s, admitting=admitting, most_tokens=config.max_step_tokens)
        if admitting:
            self._admit_ahead(draft)
        return draft.finish(now_s)

    def _serve_prompts(
        self, draft: Draft, others: Sequence[Executor], now_s: float, *, admitting: bool, most_tokens: int
    ) -> None:
        """Those that run go on before others start; but nobody waits for somebody else's long prompt."""
        longest = max((lane.remaining_tokens() for lane in draft.unserved()), default=0)
        express_tokens = longest // EXPRESS_FACTOR
        if express_tokens:
            with draft.budget.part(EXPRESS_SHARE):
                most_tokens = _continue_prompts(draft, most_tokens, express_tokens)
                if admitting:
                    most_tokens = self._start(draft, others, now_s, most_tokens, express_tokens)
        most_tokens = _continue_prompts(draft, most_tokens)
        if admitting:
            self._start(draft, others, now_s, most_tokens)

    def _start(
        self,
        draft: Draft,
        others: Sequence[Executor],
        now_s: float,
        most_tokens: int,
        longest: int | None = None,
    ) -> int:
        """Start those whose turn it is, in order, until one does not fit: nobody is overtaken for being large.

        Args:
            longest: only those that have no more prompt tokens to compute.

        Returns:
            What is left of most_tokens.
        """
        running = draft.executor.running()
        places = min(self._config.max_running_requests, draft.executor.info.max_batch) - len(running)
        places = min(places, draft.free_slices)
        if places <= 0 or not draft.time_for(min(most_tokens, LEAST_CHUNK_TOKENS), 0):
            return most_tokens
        outlook_tokens = sum(lane.outlook_tokens() for lane in running)
        candidates = self._candidates(draft.executor, others, now_s)
        if longest is not None:
            candidates = [request for request in candidates if draft.executor.uncached_tokens(request) <= longest]
        for request in candidates[:places]:
            hint = draft.executor.hint_tokens(request)
            wanted = min(draft.executor.uncached_tokens(request), most_tokens)
            chunk = draft.time_for(wanted, request.known_tokens if hint is None else hint)
            reserved = _reservation(draft, request, outlook_tokens)
            if reserved is None or not chunk:
                break
            lane = draft.start(self._claim(request, draft.executor), chunk, reserved)
            outlook_tokens += lane.outlook_tokens()
            most_tokens -= chunk
        return most_tokens

    def _candidates(self, executor: Executor, others: Sequence[Executor], now_s: float) -> list[Request]:
        """Those that could start here, the next one first: known here or nowhere; failing these, known elsewhere."""
        here = [lane.request for lane in executor.ahead() if not lane.held]
        found = [request for request in chain(here, self._waiting.head(AHEAD_REQUESTS)) if executor.fits(request)]
        if not found:
            elsewhere = (lane.request for other in others for lane in other.ahead())
            found = [request for request in elsewhere if executor.fits(request)]
        return sorted(found, key=lambda request: self._order(request, now_s, self._config.max_wait_s))

    def _claim(self, request: Request, executor: Executor) -> Request:
        """Take the request from where it waits, if it does not wait at this executor."""
        if request.lane is None:
            self._waiting.remove(request)
        elif request.lane.executor != executor.peer:
            request.leave_lane()
        return request

    def _admit_ahead(self, draft: Draft) -> None:
        """Make the next ones known, so that their hints can order them."""
        if self._config.policy not in policy.WITH_HINTS:
            return
        executor = draft.executor
        places = min(AHEAD_REQUESTS - sum(1 for _ in executor.ahead()), ADMITS_IN_PLAN - len(draft.admits))
        for request in self._waiting.head(max(places, 0)):
            if executor.fits(request):
                self._waiting.remove(request)
                draft.admit(request)


def _relieve(draft: Draft) -> None:
    """If there is no room for all to go on, the most junior gives way; one at a time, since it takes effect late."""
    executor, running = draft.executor, draft.executor.running()
    if executor.awaits_relief or draft.releases or len(running) < 2:
        return
    if executor.short or _is_short(running[:-1], draft.room_tokens):
        draft.preempt(running[-1])
    executor.short = False


def _is_short(running: Sequence[Lane], room_tokens: int) -> bool:
    """Whether they need more for their next slices than there is."""
    wanted = (lane.growth_tokens(min(lane.remaining_tokens(), LEAST_CHUNK_TOKENS)) for lane in running)
    return sum(wanted) > room_tokens


def _decode(draft: Draft) -> None:
    """A token for each that has its prompt behind it; if time does not allow for all, those served longest ago."""
    for lane in sorted(draft.unserved(), key=lambda lane: lane.served_seq):
        if lane.remaining_tokens() != 1 or lane.growth_tokens(1) > draft.room_tokens:
            continue
        if not draft.free_slices or not draft.budget.affords_token(lane.context_tokens()):
            return
        draft.decode(lane)


def _continue_prompts(draft: Draft, most_tokens: int, longest: int | None = None) -> int:
    """A chunk for each that is behind with its prompt, the most senior first. Returns what is left of most_tokens.

    Args:
        longest: only for those that have no more prompt tokens left.
    """
    for lane in draft.unserved():
        remaining = lane.remaining_tokens()
        if remaining > 1 and draft.free_slices and (longest is None or remaining <= longest):
            tokens = min(remaining, lane.tokens_within(draft.room_tokens), most_tokens)
            chunk = draft.time_for(tokens, lane.context_tokens())
            if chunk:
                draft.chunk(lane, chunk)
                most_tokens -= chunk
    return most_tokens


def _reservation(draft: Draft, request: Request, outlook_tokens: int) -> int | None:
    """The room to reserve for its first slice; None if it should not start yet.

    The most that a first slice can pin is all that is known of the request, less what another one has pinned for sure.
    Beyond that there must be room for what the running ones will want (outlook_tokens), and for some output of this
    one; a request that is alone needs none to spare.
    """
    executor = draft.executor
    page_size = executor.info.page_size
    known = pages_up(request.known_tokens, page_size)
    grown = pages_up(request.likely_tokens, page_size)
    spare = outlook_tokens + grown - known if executor.running_requests else 0
    if known + spare <= draft.room_tokens:
        return known
    known -= executor.pinned_prefix(request)
    return known if known + spare <= draft.room_tokens else None
