"""Room for calls that ask the tokenizers on the side: their number, and the bytes that they hold until they end.

Both are bounded, in all and by tenant as in the scheduler. Does not know what is asked, or of whom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from services.gateway.errors import ApiError
from shared import fair_room, wire

MAX_HELD_BYTES = 64 * 1024 * 1024

FULL = wire.Error("too many open requests; try again later", "overloaded", status=429, retry_after_s=1.0)


class Share:
    """A bound that tenants share."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()  # by tenant

    def take(self, tenant: str, amount: int) -> None:
        """Raises ApiError (429) when there is no room for it."""
        own = self._taken[tenant] if tenant else 0
        if fair_room.excess(amount, own=own, free=self._most - self._taken.total()):
            raise ApiError(FULL)
        self._taken[tenant] += amount

    def give_back(self, tenant: str, amount: int) -> None:
        self._taken[tenant] -= amount
        if not self._taken[tenant]:
            del self._taken[tenant]

    @property
    def taken(self) -> int:
        return self._taken.total()


class TextCall:
    """One HTTP request's, with however many texts."""

    def __init__(self, tenant: str, room: Share) -> None:
        self.tenant = tenant
        self.held_bytes = 0
        self._room = room

    def hold(self, size: int) -> None:
        """So many bytes more, until the call ends. Raises ApiError (429) when there is no room for them."""
        self._room.take(self.tenant, size)
        self.held_bytes += size


class TextRoom:
    def __init__(self, max_calls: int, max_bytes: int = MAX_HELD_BYTES) -> None:
        self._calls = Share(max_calls)
        self._bytes = Share(max_bytes)

    @contextmanager
    def open(self, tenant: str, size: int) -> Iterator[TextCall]:
        """A call that begins with so many bytes. Raises ApiError (429) when there is no room for it."""
        self._calls.take(tenant, 1)
        call = TextCall(tenant, self._bytes)
        try:
            call.hold(size)
            yield call
        finally:
            self._bytes.give_back(tenant, call.held_bytes)
            self._calls.give_back(tenant, 1)

    @property
    def open_calls(self) -> int:
        return self._calls.taken

    @property
    def held_bytes(self) -> int:
        return self._bytes.taken
