"""A radix tree as an executor has it, in the plainest form, which writes down its changes; and requests that wait."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shared import wire
from shared.namespaces import tenant_of


def packed(tokens):
    return np.array(tokens, "<i4").tobytes()


@dataclass(eq=False)
class Waiter:
    order: int
    prompt: tuple = (0,)
    namespace: str = "a"
    priority: int = 0
    arrived_s: float = 0.0
    max_new_tokens: int = 1
    hint_tokens: int = -1
    tokens: np.ndarray = field(init=False)

    def __post_init__(self):
        self.tokens = np.array(self.prompt, np.int32)

    @property
    def tenant(self):
        return tenant_of(self.namespace)


@dataclass(eq=False)
class ToyNode:
    namespace: str
    parent: int | None
    tokens: list


def common(ours, theirs, page_size):
    pages = 0
    while ours[pages : pages + page_size] == theirs[pages : pages + page_size] and pages + page_size <= len(ours):
        pages += page_size
    return pages


class ToyTree:
    def __init__(self, page_size=1):
        self.page_size = page_size
        self.nodes: dict[int, ToyNode] = {}
        self.events: list = []
        self._numbers = 0

    def take_events(self):
        events, self.events = self.events, []
        return events

    def snapshot(self):
        """The whole tree, parents first."""
        ordered = sorted(self.nodes, key=lambda number: len(self.path(number)))
        return [self._stored(number) for number in ordered]

    def path(self, number):
        """The nodes down to this one."""
        node = self.nodes[number]
        return [*(self.path(node.parent) if node.parent is not None else []), number]

    def prefix(self, number):
        return [token for at in self.path(number) for token in self.nodes[at].tokens]

    def children(self, number, namespace):
        return [n for n, node in self.nodes.items() if node.parent == number and node.namespace == namespace]

    def leaves(self):
        return [n for n, node in self.nodes.items() if not self.children(n, node.namespace)]

    def hint(self, namespace, tokens):
        """By comparing with everything that is held."""
        tokens = list(map(int, tokens))[:-1]
        held = [self.prefix(n) for n, node in self.nodes.items() if node.namespace == namespace]
        return max((common(tokens, prefix, self.page_size) for prefix in held), default=0)

    # --- changes -----------------------------------------------------------------------------------------------------

    def insert(self, namespace, tokens, grow=False):
        """Whole pages; what is new goes into the leaf that it continues (grow), or into a node of its own."""
        parent, rest = None, list(tokens)
        while rest:
            found = [(common(self.nodes[n].tokens, rest, self.page_size), n) for n in self.children(parent, namespace)]
            matched, number = max(found, default=(0, None))
            if not matched:
                break
            parent = number if matched == len(self.nodes[number].tokens) else self._split(number, matched)
            rest = rest[matched:]
        if rest and grow and parent is not None and not self.children(parent, namespace):
            self.nodes[parent].tokens += rest
            self.events.append(wire.Grown(parent, packed(rest)))
        elif rest:
            number = self._new(ToyNode(namespace, parent, rest))
            self.events.append(self._stored(number))

    def cut(self, leaf, tokens):
        del self.nodes[leaf].tokens[tokens:]
        if not tokens:
            del self.nodes[leaf]
        self.events.append(wire.Cut(leaf, tokens))

    def _split(self, number, tokens):
        node = self.nodes[number]
        upper = self._new(ToyNode(node.namespace, node.parent, node.tokens[:tokens]))
        node.parent, node.tokens = upper, node.tokens[tokens:]
        self.events.append(wire.Split(number, tokens, upper))
        return upper

    def _stored(self, number):
        node = self.nodes[number]
        return wire.Stored(number, node.parent, node.namespace, packed(node.tokens))

    def _new(self, node):
        self._numbers += 1
        self.nodes[self._numbers] = node
        return self._numbers
