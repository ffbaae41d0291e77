"""Whether the gateway has room for a request: what is open here is bounded, in all and by tenant as in the scheduler.

A refusal must be quick and cheap, also when nine of ten are refused. So when the scheduler has had no room for a
tenant, its next ones are refused here for a moment, without going through a tokenizer. Those refused are told to come
back one after the other, as places become free, and not all at once. No place is held for them.

Pure: time comes in. Does not know what a request asks for.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from shared import fair_room, wire
from shared.drain_rate import DrainRate

HOLD_S = 0.5  # the longest that a tenant is refused here for what the scheduler has said
LONGEST_S = 60.0


class Line(msgspec.Struct):
    """Those of a tenant that were told to come back."""

    until_s: float  # the last of them
    error: wire.Error | None = None  # the scheduler's, with the time in which one place becomes free
    held_until_s: float = float("-inf")


class Admission:
    """Args:
    max_open: generations that are open at once, and no request has more.
    """

    def __init__(self, max_open: int) -> None:
        self._max_open = max_open
        self._open: Counter[str] = Counter()  # by tenant
        self._drain = DrainRate()
        self._lines: dict[str, Line] = {}

    @property
    def open(self) -> int:
        return self._open.total()

    def refusal(self, tenant: str, count: int, now_s: float) -> wire.Error | None:
        """Why so many more are not taken in."""
        line = self._lines.get(tenant)
        if line is not None and line.error is not None and now_s < line.held_until_s:
            return self._in_turn(tenant, line.error, now_s)
        own = self._open[tenant] if tenant else 0
        excess = fair_room.excess(count, own=own, free=self._max_open - self.open)
        if not excess:
            return None
        retry_after_s = min(self._drain.about_s(now_s, requests=excess), LONGEST_S)
        error = wire.Error("too many open requests; try again later", "overloaded", None, 429, retry_after_s)
        return self._in_turn(tenant, error, now_s) if count == 1 else error  # there may be room for a single one

    def opened(self, tenant: str, count: int, now_s: float) -> None:
        if not self.open:
            self._drain.restart(now_s)
        self._open[tenant] += count

    def ended(self, tenant: str, now_s: float) -> None:
        """One of them."""
        self._drain.left(now_s)
        self._open[tenant] -= 1
        if not self._open[tenant]:
            del self._open[tenant]

    def refused(self, tenant: str, outputs: int, error: wire.Error, now_s: float) -> wire.Error:
        """The scheduler has refused one of so many outputs of a request. Returns what its client is told."""
        if error.code != "overloaded" or error.retry_after_s is None:
            return error
        if outputs > 1:  # they may have filled the queue themselves: that says nothing about the next request
            return msgspec.structs.replace(error, retry_after_s=min(error.retry_after_s * outputs, LONGEST_S))
        told = self._in_turn(tenant, error, now_s)
        line = self._lines[tenant]
        line.error, line.held_until_s = error, now_s + min(error.retry_after_s, HOLD_S)
        return told

    def _in_turn(self, tenant: str, error: wire.Error, now_s: float) -> wire.Error:
        turn_s = error.retry_after_s or 0.0
        line = self._lines.setdefault(tenant, Line(now_s))
        line.until_s = min(max(line.until_s, now_s) + turn_s, now_s + LONGEST_S)
        return msgspec.structs.replace(error, retry_after_s=line.until_s - now_s)
