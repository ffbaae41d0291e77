"""The view of one executor: its lanes, the plans in flight, what room they leave, how fast it is.

Room is counted so that it is never over-committed: what the executor last reported as pinned, and on top of it the most
that each plan in flight can pin. What a plan gives back counts only once its result says so.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from services.scheduler.budget import CostModel, Work
from services.scheduler.lane import Lane
from services.scheduler.policy import seniority
from services.scheduler.request import Request
from shared import wire

PLANS_IN_FLIGHT = 2
RECENT_STEPS = 2048  # whose times are shown


@dataclass(frozen=True, slots=True)
class Flight:
    """A plan under way."""

    seq: int
    lanes: tuple[Lane, ...]  # with a slice in it
    reserved_tokens: int
    relieves: bool  # it gives room back
    sent_s: float


class Executor:
    """One grant's worth: an executor that joins anew is a new one here."""

    def __init__(self, peer: str, name: str, info: wire.ExecutorInfo, *, budget_s: float, now_s: float) -> None:
        self.peer, self.name, self.info = peer, name, info
        self.capacity_tokens = info.capacity_tokens // info.page_size * info.page_size
        self.request_tokens = min(self.capacity_tokens, info.max_model_len)  # the most that one request may hold
        self.cost = CostModel(budget_s)
        self.lanes: dict[int, Lane] = {}
        self.flights: deque[Flight] = deque()
        self.capacity = wire.Capacity(self.capacity_tokens, 0, 0)
        self.moves = False  # until a heartbeat has shown it: a link can be young and its step thread hang
        self.short = False  # it declined to continue a lane: its room is less than it seems
        self.crowded_plans = 0  # in a row, in which decodes have left no time for prompts
        self._next_seq = 1
        self._unused_numbers: list[int] = []
        self._next_number = 0
        self._step_age_s = 0.0
        self._recent_step_s: deque[float] = deque(maxlen=RECENT_STEPS)
        self._moved_s = now_s

    # --- room --------------------------------------------------------------------------------------------------------

    @property
    def room_tokens(self) -> int:
        reserved = sum(flight.reserved_tokens for flight in self.flights)
        return self.capacity_tokens - self.capacity.pinned_tokens - reserved

    @property
    def awaits_relief(self) -> bool:
        return any(flight.relieves for flight in self.flights)

    def fits(self, request: Request) -> bool:
        """Whether the request could be finished here, if it were alone."""
        return request.most_tokens <= self.request_tokens

    def hint_tokens(self, request: Request) -> int | None:
        """What the cache here holds for the request, as far as that is known."""
        lane = request.lane
        return lane.hint_tokens if lane is not None and lane.executor == self.peer else None

    def uncached_tokens(self, request: Request) -> int:
        """What of the request is still to be computed here, as far as it is known."""
        return request.known_tokens - (self.hint_tokens(request) or 0)

    def pinned_prefix(self, request: Request) -> int:
        """How much of what the cache is said to hold for the request is pinned anyway, by a running one."""
        submit = request.submit
        head = submit.prompt_token_ids[: request.hint_tokens // self.info.page_size * self.info.page_size]
        if any(
            lane.settled
            and lane.computed_tokens >= len(head)
            and lane.request.submit.namespace == submit.namespace
            and lane.request.submit.prompt_token_ids[: len(head)] == head
            for lane in self.running()
        ):
            return len(head) // self.info.page_size * self.info.page_size
        return 0

    # --- lanes -------------------------------------------------------------------------------------------------------

    def running(self) -> list[Lane]:
        """Those that hold KV, or will by the plans in flight, the most senior first."""
        return sorted(
            (lane for lane in self.lanes.values() if lane.is_running), key=lambda lane: seniority(lane.request)
        )

    def ahead(self) -> Iterator[Lane]:
        return (lane for lane in self.lanes.values() if lane.is_ahead)

    @property
    def running_requests(self) -> int:
        return sum(lane.is_running for lane in self.lanes.values())

    def admit(self, request: Request) -> Lane:
        """A lane for the request, from the plan that is being made."""
        lane = Lane(self._take_number(), self.peer, request, self.info.page_size, self._next_seq)
        self.lanes[lane.number] = request.lane = lane
        return lane

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
        for lane in self.lanes.values():
            lane.held = False

    # --- plans and results -------------------------------------------------------------------------------------------

    @property
    def takes_plan(self) -> bool:
        return len(self.flights) < PLANS_IN_FLIGHT and self.moves

    @property
    def next_seq(self) -> int:
        return self._next_seq

    def depart(self, flight: Flight) -> None:
        if not self.flights:
            self._moved_s = flight.sent_s
        self.flights.append(flight)
        self._next_seq += 1

    def land(self, result: wire.StepResult, now_s: float) -> list[tuple[Lane, wire.Outcome]] | None:
        """Take over a step's figures.

        Returns:
            The outcomes of requests that are not over; None if this is not the result of the next plan in flight.
        """
        if not self.flights or self.flights[0].seq != result.seq:
            return None
        flight = self.flights.popleft()
        self.capacity, self._moved_s = result.capacity, now_s
        work, outcomes = Work(), []
        for outcome in result.outcomes:
            lane = self.lanes.get(outcome.lane)
            if lane is None or lane.ended or lane.admitted_seq > result.seq:
                continue
            self.short |= outcome.declined and lane.settled
            work += lane.apply(result.seq, outcome)
            outcomes.append((lane, outcome))
        for lane in flight.lanes:
            lane.land(result.seq)
        self.cost.observe(work, result.times.total_s)
        self._recent_step_s.append(result.times.total_s)
        return outcomes

    # --- progress ----------------------------------------------------------------------------------------------------

    def on_heartbeat(self, progress: wire.Progress, limit_s: float) -> None:
        self._step_age_s = progress.step_age_s
        self.moves = progress.step_age_s <= limit_s

    def is_stalled(self, now_s: float, limit_s: float) -> bool:
        """A step that does not end, or a plan or result that got lost."""
        return bool(self.flights) and (self._step_age_s > limit_s or now_s - self._moved_s > limit_s)

    def figures(self) -> dict[str, Any]:
        return {
            "model_id": self.info.model_id,
            "capacity_tokens": self.capacity_tokens,
            "page_size": self.info.page_size,
            "free_tokens": self.capacity.free_tokens,
            "evictable_tokens": self.capacity.evictable_tokens,
            "pinned_tokens": self.capacity.pinned_tokens,
            "reserved_tokens": sum(flight.reserved_tokens for flight in self.flights),
            "running": self.running_requests,
            "ahead": sum(1 for _ in self.ahead()),
            "plans_in_flight": len(self.flights),
            "last_seq": self._next_seq - 1 - len(self.flights),
            "recent_step_s": _quantiles(self._recent_step_s),
        }


def _quantiles(seconds: Collection[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: ordered[int(share * (len(ordered) - 1))] for name, share in shares.items()} if ordered else {}
