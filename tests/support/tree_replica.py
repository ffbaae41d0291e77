"""A copy of an executor's tree, kept from its events alone, in the plainest way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from services.executor.radix_cache import RadixCache
from shared import wire

Prefix = tuple[str, tuple[int, ...]]


@dataclass
class Copied:
    namespace: str
    parent: int | None
    tokens: tuple[int, ...]


@dataclass
class Replica:
    nodes: dict[int, Copied] = field(default_factory=dict)
    numbers: set[int] = field(default_factory=set)  # ever used

    def apply(self, events: Iterable[wire.TreeEvent]) -> None:
        for event in events:
            self._apply(event)

    def _apply(self, event: wire.TreeEvent) -> None:
        match event:
            case wire.Stored(number, parent, namespace, token_ids):
                assert parent is None or self.nodes[parent].namespace == namespace
                self._add(number, Copied(namespace, parent, _ids(token_ids)))
            case wire.Grown(number, token_ids):
                assert not self.children(number)
                self.nodes[number].tokens += _ids(token_ids)
            case wire.Split(number, tokens, upper):
                node = self.nodes[number]
                assert 0 < tokens < len(node.tokens)
                self._add(upper, Copied(node.namespace, node.parent, node.tokens[:tokens]))
                node.parent, node.tokens = upper, node.tokens[tokens:]
            case wire.Cut(number, tokens):
                assert not self.children(number)
                assert tokens < len(self.nodes[number].tokens)
                self.nodes[number].tokens = self.nodes[number].tokens[:tokens]
                if not tokens:
                    del self.nodes[number]
            case unknown:
                assert_never(unknown)

    def _add(self, number: int, node: Copied) -> None:
        assert number not in self.numbers, "a number is used twice"
        self.numbers.add(number)
        self.nodes[number] = node

    def children(self, number: int) -> list[int]:
        return [child for child, node in self.nodes.items() if node.parent == number]

    def prefixes(self, page_size: int) -> set[Prefix]:
        """All that the tree holds, page by page."""
        return {
            (node.namespace, (*self._above(node), *node.tokens[:end]))
            for node in self.nodes.values()
            for end in range(page_size, len(node.tokens) + 1, page_size)
        }

    def _above(self, node: Copied) -> tuple[int, ...]:
        if node.parent is None:
            return ()
        parent = self.nodes[node.parent]
        return self._above(parent) + parent.tokens


def copy_of(cache: RadixCache) -> Replica:
    replica = Replica()
    replica.apply(cache.snapshot())
    return replica


def _ids(token_ids: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(token_ids, "<i4").tolist())
