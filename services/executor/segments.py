"""What the sequences of a batch share, from the tree's nodes: the parts of their contexts that attention reads once.

Knows chunks, and the nodes and slots of their lanes. Does not know tensors or how attention is computed.

In the order of the tree, whoever shares a node stands side by side; so a segment's queries are one block of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from services.executor.attention.base import Segment, SlotRun
from services.executor.chunk import Chunk
from services.executor.nodes import Node
from services.executor.slots import Slots

SHARED_TOKENS = 16  # fewer are read again for each: merging the results of one more segment costs as much


def in_tree_order(chunks: Iterable[Chunk]) -> list[Chunk]:
    """By the paths of their nodes, so that those below a node are neighbours."""
    return sorted(chunks, key=lambda chunk: (chunk.lane.namespace, [node.number for node in _path(chunk)]))


def segments_of(chunks: Sequence[Chunk]) -> tuple[Segment, ...]:
    """The segments of chunks in tree order: each longest path with the same sharers, then each sequence's own end."""
    sharing = _Sharing(chunks)
    ends = [
        chunk.lane.slots[start : chunk.start + chunk.rows] for chunk, start in zip(chunks, sharing.own, strict=True)
    ]
    causal = (
        Segment(first, end, joined((*before, *runs)), causal=True)
        for (first, end), before, runs in zip(pairwise(sharing.rows), sharing.before, _runs(ends), strict=True)
    )
    return (*sharing.segments, *causal)


class _Sharing:
    """Walks down the paths of all chunks at once."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.rows = [0]
        for chunk in chunks:
            self.rows.append(self.rows[-1] + chunk.rows)
        self.segments: list[Segment] = []
        self.own = [0] * len(chunks)  # the position where each sequence's own end begins
        self.before: list[tuple[SlotRun, ...]] = [()] * len(chunks)  # what it shares just before, too short a segment
        self._paths = [_path(chunk) for chunk in chunks]
        self._part(0, len(chunks), 0, 0, ())

    def _part(self, first: int, end: int, depth: int, start: int, before: tuple[SlotRun, ...]) -> None:
        """Chunks [first, end) share `start` tokens in `depth` nodes: find who shares the next node."""
        while first < end:
            stop = first + 1
            if depth < len(self._paths[first]):
                node = self._paths[first][depth]
                while stop < end and self._paths[stop][depth : depth + 1] == [node]:
                    stop += 1
            if stop - first > 1:
                self._follow(first, stop, depth, start, before)
            else:
                self.own[first], self.before[first] = start, before
            first = stop

    def _follow(self, first: int, end: int, depth: int, start: int, before: tuple[SlotRun, ...]) -> None:
        """Chunks [first, end) share the next node, and perhaps more."""
        highest, lowest = self._paths[first], self._paths[end - 1]
        runs = before
        while depth < len(highest) and highest[depth] is lowest[depth]:
            runs = joined((*runs, *highest[depth].runs))
            start += len(highest[depth].slots)
            depth += 1
        if sum(run.length for run in runs) >= SHARED_TOKENS:
            self.segments.append(Segment(self.rows[first], self.rows[end], runs, causal=False))
            runs = ()
        self._part(first, end, depth, start, runs)


def joined(runs: Sequence[SlotRun]) -> tuple[SlotRun, ...]:
    """Neighbours made one."""
    result: list[SlotRun] = []
    for run in runs:
        if result and result[-1].start + result[-1].length == run.start:
            result[-1] = SlotRun(result[-1].start, result[-1].length + run.length)
        else:
            result.append(run)
    return tuple(result)


def _path(chunk: Chunk) -> list[Node]:
    """From below the root to the node that the lane has pinned."""
    path = []
    node = chunk.lane.node
    while node is not None and node.parent is not None:
        path.append(node)
        node = node.parent
    return path[::-1]


def _runs(parts: Sequence[Slots]) -> list[list[SlotRun]]:
    """Each part's runs; all found in one go."""
    slots = np.concatenate(parts)
    ends = np.cumsum([len(part) for part in parts])
    breaks = np.union1d(np.flatnonzero(np.diff(slots) != 1) + 1, ends)
    starts = np.concatenate(([0], breaks[:-1]))
    found: list[list[SlotRun]] = [[] for _ in parts]
    owners = np.searchsorted(ends, starts, side="right").tolist()
    for owner, slot, length in zip(owners, slots[starts].tolist(), (breaks - starts).tolist(), strict=True):
        found[owner].append(SlotRun(slot, length))
    return found
