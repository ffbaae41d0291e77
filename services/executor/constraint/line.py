"""Who is compiled next: the tenants in turn, and of each one's constraints the oldest and the smallest in turn.

Knows names and sizes. Does not compile, and waits for nobody. A constraint can stand there for several tenants; it is
gone for all of them when it is taken.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from shared.invariant import require


@dataclass(slots=True)
class _Wants:
    """Of one tenant."""

    sizes: OrderedDict[str, int] = field(default_factory=OrderedDict)  # by key, the oldest first
    takes_smallest: bool = False  # at its next turn

    def choose(self) -> str:
        return min(self.sizes, key=self.sizes.__getitem__) if self.takes_smallest else next(iter(self.sizes))


class Line:
    def __init__(self) -> None:
        self._tenants: OrderedDict[str, _Wants] = OrderedDict()  # that want something, the next one first

    def waiting(self, tenant: str) -> int:
        """Constraints that stand there for this tenant."""
        return len(self._tenants[tenant].sizes) if tenant in self._tenants else 0

    def add(self, tenant: str, key: str, size: int) -> None:
        """Once for each tenant, however often it is added."""
        self._tenants.setdefault(tenant, _Wants()).sizes.setdefault(key, size)

    def take(self) -> str | None:
        """The next one; None if nobody wants anything."""
        if not self._tenants:
            return None
        tenant, wants = next(iter(self._tenants.items()))
        key = wants.choose()
        wants.takes_smallest = not wants.takes_smallest
        self._tenants.move_to_end(tenant)
        self._remove(key)
        return key

    def _remove(self, key: str) -> None:
        for tenant, wants in list(self._tenants.items()):
            wants.sizes.pop(key, None)
            if not wants.sizes:
                del self._tenants[tenant]

    def check_integrity(self) -> None:
        """Raises BrokenInvariant."""
        require(all(wants.sizes for wants in self._tenants.values()), "a tenant stands there for nothing")
