"""The requests that wait at one executor, or at none, in the order in which they should start.

    1. between tenants, the shares decide who may start; among those that may, one of each of which less than an even
       part runs goes first (of whom the fewest run, then the oldest), and then 3 and 4 decide (depth-first: the oldest)
    2. a tenant's own: the highest priority
    3. those that have waited for max_wait_s, the oldest of them first
    4. the policy

Sorted whenever somebody looks: what has changed is moved, and nothing else is looked at. `arrived_s` rises with
`order`, so those that have waited too long are the oldest. Does not know plans, room or promises.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from sortedcontainers import SortedList

from services.scheduler import policy as policies
from services.scheduler.lines import Line, Lines, in_order
from services.scheduler.policy import SortKey
from shared import wire
from shared.config import Policy
from shared.invariant import require

if TYPE_CHECKING:
    from services.scheduler.fair_shares import FairShares
    from services.scheduler.prefix_index import Follower, PrefixIndex
    from services.scheduler.request import Request


class Place(NamedTuple):
    request: Request
    line: Line
    key: SortKey


class Head(NamedTuple):
    """Where a tenant's next one stands among the tenants, and the tenant's from that one on."""

    key: SortKey  # of no two tenants alike
    tenant: str
    rest: Iterator[Request]


class WaitingQueue:
    """Args:
    max_wait_s: who has waited so long goes before what the policy prefers.
    index: what the executor's cache holds; None if there is no executor, and all hints are 0.
    """

    def __init__(self, policy: Policy, *, max_wait_s: float, shares: FairShares, index: PrefixIndex | None) -> None:
        self._policy = policies.POLICIES[policy]
        self._max_wait_s = max_wait_s
        self._shares = shares
        self._index = index
        self._tenants: dict[str, Lines] = {}
        self._ages = SortedList()  # of each tenant's first line
        self._turns = SortedList()
        self._places: dict[Follower, Place] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Request]:
        return (place.request for place in self._places.values())

    def __contains__(self, request: Request) -> bool:
        return request in self._places

    def add(self, request: Request) -> None:
        """Sets its hint, and keeps it exact while it waits here."""
        if request in self._places:
            raise ValueError(f"number {request.order} by arrival waits here already")
        if self._index is None:
            request.hint_tokens = 0
        else:
            self._index.follow(request)
        lines = self._tenants.get(request.tenant)
        if lines is None:
            lines = self._tenants[request.tenant] = Lines(request.tenant)
        key = self._policy.key(request)
        line = lines.add(request, -request.priority if self._policy.ranked else 0, key)
        self._places[request] = Place(request, line, key)
        self._note(lines)

    def remove(self, request: Request) -> None:
        """Raises KeyError if it is not there."""
        _, line, key = self._places.pop(request)
        lines = self._tenants[request.tenant]
        lines.remove(request, line, key)
        self._note(lines)
        if not lines:
            del self._tenants[request.tenant]
        if self._index is not None:
            self._index.leave(request)

    def apply(self, events: Iterable[wire.TreeEvent]) -> None:
        """What has changed in the executor's tree. Raises ValueError if it does not fit."""
        if self._index is not None:
            self._index.apply(events)

    def highest_priority(self, tenant: str) -> int | None:
        """Of the tenant's that wait here; None if there are none, or if the policy is blind to it."""
        lines = self._tenants.get(tenant)
        return -next(iter(lines)).rank if lines and self._policy.ranked else None

    @property
    def has_idle_tenants(self) -> bool:
        """Whether there are several tenants, and of one of those that wait here nothing runs."""
        return 0 in self._behind().values()

    def candidates(self, now_s: float) -> Iterator[Request]:
        """Those that wait, in the order in which they should start.

        What was given may be removed, and shares may be charged, before the next is asked for. No more may change.
        """
        if len(self._tenants) > 1:
            self._settle()
        others = self._heads(now_s)
        other = next(others, None)
        heads: list[Head] = []  # a heap: of tenants of which one was given
        spent: list[Head] = []  # of those that may not start one now
        is_open = False  # to those as well: all others were given, and have not taken it
        while heads or spent or other is not None:
            if other is not None and (not heads or other < heads[0]):
                head, other = other, next(others, None)
            elif heads:
                head = heapq.heappop(heads)
            else:
                is_open = self._has_creditor()
                if not is_open:
                    self._shares.eligible([head.tenant for head in spent])
                heads, spent = sorted(spent), []
                continue
            if self._shares.balance(head.tenant) <= 0 and not is_open:
                spent.append(head)
                continue
            yield next(head.rest)
            following = self._following(head, now_s)
            if following is not None:
                heapq.heappush(heads, following)

    def least_wanted(self) -> Request | None:
        """One that would be among the last to start; None if nobody waits."""
        for lines in self._tenants.values():
            *_, last = lines
            request: Request = last.preferred.peekitem(-1)[1]
            return request
        return None

    def oldest_s(self) -> float:
        """When the first of those that wait in front of their tenants' others arrived."""
        return min((arrived_s for _, arrived_s, _ in self._ages), default=0.0)

    # --- between tenants ---------------------------------------------------------------------------------------------

    def _heads(self, now_s: float) -> Iterator[Head]:
        """Of all tenants, in order, as it is at the beginning."""
        ages, turns, behind = list(self._ages), list(self._turns), self._behind()
        first = sorted((behind[tenant], order, tenant) for order, _, tenant in ages if tenant in behind)
        for running, order, tenant in first:
            yield Head((0, running, order), tenant, self._of(tenant, now_s))
        given = set(behind)
        for order, arrived_s, tenant in ages:
            if not self.is_overdue(arrived_s, now_s):
                break
            if tenant not in given:
                given.add(tenant)
                yield Head((1, order), tenant, self._of(tenant, now_s))
        for key, tenant in turns:
            if tenant not in given:
                yield Head((2, *key), tenant, self._of(tenant, now_s))

    def _behind(self) -> dict[str, int]:
        """Tenants of which nothing runs, or less than an even part of what does: how many. None, if one is alone."""
        if self._shares.is_alone():
            return {}
        even = (self._shares.all_open_requests - len(self)) / self._shares.open_tenants
        running = {name: self._shares.open_requests(name) - lines.requests for name, lines in self._tenants.items()}
        return {tenant: count for tenant, count in running.items() if not count or count < even}

    def _following(self, head: Head, now_s: float) -> Head | None:
        request = next(head.rest, None)
        if request is None:
            return None
        is_overdue = self.is_overdue(request.arrived_s, now_s)
        key = (1, request.order) if is_overdue else (2, *self._policy.key(request))
        return Head(key, head.tenant, chain((request,), head.rest))

    def _has_creditor(self) -> bool:
        """Whether a tenant that may start one still has somebody waiting."""
        return any(self._shares.balance(tenant) > 0 for tenant in self._tenants)

    def _note(self, lines: Lines) -> None:
        """Where the tenant stands among the tenants now."""
        age, turn = lines.first_age(), lines.first_turn()
        if age != lines.age:
            _replace(self._ages, lines.age, age)
            lines.age = age
        if turn != lines.turn:
            _replace(self._turns, lines.turn, turn)
            lines.turn = turn

    # --- within one --------------------------------------------------------------------------------------------------

    def _of(self, tenant: str, now_s: float) -> Iterator[Request]:
        """A tenant's own, in order."""
        for line in self._tenants[tenant]:
            for request in in_order(line.oldest):
                if not self.is_overdue(request.arrived_s, now_s):
                    break
                yield request
            for request in self._preferred(tenant, line):
                if not self.is_overdue(request.arrived_s, now_s):
                    yield request

    def _preferred(self, tenant: str, line: Line) -> Iterator[Request]:
        self._settle()
        if self._index is None or not self._policy.depth_first:
            yield from in_order(line.preferred)
            return
        for follower in self._index.depth_first(tenant):
            place = self._places.get(follower)
            if place is not None and place.line is line:
                yield place.request

    def is_overdue(self, arrived_s: float, now_s: float) -> bool:
        """Who came then has waited so long that no other of its tenant and priority may pass it."""
        return now_s - arrived_s >= self._max_wait_s

    def _settle(self) -> None:
        for follower in self._index.settle() if self._index is not None else ():
            place = self._places[follower]
            self._move(place, self._policy.key(place.request))

    def _move(self, place: Place, key: SortKey) -> None:
        """To where its key says now."""
        request, line, old_key = place
        if key != old_key:
            del line.preferred[old_key]
            line.preferred[key] = request
            self._places[request] = Place(request, line, key)
            self._note(self._tenants[request.tenant])

    # --- checking ----------------------------------------------------------------------------------------------------

    def check_integrity(self) -> None:
        """Raises BrokenInvariant with what is wrong, once settled."""
        self._settle()
        lines = [line for of_tenant in self._tenants.values() for line in of_tenant]
        require(all(self._tenants.values()), "a tenant is kept for nothing")
        require(all(line.oldest for line in lines), "a line is kept for nobody")
        require(sum(len(line.oldest) for line in lines) == len(self._places), "a request is in no line")
        require(
            sum(len(line.preferred) for line in lines) == len(self._places), "a request is in no line by preference"
        )
        for request, line, key in self._places.values():
            require(line in self._tenants[request.tenant], "a request stands in a line that is gone")
            require(key == self._policy.key(request), "a request is filed under a key that is not its own any more")
            require(line.preferred.get(key) is request, "a request is missing where the policy wants it")
            require(line.oldest.get(request.order) is request, "a request is missing by age")
        ages = [age for of_tenant in self._tenants.values() if (age := of_tenant.first_age())]
        turns = [turn for of_tenant in self._tenants.values() if (turn := of_tenant.first_turn())]
        require(list(self._ages) == sorted(ages), "the tenants are out of order by age")
        require(list(self._turns) == sorted(turns), "the tenants are out of order by preference")


def _replace(entries: SortedList, old: object, new: object) -> None:
    if old is not None:
        entries.remove(old)
    if new is not None:
        entries.add(new)
