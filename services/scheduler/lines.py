"""One tenant's requests that wait at one place: a line for each priority, sorted by age and by what the policy prefers.

Does not know the policy, the clock or other tenants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sortedcontainers import SortedDict

from services.scheduler.policy import SortKey

if TYPE_CHECKING:
    from services.scheduler.request import Request

Age: TypeAlias = tuple[int, float, str]  # order of arrival, when it arrived, its tenant
Turn: TypeAlias = tuple[SortKey, str]  # what the policy says, its tenant


@dataclass(slots=True, eq=False)
class Line:
    rank: int
    preferred: SortedDict = field(default_factory=SortedDict)  # by the policy's key
    oldest: SortedDict = field(default_factory=SortedDict)  # by order of arrival


class Lines:
    """There is no empty line."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.age: Age | None = None  # of the first line's oldest, as the queue has noted it
        self.turn: Turn | None = None  # of the first line's most preferred, likewise
        self._lines = SortedDict()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __iter__(self) -> Iterator[Line]:
        """The lowest rank first. As it was: lines may go meanwhile."""
        return iter(list(self._lines.values()))

    @property
    def requests(self) -> int:
        return sum(len(line.oldest) for line in self._lines.values())

    def add(self, request: Request, rank: int, key: SortKey) -> Line:
        """Raises ValueError if one with its number is there."""
        line: Line | None = self._lines.get(rank)
        if line is None:
            line = self._lines[rank] = Line(rank)
        if request.order in line.oldest:
            raise ValueError(f"number {request.order} by arrival waits here already")
        line.preferred[key] = line.oldest[request.order] = request
        return line

    def remove(self, request: Request, line: Line, key: SortKey) -> None:
        del line.preferred[key], line.oldest[request.order]
        if not line.oldest:
            del self._lines[line.rank]

    def first_age(self) -> Age | None:
        if not self._lines:
            return None
        order, request = self._lines.peekitem(0)[1].oldest.peekitem(0)
        return order, request.arrived_s, self.tenant

    def first_turn(self) -> Turn | None:
        return (self._lines.peekitem(0)[1].preferred.peekitem(0)[0], self.tenant) if self._lines else None


def in_order(line: SortedDict) -> Iterator[Request]:
    """The first to the last, whoever leaves meanwhile."""
    at = 0
    while at < len(line):
        key, request = line.peekitem(at)
        yield request
        at = line.bisect_right(key)
