"""The view of one executor: its lanes, who waits for it, the plans in flight, what room they leave, how fast it is.

Room is counted so that it is never over-committed: what the executor last reported as pinned, and on top of it the most
that each plan in flight can pin. What a plan gives back counts only once its result says so.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from services.scheduler.account import Reason
from services.scheduler.budget import CostModel, Work
from services.scheduler.fair_shares import FairShares
from services.scheduler.lane import Lane
from services.scheduler.parking import Parking
from services.scheduler.prefix_index import PrefixIndex
from services.scheduler.promises import Promise, Promises, Prospect
from services.scheduler.request import Request
from services.scheduler.routing import PrefixSketch
from services.scheduler.waiting import WaitingQueue
from shared import wire
from shared.config import SchedulerConfig
from shared.tokens import common_tokens, pages_down

PLANS_IN_FLIGHT = 2
RECENT_STEPS = 2048  # whose times are shown
PATIENCE_STEPS = 4  # full ones, for which a promise may make no progress


class Discount(NamedTuple):
    """Part of a prompt for which nothing is reserved, because this lane has it pinned."""

    lane: Lane
    tokens: int


class Preempted(NamedTuple):
    """It had begun, and waits again."""

    request: Request
    reason: Reason


@dataclass(frozen=True, slots=True)
class Flight:
    """A plan under way."""

    seq: int
    lanes: tuple[Lane, ...]  # with a slice in it
    reserved_tokens: int
    discounts: tuple[Discount, ...]  # not granted any more once their lane is over: then nobody pins it for sure
    relieves: bool  # it gives room back
    sent_s: float


class Executor:
    """One grant's worth: an executor that joins anew is a new one here."""

    def __init__(
        self,
        peer: str,
        name: str,
        info: wire.ExecutorInfo,
        config: SchedulerConfig,
        shares: FairShares,
        *,
        now_s: float,
    ) -> None:
        self.peer, self.name, self.info = peer, name, info
        self.capacity_tokens = pages_down(info.capacity_tokens, info.page_size)
        self.request_tokens = min(self.capacity_tokens, info.max_model_len)  # the most that one request may hold
        self.max_running = min(config.max_running_requests, info.max_batch)
        self.cost = CostModel(config.step_budget_s)
        self.index = PrefixIndex(info.page_size)
        self.sketch: PrefixSketch[Request] = PrefixSketch()
        self.waiting = WaitingQueue(config.chosen_policy, max_wait_s=config.max_wait_s, shares=shares, index=self.index)
        self.promises = Promises(PATIENCE_STEPS * config.step_budget_s)
        self.parking = Parking()
        self._shares = shares
        self.lanes: dict[int, Lane] = {}
        self.flights: deque[Flight] = deque()
        self.capacity = wire.Capacity(self.capacity_tokens, 0, 0)
        self.moves = False  # until a heartbeat has shown it: a link can be young and its step thread hang
        self.hangs = False  # as a heartbeat has shown
        self.short = False  # it declined to continue a lane: its room is less than it seems
        self.full = False  # it declined to start one: no other is started before the next tick
        self.drains = False  # the next plan leaves only when none is in flight
        self.crowded_plans = 0  # in a row, in which decodes have left no time for prompts
        self._next_seq = 1
        self._unused_numbers: list[int] = []
        self._preempted: list[Preempted] = []
        self._next_number = 0
        self._step_age_s = 0.0
        self.recent_step_s: deque[float] = deque(maxlen=RECENT_STEPS)
        self._moved_s = now_s

    # --- who waits for it --------------------------------------------------------------------------------------------

    @property
    def queued(self) -> Iterator[Request]:
        """Those that wait for their turn, for a promise, or for their constraint to be compiled."""
        return chain(self.waiting, self.promises, self.parking)

    @property
    def waiting_requests(self) -> int:
        return len(self.waiting) + len(self.promises) + len(self.parking)

    @property
    def load(self) -> int:
        return self.running_requests + self.waiting_requests

    def enqueue(self, request: Request) -> None:
        request.executor = self.peer
        self.sketch.note(request, request.namespace, request.tokens)
        if request.may_run_at(self.peer):
            self.waiting.add(request)
        else:
            self.parking.add(request)

    def dequeue(self, request: Request) -> None:
        """Raises KeyError if it does not wait here."""
        if request in self.promises:
            self.promises.remove(request)
        elif request in self.parking:
            self.parking.remove(request)
        else:
            self.waiting.remove(request)
        self.sketch.forget(request)
        request.executor = None

    def unpark(self, request: Request) -> None:
        """Its constraint is ready: it waits for its turn."""
        self.parking.remove(request)
        request.compiled_by = self.peer
        self.waiting.add(request)

    def prospect(self, request: Request, now_s: float) -> Prospect:
        """What a request that waits here would find, or should wait for, in the plan that is being made."""
        if not self.info.caches:
            return Prospect(0, None)
        return self.promises.prospect(request, self.running(), self._next_seq, now_s)

    def hold_back(self, request: Request, promise: Promise) -> None:
        self.waiting.remove(request)
        self.promises.hold(request, promise)

    def release_promised(self, now_s: float) -> None:
        """Those that need to be held back no longer wait for their turn again."""
        for request in self.promises.release(self._next_seq, now_s):
            self.waiting.add(request)

    def known_tokens(self, request: Request) -> int:
        """Of the request's tokens, those that its cache holds or has been asked to compute."""
        cached = self.index.match(request.namespace, request.tokens)
        return max(cached, self.sketch.match(request.namespace, request.tokens))

    # --- room --------------------------------------------------------------------------------------------------------

    @property
    def room_tokens(self) -> int:
        reserved = sum(flight.reserved_tokens for flight in self.flights)
        reserved += sum(tokens for flight in self.flights for lane, tokens in flight.discounts if lane.ended)
        return self.capacity_tokens - self.capacity.pinned_tokens - reserved

    @property
    def awaits_relief(self) -> bool:
        return any(flight.relieves for flight in self.flights)

    def fits(self, request: Request) -> bool:
        """Whether the request could be finished here, if it were alone."""
        return request.most_tokens <= self.request_tokens

    def pinned_prefix(self, request: Request) -> Discount | None:
        """The most of what the cache holds for the request that is pinned anyway, by a running one."""
        best = None
        for lane in self.running():
            if lane.settled and lane.request.namespace == request.namespace:
                common = common_tokens(request.tokens[: request.hint_tokens], lane.request.tokens)
                shared = min(common, lane.computed_tokens, lane.request.prompt_tokens)  # output may not be shared yet
                tokens = pages_down(shared, self.info.page_size)
                if tokens and (best is None or tokens > best.tokens):
                    best = Discount(lane, tokens)
        return best

    def protected_from(self, tenant: str) -> int:
        """Cached tokens that this tenant's requests cannot have, unless one of them is alone."""
        return sum(tokens for owner, tokens in self.capacity.protected_tokens.items() if owner != tenant)

    # --- lanes -------------------------------------------------------------------------------------------------------

    def running(self) -> list[Lane]:
        """Those that hold KV, or will by the plans in flight."""
        return [lane for lane in self.lanes.values() if not lane.ended]

    @property
    def running_requests(self) -> int:
        return sum(not lane.ended for lane in self.lanes.values())

    def admit(self, request: Request, found_tokens: int) -> Lane:
        """A lane for a request that waits here, from the plan that is being made."""
        self.waiting.remove(request)
        number = self._take_number()
        lane = Lane(number, self.peer, request, self.info.page_size, self._next_seq, found_tokens)
        self.lanes[number] = request.lane = lane
        request.executor_name = self.name
        return lane

    def preempt(self, request: Request, reason: Reason) -> None:
        """It gives its place up."""
        if request.lane is not None and request.lane.settled:
            self._preempted.append(Preempted(request, reason))
        self.put_back(request)

    def put_back(self, request: Request) -> None:
        """Its lane is over, and it waits for its turn again."""
        self.sketch.forget(request)
        request.give_way()
        self.enqueue(request)

    def take_preempted(self) -> list[Preempted]:
        """Those that gave way since they were last asked for."""
        taken, self._preempted = self._preempted, []
        return taken

    def release_ended(self) -> tuple[int, ...]:
        """The lanes that are over. Their numbers are free from the plan that is being made on."""
        numbers = tuple(number for number, lane in self.lanes.items() if lane.ended)
        for number in numbers:
            del self.lanes[number]
            heapq.heappush(self._unused_numbers, number)
        return numbers

    def _take_number(self) -> int:
        if self._unused_numbers:
            return heapq.heappop(self._unused_numbers)
        self._next_number += 1
        return self._next_number - 1

    def release_held(self) -> None:
        self.full = False
        for lane in self.lanes.values():
            lane.held = False

    def in_hand(self) -> dict[Request, int]:
        """Whom the plans in flight are for, and whose constraints it compiles, with how far they may have come."""
        info, in_hand = self.info, {request: request.known_tokens for request in self.parking.asked()}
        for lane in chain.from_iterable(flight.lanes for flight in self.flights):
            forced_tokens = info.forced_tokens if lane.request.constraint_key is not None else 0
            in_hand[lane.request] = lane.reach_tokens(info.draft_tokens + forced_tokens)
        return in_hand

    # --- plans and results -------------------------------------------------------------------------------------------

    @property
    def takes_plan(self) -> bool:
        return len(self.flights) < (1 if self.drains else PLANS_IN_FLIGHT) and self.moves

    @property
    def next_seq(self) -> int:
        return self._next_seq

    def depart(self, flight: Flight) -> None:
        if not self.flights:
            self._moved_s = flight.sent_s
        self.flights.append(flight)
        self._next_seq += 1
        self.drains = False

    def land(self, result: wire.StepResult, now_s: float) -> list[tuple[Lane, wire.Outcome]] | None:
        """Take over a step's figures.

        Returns:
            The outcomes of requests that are not over; None if this is not the result of the next plan in flight.

        Raises:
            ValueError: what it tells of its tree does not fit what it told before.
        """
        if not self.flights or self.flights[0].seq != result.seq:
            return None
        flight = self.flights.popleft()
        self.capacity, self._moved_s = result.capacity, now_s
        self.waiting.apply(result.events)
        work, outcomes, beyond_tokens = Work(), [], 0
        for outcome in result.outcomes:
            lane = self.lanes.get(outcome.lane)
            if lane is None or lane.ended or lane.admitted_seq > result.seq:
                continue
            self.short |= outcome.declined and lane.settled
            done = lane.apply(outcome)
            lane.request.account.steps(done.tokens)
            beyond = max(done.tokens - lane.planned_tokens(result.seq), 0)
            self._shares.charge(lane.request.tenant, beyond)
            work, beyond_tokens = work + done, beyond_tokens + beyond
            outcomes.append((lane, outcome))
        for lane in flight.lanes:
            lane.land(result.seq)
        rejected_tokens = max(result.extra_tokens - beyond_tokens, 0)  # computed for nothing
        self.cost.observe(work.beside(rejected_tokens), result.times.total_s)
        self.recent_step_s.append(result.times.total_s)
        return outcomes

    def put_back_unstarted(self) -> None:
        """Those whose first slice was not run wait again; that was for want of room, so no other is tried at once."""
        for lane in self.running():
            if lane.failed_to_start:
                self.full = True
                self.put_back(lane.request)

    # --- progress ----------------------------------------------------------------------------------------------------

    def on_heartbeat(self, progress: wire.Progress, limit_s: float) -> None:
        self._step_age_s = progress.step_age_s
        self.hangs = progress.step_age_s > limit_s
        self.moves = not self.hangs

    def is_stalled(self, now_s: float, limit_s: float) -> bool:
        """A step that does not end, or a plan or result that got lost."""
        return bool(self.flights) and (self._step_age_s > limit_s or now_s - self._moved_s > limit_s)
