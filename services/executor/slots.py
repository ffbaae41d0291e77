"""Which KV slots are free, as runs of neighbours. Knows numbers only, nothing of tensors, tokens or who holds a slot.

A slot is the place of one token's key and value. Slots are handed out in whole pages, and as few runs as possible, so
that what belongs together can be read as one view:

    - what continues an earlier allocation is put right behind it (`after`), if that place is free;
    - anything else starts in the middle of the largest free run, so that it and its neighbour on the left can grow.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from shared.invariant import BrokenInvariant

Slots = NDArray[np.int64]


class SlotAllocator:
    """Args:
    capacity_tokens: slots in all, a multiple of page_size.
    page_size: slots that are handed out together; every run starts and ends on a page.
    """

    def __init__(self, capacity_tokens: int, page_size: int = 1) -> None:
        if capacity_tokens <= 0 or capacity_tokens % page_size:
            raise ValueError(f"capacity {capacity_tokens} is not a positive multiple of page size {page_size}")
        self.capacity_tokens = capacity_tokens
        self.page_size = page_size
        self.free_tokens = 0
        # The free runs [start, end), never two that touch, in three orders.
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}
        self._by_length: list[tuple[int, int]] = []  # (length, start), sorted
        self._add(0, capacity_tokens)

    def allocate(self, tokens: int, after: int | None = None) -> Slots:
        """Take slots for `tokens` tokens, whole pages, in the order in which they are to be filled.

        Args:
            after: the slot that the new ones continue; None if they continue nothing.

        Raises:
            ValueError: fewer are free, or not whole pages.
        """
        if tokens > self.free_tokens or tokens % self.page_size:
            raise ValueError(f"cannot take {tokens} of {self.free_tokens} free slots in pages of {self.page_size}")
        runs = list(self._take_runs(tokens, after))
        return np.concatenate(runs) if runs else np.empty(0, np.int64)

    def free(self, slots: Slots) -> None:
        """Take slots back, whole pages in any order. They must not be free already: see `check_integrity`."""
        for start, end in runs_of(slots):
            self._add(start, end)

    def free_runs(self) -> list[tuple[int, int]]:
        """The free runs [start, end), by start."""
        return sorted(self._end_of.items())

    def check_integrity(self) -> None:
        """Raises BrokenInvariant unless the free runs are sound and all orders of them agree."""
        previous_end = -1
        for start, end in self.free_runs():
            if not previous_end < start < end <= self.capacity_tokens:
                raise BrokenInvariant(f"free run [{start}, {end}) overlaps, touches its neighbour or leaves the pool")
            if start % self.page_size or end % self.page_size:
                raise BrokenInvariant(f"free run [{start}, {end}) does not lie on pages of {self.page_size}")
            previous_end = end
        runs = self.free_runs()
        if {end: start for start, end in runs} != self._start_of:
            raise BrokenInvariant("the free runs' starts and ends disagree")
        if sorted((end - start, start) for start, end in runs) != self._by_length:
            raise BrokenInvariant("the free runs by length disagree with the free runs")
        if sum(end - start for start, end in runs) != self.free_tokens:
            raise BrokenInvariant(f"{self.free_tokens} slots are counted as free, the free runs hold another number")

    def _take_runs(self, tokens: int, after: int | None) -> Iterator[Slots]:
        if after is not None and after + 1 in self._end_of and tokens:
            start = after + 1
            count = min(tokens, self._end_of[start] - start)
            yield self._take(start, start, start + count)
            tokens -= count
        while tokens:
            length, start = self._by_length[-1]
            count = min(tokens, length)
            at = start + (length - count) // 2 // self.page_size * self.page_size
            yield self._take(start, at, at + count)
            tokens -= count

    def _take(self, run: int, start: int, end: int) -> Slots:
        """Take [start, end) out of the free run that starts at `run`."""
        run_end = self._end_of[run]
        self._drop(run)
        if run < start:
            self._put(run, start)
        if end < run_end:
            self._put(end, run_end)
        return np.arange(start, end, dtype=np.int64)

    def _add(self, start: int, end: int) -> None:
        if start in self._start_of:
            start = self._drop(self._start_of[start])[0]
        if end in self._end_of:
            end = self._drop(end)[1]
        self._put(start, end)

    def _put(self, start: int, end: int) -> None:
        self._end_of[start] = end
        self._start_of[end] = start
        insort(self._by_length, (end - start, start))
        self.free_tokens += end - start

    def _drop(self, start: int) -> tuple[int, int]:
        end = self._end_of.pop(start)
        del self._start_of[end]
        del self._by_length[bisect_left(self._by_length, (end - start, start))]
        self.free_tokens -= end - start
        return start, end


def runs_of(slots: Slots) -> Iterator[tuple[int, int]]:
    """The runs [start, end) of consecutive numbers, in the order in which they stand."""
    if not len(slots):
        return
    breaks = np.flatnonzero(np.diff(slots) != 1) + 1
    for first, last in zip([0, *breaks.tolist()], [*breaks.tolist(), len(slots)], strict=True):
        yield int(slots[first]), int(slots[last - 1]) + 1
