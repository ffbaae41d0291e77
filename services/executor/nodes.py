"""A node of the prefix cache's tree, and what a request's use of it is worth.

Knows shapes only. Does not know how nodes are found, changed or evicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.executor.attention.base import SlotRun
from services.executor.slots import Slots, runs_of

Tokens = NDArray[np.int64]

NO_TOKENS: Tokens = np.empty(0, np.int64)
NO_SLOTS: Slots = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Use:
    """How a request uses the tree."""

    priority: int = 0
    is_cheap: bool = False  # what it leaves is the first to be evicted, until another request has found it


NORMAL = Use()


@dataclass(eq=False, repr=False, slots=True)
class Node:
    """A run of tokens below its parent. The root of a namespace has no parent, no number and owns nothing."""

    namespace: str
    parent: Node | None
    number: int = 0
    tokens: Tokens = field(default_factory=lambda: NO_TOKENS)
    slots: Slots = field(default_factory=lambda: NO_SLOTS)  # owned by the tree, one for each token
    children: dict[bytes, Node] = field(default_factory=dict)  # by their first page of tokens
    pins: int = 0  # of this node and of all below it
    last_used: int = 0
    hits: int = 0  # requests that have used it, besides the one that made it
    priority: int = 0  # the highest of all that have used it
    is_cheap: bool = False  # made by a cheap use, and no other request has used it since
    sealed: bool = False  # a prompt ends here: what follows becomes a node of its own
    queued: bool = False  # has its one entry among the leaves that may be evicted
    _runs: tuple[Slots, tuple[SlotRun, ...]] | None = None  # of these slots

    @property
    def is_idle_leaf(self) -> bool:
        return not self.pins and not self.children

    @property
    def runs(self) -> tuple[SlotRun, ...]:
        """Its slots as runs."""
        if self._runs is None or self._runs[0] is not self.slots:
            self._runs = self.slots, tuple(SlotRun(start, end - start) for start, end in runs_of(self.slots))
        return self._runs[1]

    def grow(self, tokens: Tokens, slots: Slots) -> None:
        """Put more at the end. A token added costs the same however long the node is, taken over many."""
        self.tokens, self.slots = _grown(self.tokens, tokens), _grown(self.slots, slots)

    def cut(self, length: int) -> None:
        """Keep the first `length` tokens. Over many cuts a token costs the same however long the node is."""
        self.tokens, self.slots = _cut(self.tokens, length), _cut(self.slots, length)


def _grown(run: Tokens, more: Tokens) -> Tokens:
    """`run` has its memory for itself, perhaps with room behind it."""
    room, end = run if run.base is None else run.base, len(run) + len(more)
    if end > len(room):
        room = np.empty(2 * end, np.int64)
        room[: len(run)] = run
    room[len(run) : end] = more
    return room[:end]


def _cut(run: Tokens, length: int) -> Tokens:
    """The memory is given back when less than half of it is in use."""
    room = run if run.base is None else run.base
    return run[:length].copy() if 2 * length < len(room) else run[:length]


def below(root: Node) -> Iterator[tuple[int, Node]]:
    """The nodes and how many tokens come before each, parents first, the root itself included."""
    stack = [(0, root)]
    while stack:
        depth, node = stack.pop()
        yield depth, node
        stack.extend((depth + len(node.tokens), child) for child in node.children.values())
