"""The radix tree as one log line: its shape and how it is used, no tokens and no names.

Knows nodes, and when the tree's counter of uses stood where. Does not know who reads the line.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import Any

from services.executor.nodes import Node
from services.executor.radix_cache import RadixCache

MOST_NODES = 2000  # the most recently used
NOTE_EVERY_S = 1.0
MOST_NOTES = 4096


class UseTimes:
    """Each note is a time, and how many uses there had been by then. The older they are, the fewer are kept."""

    def __init__(self) -> None:
        self._uses: list[int] = []
        self._at_s: list[float] = []

    def note(self, uses: int, now_s: float) -> None:
        if self._at_s and (now_s - self._at_s[-1] < NOTE_EVERY_S or uses == self._uses[-1]):
            return
        self._uses.append(uses)
        self._at_s.append(now_s)
        if len(self._at_s) > MOST_NOTES:
            half = MOST_NOTES // 2
            self._uses[:half], self._at_s[:half] = self._uses[1:half:2], self._at_s[1:half:2]

    def age_s(self, use: int, now_s: float) -> float:
        """How long ago that use was, at least."""
        at = bisect_left(self._uses, use)
        return now_s - self._at_s[at] if at < len(self._at_s) else 0.0


def sketch(cache: RadixCache, times: UseTimes, now_s: float) -> dict[str, Any]:
    """The line's fields. A node is [number, parent, tokens, age of its last use in seconds, pins, hits]."""
    is_small = cache.nodes <= MOST_NODES
    shown = [node for _, node in cache.walk()] if is_small else list(islice(cache.walk_recent(), MOST_NODES))
    numbers = {node.number for node in shown}
    return {
        "total": cache.nodes,
        "tree_tokens": cache.cached_tokens,
        "nodes": [
            [
                node.number,
                _parent(node, numbers),
                len(node.tokens),
                round(times.age_s(node.last_used, now_s), 1),
                node.pins,
                node.hits,
            ]
            for node in shown
        ],
    }


def _parent(node: Node, shown: set[int]) -> int | None:
    """The nearest one above that is shown, too; None below the root."""
    above = node.parent
    while above is not None and above.number not in shown:
        above = above.parent
    return None if above is None else above.number
