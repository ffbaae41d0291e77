"""Writes down what happens to the prefix cache's tree, so that others can hold an exact copy of it.

Knows the events of the wire. Does not know who reads them.
"""

from __future__ import annotations

import numpy as np

from services.executor.nodes import Node, Tokens
from shared import wire


class TreeLog:
    def __init__(self) -> None:
        self._events: list[wire.TreeEvent] = []
        self._numbers = 0

    def number(self) -> int:
        """For a new node; never the same again."""
        self._numbers += 1
        return self._numbers

    def take(self) -> tuple[wire.TreeEvent, ...]:
        """What has happened since last asked, in order."""
        events, self._events = tuple(self._events), []
        return events

    def stored(self, node: Node) -> None:
        self._events.append(stored(node))

    def grown(self, node: Node, tokens: Tokens) -> None:
        self._events.append(wire.Grown(node.number, _bytes(tokens)))

    def split(self, node: Node, upper: Node) -> None:
        self._events.append(wire.Split(node.number, len(upper.tokens), upper.number))

    def cut(self, node: Node, left_tokens: int) -> None:
        self._events.append(wire.Cut(node.number, left_tokens))


def stored(node: Node) -> wire.Stored:
    """The node as if it were new."""
    assert node.parent is not None
    parent = None if node.parent.parent is None else node.parent.number
    return wire.Stored(node.number, parent, node.namespace, _bytes(node.tokens))


def _bytes(tokens: Tokens) -> bytes:
    return tokens.astype(np.dtype("<i4")).tobytes()
