"""All the sequences of a trace as one tree of segments: runs of tokens that every request uses, and leaves, alike.

It is made of the whole trace at once, the future included. It does not know what is cached: that is `bounded.py`'s.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .trace import Record

Tokens = NDArray[np.int64]
NO_TOKENS: Tokens = np.empty(0, np.int64)
NEVER = 2**62


@dataclass(eq=False, slots=True)
class Segment:
    depth: int  # tokens before it
    tokens: Tokens
    children: dict[int, Segment] = field(default_factory=dict)  # by their first token
    uses: list[int] = field(default_factory=list)  # the requests that could reuse it, as numbers, rising

    def next_use(self, now: int) -> int:
        """The first request after this one that could reuse it."""
        place = bisect_right(self.uses, now)
        return self.uses[place] if place < len(self.uses) else NEVER


class Tree:
    """Boundaries lie wherever the sequences of two requests part, and where what a request can reuse or hold ends.

    A request can reuse all of its prompt but the last token.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._roots: dict[str, Segment] = {}
        for record in records:
            self._insert(record)
        self.paths = [list(self._path(record)) for record in records]  # of everything that a request holds
        for number, (record, path) in enumerate(zip(records, self.paths, strict=True)):
            for segment in path:
                if segment.depth < len(record.prompt_ids) - 1:
                    segment.uses.append(number)

    @property
    def tokens(self) -> int:
        """The working set: what an unbounded cache would hold in the end."""
        return sum(len(segment.tokens) for segment in {id(s): s for path in self.paths for s in path}.values())

    def _insert(self, record: Record) -> None:
        root = self._roots.setdefault(record.namespace, Segment(0, NO_TOKENS))
        tokens = np.array(record.token_ids, np.int64)
        reusable = max(len(record.prompt_ids) - 1, 0)
        _append(_append(root, tokens[:reusable]), tokens[reusable:])

    def _path(self, record: Record) -> Iterator[Segment]:
        tokens = np.array(record.token_ids, np.int64)
        segment = self._roots[record.namespace]
        at = 0
        while at < len(tokens):
            segment = segment.children[int(tokens[at])]
            at += len(segment.tokens)
            yield segment


def _append(segment: Segment, tokens: Tokens) -> Segment:
    """The segment at whose end `tokens` end, below the given one; boundaries are made as needed."""
    while len(tokens):
        child = segment.children.get(int(tokens[0]))
        if child is None:
            child = Segment(segment.depth + len(segment.tokens), tokens)
            segment.children[int(tokens[0])] = child
            return child
        common = _common(child.tokens, tokens)
        if common < len(child.tokens):
            _split(child, common)
        segment, tokens = child, tokens[common:]
    return segment


def _split(segment: Segment, at: int) -> None:
    """The segment keeps its first `at` tokens; the rest goes below it."""
    lower = Segment(segment.depth + at, segment.tokens[at:], segment.children)
    segment.tokens = segment.tokens[:at]
    segment.children = {int(lower.tokens[0]): lower}


def _common(ours: Tokens, theirs: Tokens) -> int:
    length = min(len(ours), len(theirs))
    differs = ours[:length] != theirs[:length]
    return int(differs.argmax()) if differs.any() else length
