"""Makes one executor's next plan: who gives way, who gets how many tokens, who starts, who waits for a promise.

Decides by the view of the executor and by the time of the last tick. Sends nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from services.scheduler import policy
from services.scheduler.account import Reason
from services.scheduler.budget import LEAST_CHUNK_TOKENS, SURE_CHUNK_TOKENS, StepBudget
from services.scheduler.draft import Draft, Reservation
from services.scheduler.executors import Executor
from services.scheduler.fair_shares import FairShares
from services.scheduler.lane import Lane
from services.scheduler.promises import Prospect
from services.scheduler.relief import gives_way
from services.scheduler.request import Request
from shared import wire
from shared.config import SchedulerConfig
from shared.tokens import pages_up

EXPRESS_FACTOR = 4  # who has so many times fewer prompt tokens left than another one does not wait for that one,
EXPRESS_SHARE = 0.5  # but goes on beside it, in at most this share of each step
MOST_PASSED = 32  # of those that wait, so many are looked at for one that may start out of turn
PATIENCE_PLANS = 4  # prompts that decodes have crowded out of so many plans go before them, for a little


class Planner:
    def __init__(self, config: SchedulerConfig, shares: FairShares) -> None:
        self._config = config
        self._shares = shares

    def plan(self, executor: Executor, now_s: float, *, admitting: bool) -> wire.StepPlan | None:
        """The executor's next plan.

        Args:
            admitting: whether requests that hold nothing may start.
        """
        config = self._config
        budget = StepBudget(executor.cost, config.step_budget_s, config.max_step_tokens)
        draft = Draft(executor, budget, self._shares, now_s)
        executor.release_promised(now_s)
        _relieve(draft)
        if admitting:
            _make_place(draft)
        if executor.crowded_plans >= PATIENCE_PLANS:
            self._serve_prompts(draft, admitting=admitting, most_tokens=SURE_CHUNK_TOKENS)
        _decode(draft)
        self._serve_prompts(draft, admitting=admitting, most_tokens=config.max_step_tokens)
        return draft.finish()

    def _serve_prompts(self, draft: Draft, *, admitting: bool, most_tokens: int) -> None:
        """Those that run go on before others start, unless outranked; but nobody waits for another's long prompt."""
        prompts = [lane for lane in draft.unserved() if lane.prompt_left()]
        if admitting and any(_is_outranked(draft.executor, lane) for lane in prompts):
            most_tokens = self._start(draft, most_tokens, lambda request, _: _outranks(request, prompts))
        express_tokens = max((lane.prompt_left() for lane in prompts), default=0) // EXPRESS_FACTOR
        if express_tokens:
            with draft.budget.part(EXPRESS_SHARE):
                most_tokens = _continue_prompts(draft, most_tokens, express_tokens)
                if admitting:
                    most_tokens = self._start(draft, most_tokens, lambda _, uncached: uncached <= express_tokens)
        most_tokens = _continue_prompts(draft, most_tokens)
        if admitting:
            self._start(draft, most_tokens)

    def _start(
        self, draft: Draft, most_tokens: int, may_start: Callable[[Request, int], bool] = lambda _, uncached: True
    ) -> int:
        """Start those whose turn it is, in order, until one does not fit: nobody is overtaken for being large.

        Args:
            may_start: whether a request with so many tokens to compute may; only the first few are asked about.

        Returns:
            What is left of most_tokens.
        """
        executor = draft.executor
        if not draft.takes_more() or not draft.time_for(min(most_tokens, LEAST_CHUNK_TOKENS), 0):
            return most_tokens
        outlook_tokens = draft.outlook_tokens()
        passed: list[Request] = []
        for request in executor.waiting.candidates(draft.now_s):
            prospect = executor.prospect(request, draft.now_s)
            if prospect.promise is not None:
                executor.hold_back(request, prospect.promise)
            elif _passes(request, passed) or not may_start(request, request.known_tokens - prospect.found_tokens):
                passed.append(request)
                if len(passed) == MOST_PASSED or executor.waiting.is_overdue(request.arrived_s, draft.now_s):
                    break
            else:
                lane = _try_start(draft, request, prospect, most_tokens, outlook_tokens)
                if lane is None:
                    break
                outlook_tokens += lane.outlook_tokens()
                most_tokens -= lane.in_flight[-1].num_tokens
                if not draft.takes_more():
                    break
        return most_tokens


def _outranks(request: Request, lanes: Sequence[Lane]) -> bool:
    """Whether it goes before all of these that are its tenant's, and there is one."""
    own = [lane.priority for lane in lanes if lane.request.tenant == request.tenant]
    return bool(own) and request.priority > max(own)


def _passes(request: Request, passed: Sequence[Request]) -> bool:
    """Whether it would get ahead of one of its tenant that has a higher priority."""
    return any(one.tenant == request.tenant and one.priority > request.priority for one in passed)


def _try_start(
    draft: Draft, request: Request, prospect: Prospect, most_tokens: int, outlook_tokens: int
) -> Lane | None:
    """Start the request if there are room and time for it."""
    reserved = _reservation(draft, request, outlook_tokens)
    if reserved is None:
        return None
    found = prospect.found_tokens
    chunk = draft.time_for(min(request.known_tokens - found, most_tokens), found)
    return draft.start(request, found, chunk, reserved) if chunk else None


def _make_place(draft: Draft) -> None:
    """If the next one cannot start, one that runs may have to give way to it; one at a time."""
    executor = draft.executor
    if executor.awaits_relief or draft.releases:
        return
    running = executor.running()
    lower = [lane for lane in running if _is_outranked(executor, lane)]
    if not lower and not executor.waiting.has_idle_tenants:
        return
    request = next(executor.waiting.candidates(draft.now_s), None)
    if request is None or executor.prospect(request, draft.now_s).promise or _fits_now(draft, request):
        return
    juniors = [lane for lane in lower if lane.request.tenant == request.tenant and lane.priority < request.priority]
    reason: Reason = "priority" if juniors else "tenant"
    juniors = juniors or _of_crowding_tenant(request, running)
    if juniors:
        draft.give_way(max(juniors, key=policy.seniority), reason)


def _of_crowding_tenant(request: Request, running: Sequence[Lane]) -> list[Lane]:
    """Those of the tenant that runs most, if it runs several and that of the request nothing."""
    counts = Counter(lane.request.tenant for lane in running)
    tenant, most = max(counts.items(), key=lambda item: item[1], default=("", 0))
    if counts[request.tenant] or most < 2:
        return []
    return [lane for lane in running if lane.request.tenant == tenant]


def _is_outranked(executor: Executor, lane: Lane) -> bool:
    highest = executor.waiting.highest_priority(lane.request.tenant)
    return highest is not None and lane.priority < highest


def _fits_now(draft: Draft, request: Request) -> bool:
    return draft.takes_more() and _reservation(draft, request, draft.outlook_tokens()) is not None


def _relieve(draft: Draft) -> None:
    """If there is no room for all to go on, one gives way; one at a time, since it takes effect late."""
    executor = draft.executor
    if executor.awaits_relief or draft.releases:
        return
    running = executor.running()
    if executor.short or _is_short(draft, running):
        junior = gives_way(running)
        others = [lane for lane in running if lane is not junior]
        if junior is not None and (executor.short or _is_short(draft, others)):
            draft.give_way(junior, "kv")
            draft.relieves_room = True
    executor.short = False


def _is_short(draft: Draft, lanes: Sequence[Lane]) -> bool:
    """Whether they need more for their next slices than there is."""
    room_tokens = min((draft.room_for(lane.request.tenant) for lane in lanes), default=0)
    if room_tokens >= len(lanes) * (LEAST_CHUNK_TOKENS + draft.executor.info.page_size):
        return False
    wanted = (lane.growth_tokens(min(lane.remaining_tokens(), LEAST_CHUNK_TOKENS)) for lane in lanes)
    return sum(wanted) > room_tokens


def _decode(draft: Draft) -> None:
    """What is to be computed for the next token of each that has its prompt behind it: as a rule the one before it.

    A constraint may have added others. If time does not allow for all, those that were served longest ago.
    """
    most_tokens = max(draft.executor.info.forced_tokens + 1, SURE_CHUNK_TOKENS)
    for lane in sorted(draft.unserved(), key=lambda lane: lane.served_seq):
        remaining = 0 if lane.prompt_left() else lane.remaining_tokens()
        fitting = min(remaining, most_tokens, lane.tokens_within(draft.room_for(lane.request.tenant)))
        if fitting <= 0:
            continue
        tokens = draft.budget.decode(fitting, lane.context_tokens()) if draft.free_slices else 0
        if not tokens:
            return
        draft.decode(lane, tokens)


def _continue_prompts(draft: Draft, most_tokens: int, longest: int | None = None) -> int:
    """A chunk for each that is behind with its prompt, the most senior first. Returns what is left of most_tokens.

    Args:
        longest: only for those that have no more prompt tokens left.
    """
    for lane in draft.unserved():
        remaining = lane.prompt_left()
        if remaining and draft.free_slices and (longest is None or remaining <= longest):
            tokens = min(remaining, lane.tokens_within(draft.room_for(lane.request.tenant)), most_tokens)
            chunk = draft.time_for(tokens, lane.context_tokens())
            if chunk:
                draft.chunk(lane, chunk)
                most_tokens -= chunk
    return most_tokens


def _reservation(draft: Draft, request: Request, outlook_tokens: int) -> Reservation | None:
    """The room to reserve for its first slice; None if it should not start yet.

    The most that a first slice can pin is all that is known of the request, less what another one has pinned for sure.
    Beyond that there must be room for what the running ones will want (outlook_tokens), and for some output of this
    one; a request that is alone needs none to spare.
    """
    executor = draft.executor
    page_size = executor.info.page_size
    room_tokens = draft.room_for(request.tenant, besides=0)
    known = pages_up(request.known_tokens, page_size)
    grown = pages_up(request.likely_tokens, page_size)
    spare = outlook_tokens + grown - known if executor.running_requests else 0
    if known + spare <= room_tokens:
        return Reservation(known)
    discount = executor.pinned_prefix(request)
    if discount is None or known - discount.tokens + spare > room_tokens:
        return None
    return Reservation(known - discount.tokens, discount)
