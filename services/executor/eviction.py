"""Which leaf of the prefix cache goes first: the policies by name, and the leaves in their order.

Knows nodes and their figures. Does not know whose leaves may be taken, nor how a leaf is taken.

Between tenants only the time of the last use counts: how often, or with what priority, is for each to say of its own.

A rank only rises while a node is idle or used: so the leaves lie in a heap by the rank that each had when it was put
there, and a leaf that comes up with a higher one is put back. What a cheap use has left goes before everything else.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TypeAlias

from services.executor.nodes import Node
from shared.config import EvictionPolicy
from shared.invariant import require

Rank: TypeAlias = tuple[int, int, int]  # the least goes first
DEAR: Rank = (1, 0, 0)  # all below it was left by cheap uses
Policy: TypeAlias = Callable[[Node], Rank]


def least_recently_used(node: Node) -> Rank:
    return not node.is_cheap, 0, node.last_used


def least_frequently_used(node: Node) -> Rank:
    return not node.is_cheap, node.hits, node.last_used


def lowest_priority(node: Node) -> Rank:
    return not node.is_cheap, node.priority, node.last_used


POLICIES: dict[EvictionPolicy, Policy] = {
    "lru": least_recently_used,
    "lfu": least_frequently_used,
    "priority": lowest_priority,
}


class Leaves:
    """The leaves of one tenant that nobody has pinned, and some nodes that have been such leaves."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._heap: list[tuple[Rank, int, Node]] = []  # (rank when queued, tie-break, node)
        self._queueings = 0

    def add(self, leaf: Node) -> None:
        if not leaf.queued:
            leaf.queued = True
            self._queueings += 1
            heapq.heappush(self._heap, (self._policy(leaf), self._queueings, leaf))

    def first(self) -> Node | None:
        """The leaf that goes first; None if there is no leaf."""
        while self._heap:
            queued_rank, _, node = self._heap[0]
            if node.is_idle_leaf and self._policy(node) == queued_rank:
                return node
            self._take()
            if node.is_idle_leaf:
                self.add(node)
        return None

    def pop(self) -> Node | None:
        """Take out the leaf that goes first."""
        return None if self.first() is None else self._take()

    def check_integrity(self, nodes: list[Node]) -> None:
        """Raises BrokenInvariant unless these nodes' idle leaves can all be evicted, in the right order."""
        queued = {node for _, _, node in self._heap}
        require(len(queued) == len(self._heap), "a node is queued twice")
        require(queued == {node for node in nodes if node.queued}, "the eviction queue and the nodes disagree")
        require(all(rank <= self._policy(node) for rank, _, node in self._heap), "a node was queued too far back")

    def _take(self) -> Node:
        node = heapq.heappop(self._heap)[2]
        node.queued = False
        return node
