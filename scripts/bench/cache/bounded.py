"""What a cache of limited size would reuse, one request at a time, in a given order.

Each request reuses what is cached of its prompt, then all of it and of its output is put in, and what is too much goes:
from the ends, never what the request itself holds. With `farthest_first` that is the offline optimum (Belady): what is
cached is always a set of prefixes, a token's next use is never before that of the tokens in front of it, and every
choice of what to keep has the same room left; so to keep what is used soonest is never worse.

Token by token: a segment of the tree is cached up to some token, and all its tokens are used alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .trace import Record
from .tree import Segment, Tree

# Which segment goes first, of those last held by some request: the one of the lowest rank, of equals the deepest.
# What stands behind a segment must never outrank it.
Rank = Callable[[Segment, int], int]


def farthest_first(segment: Segment, held_last: int) -> int:
    """The offline optimum."""
    return -segment.next_use(held_last)


def oldest_first(_segment: Segment, held_last: int) -> int:
    """Least recently used."""
    return held_last


class TooLarge(ValueError):
    """A request alone does not fit."""


@dataclass(slots=True)
class Cache:
    capacity_tokens: int
    rank: Rank
    tokens: int = 0
    cached: dict[int, int] = field(default_factory=dict)  # first tokens of each segment, by its identity
    _held_last: dict[int, int] = field(default_factory=dict)  # the request that held it last, by its identity
    _heap: list[tuple[int, int, int, int, Segment]] = field(default_factory=list)  # rank, -depth, tie-break, last held
    _queueings: int = 0

    def reuse(self, number: int, path: list[Segment], reusable_tokens: int) -> int:
        """Serve request `number`: what it finds, at most `reusable_tokens`."""
        found = self._found(path, reusable_tokens)
        for segment in path:
            self.tokens += len(segment.tokens) - self.cached.get(id(segment), 0)
            self.cached[id(segment)] = len(segment.tokens)
            self._held_last[id(segment)] = number
        self._shrink()
        for segment in path:
            self._queue(segment)
        return found

    def _found(self, path: list[Segment], reusable_tokens: int) -> int:
        found = 0
        for segment in path:
            cached = self.cached.get(id(segment), 0)
            found += cached
            if cached < len(segment.tokens):
                break
        return min(found, reusable_tokens)

    def _queue(self, segment: Segment) -> None:
        held_last = self._held_last[id(segment)]
        self._queueings += 1
        entry = (self.rank(segment, held_last), -segment.depth, self._queueings, held_last, segment)
        heapq.heappush(self._heap, entry)

    def _shrink(self) -> None:
        """Entries of what the request itself holds are out of date by now, and so are skipped."""
        while self.tokens > self.capacity_tokens:
            if not self._heap:
                raise TooLarge(f"a request needs {self.tokens} of {self.capacity_tokens} tokens")
            _, _, _, held_last, segment = heapq.heappop(self._heap)
            if held_last == self._held_last[id(segment)] and self.cached[id(segment)]:
                self._shorten(segment)

    def _shorten(self, segment: Segment) -> None:
        gone = min(self.cached[id(segment)], self.tokens - self.capacity_tokens)
        self.cached[id(segment)] -= gone
        self.tokens -= gone
        if self.cached[id(segment)]:
            self._queue(segment)


def reused_tokens(records: Sequence[Record], capacity_tokens: int, rank: Rank = farthest_first) -> list[int]:
    """For each request, the prompt tokens that it finds, one after another in the order of the records.

    Raises:
        TooLarge: some request does not fit even alone.
    """
    tree = Tree(records)
    cache = Cache(capacity_tokens, rank)
    return [
        cache.reuse(number, path, max(len(record.prompt_ids) - 1, 0))
        for number, (record, path) in enumerate(zip(records, tree.paths, strict=True))
    ]
