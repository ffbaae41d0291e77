"""The requests that wait at one executor, or at none, in the order in which they should start.

    1. between tenants, the shares decide who may start; among those that may, 3 and 4 do
    2. a tenant's own: the highest priority
    3. those that have waited for max_wait_s, the oldest of them first
    4. the policy

Sorted at all times: what changes is moved, and nothing else is looked at. `arrived_s` rises with `order`, so those that
have waited too long are the oldest. Does not know plans, room or promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from sortedcontainers import SortedDict

from services.scheduler import policy as policies
from services.scheduler.policy import SortKey
from shared import wire
from shared.config import Policy
from shared.invariant import require

if TYPE_CHECKING:
    from services.scheduler.fair_shares import FairShares
    from services.scheduler.prefix_index import Follower, PrefixIndex
    from services.scheduler.request import Request


@dataclass(slots=True)
class Line:
    """Those of one tenant and one priority."""

    preferred: SortedDict = field(default_factory=SortedDict)  # by the policy's key
    oldest: SortedDict = field(default_factory=SortedDict)  # by arrival


class Place(NamedTuple):
    request: Request
    line: Line
    rank: int
    key: SortKey


class Head(NamedTuple):
    """The next of a tenant, what decides between it and those of other tenants, and who comes behind it."""

    request: Request
    key: SortKey
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
        self._lines: dict[str, SortedDict] = {}  # by tenant: its lines by negative priority
        self._places: dict[Follower, Place] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Request]:
        return (place.request for place in self._places.values())

    def __contains__(self, request: Request) -> bool:
        return request in self._places

    def add(self, request: Request) -> None:
        """Sets its hint, and keeps it exact while it waits here."""
        rank = -request.priority if self._policy.ranked else 0
        line = self._line(request.tenant, rank)
        if request in self._places or request.order in line.oldest:
            raise ValueError(f"number {request.order} by arrival waits here already")
        if self._index is None:
            request.hint_tokens = 0
        else:
            self._index.follow(request)
        key = self._policy.key(request)
        self._places[request] = Place(request, line, rank, key)
        line.preferred[key] = line.oldest[request.order] = request

    def remove(self, request: Request) -> None:
        """Raises KeyError if it is not there."""
        _, line, rank, key = self._places.pop(request)
        del line.preferred[key], line.oldest[request.order]
        if not line.oldest:
            lines = self._lines[request.tenant]
            del lines[rank]
            if not lines:
                del self._lines[request.tenant]
        if self._index is not None:
            self._index.leave(request)

    def apply(self, events: Iterable[wire.TreeEvent]) -> None:
        """What has changed in the executor's tree. Raises ValueError if it does not fit."""
        for follower in self._index.apply(events) if self._index is not None else ():
            place = self._places.get(follower)
            if place is not None:
                self._move(place, self._policy.key(place.request))

    def candidates(self, now_s: float) -> Iterator[Request]:
        """Those that wait, in the order in which they should start.

        What was given may be removed, and shares may be charged, before the next is asked for. No more may change.
        """
        heads = {tenant: head for tenant in self._lines if (head := self._head(self._tenants(tenant, now_s), now_s))}
        while heads:
            tenant = min(self._shares.eligible(heads), key=lambda tenant: heads[tenant].key)
            head = heads.pop(tenant)
            yield head.request
            following = self._head(head.rest, now_s)
            if following is not None:
                heads[tenant] = following

    # --- between tenants, and within one -----------------------------------------------------------------------------

    def _head(self, rest: Iterator[Request], now_s: float) -> Head | None:
        request = next(rest, None)
        if request is None:
            return None
        key = (0, request.order) if self._is_overdue(request, now_s) else (1, *self._policy.key(request))
        return Head(request, key, rest)

    def _tenants(self, tenant: str, now_s: float) -> Iterator[Request]:
        """A tenant's own, in order."""
        for line in list(self._lines[tenant].values()):
            for request in _in_order(line.oldest):
                if not self._is_overdue(request, now_s):
                    break
                yield request
            for request in self._preferred(tenant, line):
                if not self._is_overdue(request, now_s):
                    yield request

    def _preferred(self, tenant: str, line: Line) -> Iterator[Request]:
        if self._index is None or not self._policy.depth_first:
            yield from _in_order(line.preferred)
            return
        for follower in self._index.depth_first(tenant):
            place = self._places.get(follower)
            if place is not None and place.line is line:
                yield place.request

    def _is_overdue(self, request: Request, now_s: float) -> bool:
        return now_s - request.arrived_s >= self._max_wait_s

    # --- lines -------------------------------------------------------------------------------------------------------

    def _line(self, tenant: str, rank: int) -> Line:
        lines = self._lines.setdefault(tenant, SortedDict())
        line: Line | None = lines.get(rank)
        if line is None:
            line = lines[rank] = Line()
        return line

    def _move(self, place: Place, key: SortKey) -> None:
        """To where its key says now."""
        if key != place.key:
            del place.line.preferred[place.key]
            place.line.preferred[key] = place.request
            self._places[place.request] = place._replace(key=key)

    def check_integrity(self) -> None:
        """Raises BrokenInvariant with what is wrong."""
        lines = {(tenant, rank): line for tenant, of in self._lines.items() for rank, line in of.items()}
        require(all(self._lines.values()), "a tenant is kept for nothing")
        require(sum(len(line.oldest) for line in lines.values()) == len(self._places), "a request is in no line")
        for request, line, rank, key in self._places.values():
            require(lines.get((request.tenant, rank)) is line, "a request stands in a line that is gone")
            require(key == self._policy.key(request), "a request is filed under a key that is not its own any more")
            require(line.preferred.get(key) is request, "a request is missing where the policy wants it")
            require(line.oldest.get(request.order) is request, "a request is missing by age")
            require(len(line.preferred) == len(line.oldest), "a line has another length by age")


def _in_order(line: SortedDict) -> Iterator[Request]:
    """The first to the last, whoever leaves meanwhile."""
    at = 0
    while at < len(line):
        key, request = line.peekitem(at)
        yield request
        at = line.bisect_right(key)
