"""A plan under construction: what is left of room and time, and what has been put into it.

Keeps count. Who gets what is for the planner to say.
"""

from __future__ import annotations

from typing import NamedTuple

from services.scheduler import policy
from services.scheduler.account import Reason
from services.scheduler.budget import StepBudget
from services.scheduler.executors import Discount, Executor, Flight
from services.scheduler.fair_shares import FairShares
from services.scheduler.lane import Lane
from services.scheduler.request import Request
from shared import wire


class Reservation(NamedTuple):
    """Room for a first slice."""

    tokens: int
    discount: Discount | None = None


class Spread(NamedTuple):
    """The most room that tokens behind the slices of some lanes can take, however they are divided among them."""

    lanes: int
    page_size: int

    def room_for(self, tokens: int) -> int:
        """Each lane's may begin a page for their first one; whole pages follow."""
        pages = min(tokens, (tokens + self.lanes * (self.page_size - 1)) // self.page_size)
        return pages * self.page_size

    def tokens_within(self, room_tokens: int) -> int:
        """The most tokens that certainly find room in it."""
        pages = room_tokens // self.page_size
        return max(pages, pages * self.page_size - (self.lanes - 1) * (self.page_size - 1))


class Draft:
    """What it slices is planned on the lanes, and charged to their tenants, at once."""

    def __init__(self, executor: Executor, budget: StepBudget, shares: FairShares, now_s: float) -> None:
        self.executor = executor
        self.budget = budget
        self.now_s = now_s
        self.releases = list(executor.release_ended())
        self.relieves_room = False  # so none starts in it
        self._shares = shares
        self._running = executor.running_requests
        self._room_tokens = executor.room_tokens
        self._protected_tokens: dict[str, int] = {}  # by tenant: from it
        self._admits: list[wire.Admit] = []
        self._lanes: list[Lane] = []
        self._slices: list[wire.Slice] = []
        self._reserved_tokens = 0
        self._discounts: list[Discount] = []
        self._forced_tokens: dict[Lane, int] = {}  # what the lanes may want to spare for them
        self._wanted_tokens = 0  # the same, and for drafts
        self._serves_prompts = False
        self._crowds_out = False

    @property
    def free_slices(self) -> int:
        return self.executor.info.max_batch - len(self._slices)

    def takes_more(self) -> bool:
        """Whether there is a place for one more to start."""
        executor = self.executor
        has_place = self._running < executor.max_running and self.free_slices > 0
        return has_place and not (executor.full or self.relieves_room)

    def room_for(self, tenant: str, *, besides: int = 1) -> int:
        """Tokens of room for this tenant's requests; what is others' by their quotas only for one that is alone.

        Args:
            besides: of those that run, the request itself: 0 if it has not started.
        """
        if self._running <= besides:
            return self._room_tokens
        if tenant not in self._protected_tokens:
            self._protected_tokens[tenant] = self.executor.protected_from(tenant)
        return self._room_tokens - self._protected_tokens[tenant]

    def outlook_tokens(self) -> int:
        """Room that those that run will want beyond the plans in flight."""
        return sum(lane.outlook_tokens() for lane in self.executor.running())

    def unserved(self) -> list[Lane]:
        """Those that run and have no slice in this plan yet: the tenant with the best balance first, then by rank."""
        seq = self.executor.next_seq
        lanes = [lane for lane in self.executor.running() if lane.served_seq < seq and not lane.held]
        return sorted(lanes, key=lambda lane: (-self._shares.balance(lane.request.tenant), policy.seniority(lane)))

    def time_for(self, tokens: int, context: int) -> int:
        """How many of a prompt's next tokens there is time for."""
        chunk = self.budget.chunk(tokens, context)
        self._crowds_out |= tokens > 0 and not chunk
        return chunk

    def give_way(self, lane: Lane, reason: Reason) -> None:
        self.executor.preempt(lane.request, reason)
        self.releases += self.executor.release_ended()
        self._running -= 1

    def decode(self, lane: Lane, num_tokens: int) -> None:
        forced_tokens = self._ask_for_forced(lane, num_tokens - 1)
        self._wanted_tokens += max(self.executor.info.draft_tokens, forced_tokens)
        self.budget.spend_decode(num_tokens, lane.context_tokens())
        self._slice(lane, num_tokens, lane.growth_tokens(num_tokens))

    def chunk(self, lane: Lane, num_tokens: int) -> None:
        self._prompt_slice(lane, num_tokens, lane.growth_tokens(num_tokens))

    def start(self, request: Request, found_tokens: int, num_tokens: int, reservation: Reservation) -> Lane:
        lane = self.executor.admit(request, found_tokens)
        self._running += 1
        self._admits.append(request.admit(lane.number))
        if reservation.discount is not None:
            self._discounts.append(reservation.discount)
        self._prompt_slice(lane, num_tokens, reservation.tokens)
        return lane

    def finish(self) -> wire.StepPlan | None:
        """The plan, on its way; None if there is nothing to do."""
        if not (self._slices or self.releases):
            return None
        spare_tokens = self._take_spare_tokens()
        crowded = self._crowds_out and not self._serves_prompts
        self.executor.crowded_plans = self.executor.crowded_plans + 1 if crowded else 0
        seq, relieves = self.executor.next_seq, bool(self.releases)
        lanes, discounts = tuple(self._lanes), tuple(self._discounts)
        self.executor.depart(Flight(seq, lanes, self._reserved_tokens, discounts, relieves, self.now_s))
        return wire.StepPlan(seq, tuple(self._admits), tuple(self._slices), spare_tokens, tuple(self.releases))

    def _take_spare_tokens(self) -> int:
        """For drafts and forced tokens: what there is time for, and room that nobody who runs will want soon.

        Reserves it.
        """
        if not self._wanted_tokens:
            return 0
        info = self.executor.info
        lanes = [lane for lane in self._lanes if info.draft_tokens or lane.request.constraint_key is not None]
        room_tokens = min(self.room_for(lane.request.tenant) for lane in lanes) - self.outlook_tokens()
        spread = Spread(len(lanes), info.page_size)
        spare_tokens = self.budget.spare(min(self._wanted_tokens, spread.tokens_within(max(room_tokens, 0))))
        if spare_tokens:
            self._reserve(spread.room_for(spare_tokens))
            for lane in lanes:
                lane.allow_more(min(self._forced_tokens.get(lane, 0), spare_tokens))
        return spare_tokens

    def _ask_for_forced(self, lane: Lane, at_hand: int = 0) -> int:
        """Tokens to spare for those that its constraint may force, less some that its slice is for anyway."""
        self._forced_tokens[lane] = max(lane.forced_ask(self.executor.info.forced_tokens) - at_hand, 0)
        return self._forced_tokens[lane]

    def _prompt_slice(self, lane: Lane, num_tokens: int, reserved_tokens: int) -> None:
        if num_tokens == lane.remaining_tokens():
            self._wanted_tokens += self._ask_for_forced(lane)  # what every output begins with
        self.budget.spend_chunk(num_tokens, lane.context_tokens())
        self._serves_prompts = True
        self._slice(lane, num_tokens, reserved_tokens)

    def _slice(self, lane: Lane, num_tokens: int, reserved_tokens: int) -> None:
        self._shares.charge(lane.request.tenant, num_tokens)
        lane.plan(self.executor.next_seq, num_tokens, self.now_s)
        self._lanes.append(lane)
        self._slices.append(wire.Slice(lane.number, num_tokens))
        self._reserve(reserved_tokens)

    def _reserve(self, tokens: int) -> None:
        self._reserved_tokens += tokens
        self._room_tokens -= tokens
