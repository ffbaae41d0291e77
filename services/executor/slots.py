"""Which KV slots are free, as runs of neighbours. Knows numbers only, nothing of tensors, tokens or who holds a slot.

A slot is the place of one token's key and value. Slots are handed out in whole pages, and as few runs as possible, so
that what belongs together can be read as one view:

    - What continues an earlier allocation is put right behind it (`after`), if that place is free.
    - Who is going to continue says how far (`ahead`): as many slots behind its last one are claimed for it. They stay
      free, but nobody else gets them as long as there are others.
    - In an emptier pool what begins is put in the middle of the longest run, so that it can grow beyond its claim;
      else where it fits best.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from shared.invariant import BrokenInvariant

Slots = NDArray[np.int64]

SPACIOUS = 2  # a run with so many times the room that is wanted


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
        self._free_tokens = 0  # unclaimed
        # The free runs [start, end) that nobody has claimed, never two that touch, in three orders.
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}
        self._by_length: list[tuple[int, int]] = []  # (length, start), sorted
        self._claims: dict[int, int] = {}  # free runs [start, end) that are claimed by who holds the slot before them
        self._claimed_tokens = 0
        self._add(0, capacity_tokens)

    @property
    def free_tokens(self) -> int:
        """Claimed or not."""
        return self._free_tokens + self._claimed_tokens

    @property
    def unclaimed_tokens(self) -> int:
        return self._free_tokens

    @property
    def longest_run(self) -> int:
        return self._by_length[-1][0] if self._by_length else 0

    def room_behind(self, after: int | None) -> int:
        """How many slots behind this one its holder can have."""
        if after is None:
            return 0
        claim_end = self._claims.get(after + 1, after + 1)
        return self._end_of.get(claim_end, claim_end) - after - 1

    def allocate(self, tokens: int, after: int | None = None, ahead: int = 0) -> Slots:
        """Take slots for `tokens` tokens, whole pages, in the order in which they are to be filled.

        Args:
            after: the slot that the new ones continue; None if they continue nothing.
            ahead: how many slots to claim behind the last one, whole pages.

        Raises:
            ValueError: fewer are free, or not whole pages.
        """
        if tokens > self.free_tokens or tokens % self.page_size or ahead % self.page_size:
            raise ValueError(f"cannot take {tokens} of {self.free_tokens} free slots in pages of {self.page_size}")
        if after is not None:
            self.give_up_claim(after)
        if tokens > self._free_tokens:
            for start in list(self._claims):
                self._unclaim(start)
        runs = list(self._take_runs(tokens, after, ahead))
        if not runs:
            return np.empty(0, np.int64)
        self._claim(int(runs[-1][-1]) + 1, ahead)
        return np.concatenate(runs)

    def give_up_claim(self, after: int) -> None:
        """What is claimed behind this slot, if anything, is anybody's again."""
        if after + 1 in self._claims:
            self._unclaim(after + 1)

    def free(self, slots: Slots) -> None:
        """Take slots back, whole pages in any order. They must not be free already: see `check_integrity`."""
        for start, end in runs_of(slots):
            self._add(start, end)

    def free_runs(self) -> list[tuple[int, int]]:
        """The free runs [start, end), by start; a claim is a run of its own."""
        return sorted((*self._end_of.items(), *self._claims.items()))

    def check_integrity(self) -> None:
        """Raises BrokenInvariant unless the free runs are sound and all orders of them agree."""
        previous_end = 0
        for start, end in self.free_runs():
            if not previous_end <= start < end <= self.capacity_tokens:
                raise BrokenInvariant(f"free run [{start}, {end}) overlaps its neighbour or leaves the pool")
            if start % self.page_size or end % self.page_size:
                raise BrokenInvariant(f"free run [{start}, {end}) does not lie on pages of {self.page_size}")
            previous_end = end
        runs = sorted(self._end_of.items())
        if self._start_of.keys() & self._end_of.keys():
            raise BrokenInvariant("two free runs touch")
        if {end: start for start, end in runs} != self._start_of:
            raise BrokenInvariant("the free runs' starts and ends disagree")
        if sorted((end - start, start) for start, end in runs) != self._by_length:
            raise BrokenInvariant("the free runs by length disagree with the free runs")
        counted = (sum(end - start for start, end in runs), sum(end - start for start, end in self._claims.items()))
        if counted != (self._free_tokens, self._claimed_tokens):
            raise BrokenInvariant(f"{counted} slots are free and claimed, others are counted")

    def _take_runs(self, tokens: int, after: int | None, ahead: int) -> Iterator[Slots]:
        if after is not None and after + 1 in self._end_of and tokens:
            start = after + 1
            count = min(tokens, self._end_of[start] - start)
            yield self._take(start, start, start + count)
            tokens -= count
        while tokens:
            length, start = self._fitting(tokens + ahead, tokens)
            count = min(tokens, length)
            spare = length - count - ahead
            at = start + spare // 2 // self.page_size * self.page_size if spare > SPACIOUS * (count + ahead) else start
            yield self._take(start, at, at + count)
            tokens -= count

    def _fitting(self, *lengths: int) -> tuple[int, int]:
        """A free run (length, start): the shortest that has the first of these lengths, or else the next; the longest.

        A spacious pool is better used from its longest run.
        """
        longest = self._by_length[-1]
        if longest[0] > (SPACIOUS + 1) * lengths[0]:
            return longest
        for length in lengths:
            at = bisect_left(self._by_length, (length, 0))
            if at < len(self._by_length):
                return self._by_length[at]
        return longest

    def _claim(self, start: int, tokens: int) -> None:
        run_end = self._end_of.get(start)
        if run_end is not None and tokens:
            end = min(start + tokens, run_end)
            self._take(start, start, end)
            self._claims[start] = end
            self._claimed_tokens += end - start

    def _unclaim(self, start: int) -> None:
        end = self._claims.pop(start)
        self._claimed_tokens -= end - start
        self._add(start, end)

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
        self._free_tokens += end - start

    def _drop(self, start: int) -> tuple[int, int]:
        end = self._end_of.pop(start)
        del self._start_of[end]
        del self._by_length[bisect_left(self._by_length, (end - start, start))]
        self._free_tokens -= end - start
        return start, end


def runs_of(slots: Slots) -> Iterator[tuple[int, int]]:
    """The runs [start, end) of consecutive numbers, in the order in which they stand."""
    if not len(slots):
        return
    breaks = np.flatnonzero(np.diff(slots) != 1) + 1
    for first, last in zip([0, *breaks.tolist()], [*breaks.tolist(), len(slots)], strict=True):
        yield int(slots[first]), int(slots[last - 1]) + 1
