"""So many a minute, by a sliding window: how much of it is used, and when there will be room. Pure but for the storage.

Knows the two counts that the library keeps of a key: of the minute before, which weighs less the further it lies back,
and of the present one. Does not know what is counted, or for whom.
"""

from __future__ import annotations

from dataclasses import dataclass

from limits.aio.storage.base import SlidingWindowCounterSupport

WINDOW_S = 60
MARGIN_S = 0.001  # beyond the moment at which the bound itself is counted
ANY_AMOUNT = 2**53  # more than can be counted: what is used has to be counted also beyond the limit


@dataclass(frozen=True)
class Window:
    """Args:
    previous: counted in the window before, of which `previous_s` seconds still lie in the last minute.
    current: counted in the present window, which ends in `current_s` seconds.
    """

    limit: int
    previous: int
    previous_s: float
    current: int
    current_s: float

    @property
    def remaining(self) -> int:
        return max(0, self.limit - int(self.previous * self.previous_s / WINDOW_S + self.current))

    @property
    def room_in_s(self) -> float:
        """When one more will do, if nothing is added."""
        return self._below_in_s(self.limit)

    @property
    def empty_in_s(self) -> float:
        """When nothing will count any more, if nothing is added."""
        return self._below_in_s(1)

    def _below_in_s(self, bound: int) -> float:
        """When less than `bound` will be counted: in this window, or in the next, for which it is the previous."""
        if self.previous * self.previous_s / WINDOW_S + self.current < bound:
            return 0.0
        if self.current < bound:
            return self.previous_s - (bound - self.current) * WINDOW_S / self.previous + MARGIN_S
        return self.current_s + WINDOW_S * (1 - bound / self.current) + MARGIN_S


class Rate:
    """One limit, by key. Raises StorageError if the counts cannot be reached."""

    def __init__(self, storage: SlidingWindowCounterSupport, what: str) -> None:
        self._storage = storage
        self._what = what

    async def window(self, key: str, limit: int) -> Window:
        counts = await self._storage.get_sliding_window(self._key(key), WINDOW_S)
        previous, previous_s, current, current_s = counts
        return Window(limit, previous, previous_s, current, max(0.0, current_s - WINDOW_S))

    async def take(self, key: str, limit: int, amount: int = 1) -> bool:
        """False, and nothing is counted, if there is no room."""
        return await self._storage.acquire_sliding_window_entry(self._key(key), limit, WINDOW_S, amount)

    async def add(self, key: str, amount: int) -> None:
        """Count what has been used, room or not."""
        await self.take(key, ANY_AMOUNT, amount)

    def _key(self, key: str) -> str:
        return f"{self._what}/{key}"
