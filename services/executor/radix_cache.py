"""The prefix cache: a compressed trie of token sequences whose nodes own the KV slots of their tokens.

Knows token ids, namespaces and slot numbers. Does not know tensors, requests or time: "used last" is a counter.

A running request holds one pin, at the node where what it shares with the tree ends; a pin counts on every node up to
the root, and pinned nodes stay. What the tree holds can be found by others at once, although its request still runs.
Node boundaries lie where a pin ended, where sequences part, and at the end of every prompt (`seal`), so that output can
go before the prompt that it followed. Only whole pages are held and found.

Eviction takes from the least recently used leaf, from its end and only as much as is needed; so a prefix always
outlives what follows it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.executor.slots import SlotAllocator, Slots
from shared.invariant import require

Tokens = NDArray[np.int64]

NO_TOKENS: Tokens = np.empty(0, np.int64)
NO_SLOTS: Slots = np.empty(0, np.int64)


@dataclass(eq=False, repr=False, slots=True)
class Node:
    """A run of tokens below its parent. The root of a namespace has no parent and owns nothing."""

    namespace: str
    parent: Node | None
    tokens: Tokens = field(default_factory=lambda: NO_TOKENS)
    slots: Slots = field(default_factory=lambda: NO_SLOTS)  # owned by the tree, one for each token
    children: dict[bytes, Node] = field(default_factory=dict)  # by their first page of tokens
    pins: int = 0  # of this node and of all below it
    last_used: int = 0
    sealed: bool = False  # a prompt ends here: what follows becomes a node of its own
    queued: bool = False  # has its one entry in the eviction heap


@dataclass(frozen=True, slots=True)
class Held:
    """Where a caller's pin is, and the tree's slots of the tokens in question."""

    node: Node
    slots: Slots


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A node without its text, for people."""

    depth_tokens: int  # before the node
    tokens: int
    children: int
    pins: int
    last_used: int


class RadixCache:
    """Args:
    slots: where evicted and duplicate slots go, and `allocate` takes from.
    """

    def __init__(self, slots: SlotAllocator) -> None:
        self._slots = slots
        self.page_size = slots.page_size
        self._roots: dict[str, Node] = {}
        self._heap: list[tuple[int, int, Node]] = []  # (last use when queued, tie-break, node)
        self._uses = 0
        self._queueings = 0
        self.nodes = 0
        self.pinned_tokens = 0
        self.evictable_tokens = 0
        self.evicted_tokens = 0  # since the start, flushes aside
        self.version = 0  # goes up whenever a hint may have become another one

    @property
    def cached_tokens(self) -> int:
        return self.pinned_tokens + self.evictable_tokens

    @property
    def uses(self) -> int:
        """The counter that stands for time."""
        return self._uses

    def hint(self, namespace: str, tokens: Tokens) -> int:
        """How many tokens `pin` would find. Changes nothing at all."""
        return sum(matched for _, matched in self._path(namespace, tokens[:-1]))

    def pin(self, namespace: str, tokens: Tokens) -> Held:
        """Find the longest cached prefix and pin it. Never all of `tokens`: one must be computed to get logits."""
        node = self._roots.setdefault(namespace, Node(namespace, None))
        found = []
        for child, matched in self._path(namespace, tokens[:-1]):
            node = child if matched == len(child.tokens) else self._split(child, matched)
            found.append(node.slots)
        self._pin(node, above=None)
        return Held(node, np.concatenate(found) if found else NO_SLOTS)

    def unpin(self, node: Node) -> None:
        """Let go of a pin. What no other request needs can be evicted from now on."""
        self._uses += 1
        at: Node | None = node
        while at is not None:
            at.pins -= 1
            at.last_used = self._uses
            if not at.pins:
                self.pinned_tokens -= len(at.tokens)
                self.evictable_tokens += len(at.tokens)
            at = at.parent
        self._on_idle(node)

    def extend(self, node: Node, tokens: Tokens, slots: Slots) -> Held:
        """Hand over what was computed behind `node`, whole pages; the caller's pin moves from `node` to where they end.

        The given slots are the tree's from here on. Where it has the tokens already, they are freed, and the tree's own
        slots (returned) stand for these tokens: somebody else computed the same at the same time.
        """
        end, known = node, 0
        kept = []
        while (child := end.children.get(self._key(tokens[known:]))) is not None:
            matched = self._common(child.tokens, tokens[known:])
            end = child if matched == len(child.tokens) else self._split(child, matched)
            known += matched
            kept.append(end.slots)
        self._slots.free(slots[:known])
        self._pin(end, above=node)
        if known < len(tokens):
            kept.append(slots[known:])
            end = self._append(end, tokens[known:], slots[known:])
        return Held(end, np.concatenate(kept) if kept else NO_SLOTS)

    def seal(self, node: Node) -> None:
        """Keep a boundary at the end of this node: a prompt ends here."""
        node.sealed = True

    def allocate(self, tokens: int, after: int | None = None) -> Slots | None:
        """Slots of whole pages for new tokens, evicting as needed; None, and nothing happens, if there is no room."""
        if tokens > self._slots.free_tokens + self.evictable_tokens:
            return None
        self.evicted_tokens += self._evict(tokens - self._slots.free_tokens)
        return self._slots.allocate(tokens, after)

    def free(self, slots: Slots) -> None:
        """Give back slots from `allocate` that the tree did not take over."""
        self._slots.free(slots)

    def flush(self) -> int:
        """Forget everything that is not pinned. Returns the number of tokens freed."""
        return self._evict(self.evictable_tokens)

    def shape(self) -> Iterator[NodeShape]:
        """The nodes, each before its children."""
        stack = [(root, 0) for root in self._roots.values()]
        while stack:
            node, depth = stack.pop()
            if node.parent is not None:
                yield NodeShape(depth, len(node.tokens), len(node.children), node.pins, node.last_used)
            stack.extend((child, depth + len(node.tokens)) for child in node.children.values())

    @property
    def namespaces(self) -> int:
        return len(self._roots)

    # --- walking -----------------------------------------------------------------------------------------------------

    def _path(self, namespace: str, tokens: Tokens) -> Iterator[tuple[Node, int]]:
        """The nodes that `tokens` lead through, and how many of each one's tokens match: of all but the last, all."""
        node = self._roots.get(namespace)
        start = 0
        while node is not None:
            child = node.children.get(self._key(tokens[start:]))
            if child is None:
                return
            matched = self._common(child.tokens, tokens[start:])
            node = child if matched == len(child.tokens) else None
            start += matched
            yield child, matched

    def _key(self, tokens: Tokens) -> bytes:
        """A node's name among its siblings. Less than a page of tokens is nobody's name."""
        return tokens[: self.page_size].tobytes()

    def _common(self, ours: Tokens, theirs: Tokens) -> int:
        """Length, in whole pages, of the common prefix of two runs whose first pages are equal."""
        length = min(len(ours), len(theirs))
        differs = ours[:length] != theirs[:length]
        first = int(differs.argmax())
        common = first if differs[first] else length
        return common // self.page_size * self.page_size

    def _pin(self, node: Node, above: Node | None) -> None:
        """Pin from `node` up to, not including, `above`."""
        self._uses += 1
        at: Node | None = node
        while at is not above and at is not None:
            if not at.pins:
                self.evictable_tokens -= len(at.tokens)
                self.pinned_tokens += len(at.tokens)
            at.pins += 1
            at.last_used = self._uses
            at = at.parent

    # --- changing shape ----------------------------------------------------------------------------------------------

    def _split(self, node: Node, at: int) -> Node:
        """Put a new node above `node` that takes its first `at` tokens. Pins at the end of `node` stay there."""
        assert node.parent is not None
        upper = Node(node.namespace, node.parent, node.tokens[:at].copy(), node.slots[:at].copy())
        upper.pins, upper.last_used = node.pins, node.last_used
        node.parent.children[self._key(node.tokens)] = upper
        node.parent, node.tokens, node.slots = upper, node.tokens[at:].copy(), node.slots[at:].copy()
        upper.children[self._key(node.tokens)] = node
        self.nodes += 1
        return upper

    def _append(self, end: Node, tokens: Tokens, slots: Slots) -> Node:
        """Put new tokens behind the caller's pin at `end`: into that node if it is the caller's alone, else below."""
        self.version += 1
        self.pinned_tokens += len(tokens)
        if end.pins == 1 and not end.sealed and not end.children and end.parent is not None:
            end.tokens = np.concatenate((end.tokens, tokens))
            end.slots = np.concatenate((end.slots, slots))
            return end
        child = Node(end.namespace, end, tokens.copy(), slots.copy(), pins=1, last_used=self._uses)
        end.children[self._key(tokens)] = child
        self.nodes += 1
        return child

    # --- evicting ----------------------------------------------------------------------------------------------------

    def _evict(self, tokens: int) -> int:
        """Free `tokens` tokens, or all that can be. Returns how many."""
        freed = 0
        while freed < tokens and self._heap:
            queued_use, _, node = heapq.heappop(self._heap)
            node.queued = False
            if node.last_used > queued_use:  # used since: its turn comes later
                self._on_idle(node)
            elif not node.pins and not node.children:
                freed += self._shorten(node, min(tokens - freed, len(node.tokens)))
        return freed

    def _shorten(self, leaf: Node, count: int) -> int:
        """Free the last `count` tokens of an unpinned leaf, and the leaf if none are left."""
        assert leaf.parent is not None
        self.version += 1
        self.evictable_tokens -= count
        self._slots.free(leaf.slots[-count:])
        if count == len(leaf.tokens):
            del leaf.parent.children[self._key(leaf.tokens)]
            self.nodes -= 1
            self._on_idle(leaf.parent)
        else:
            leaf.tokens, leaf.slots, leaf.sealed = leaf.tokens[:-count].copy(), leaf.slots[:-count].copy(), False
            self._on_idle(leaf)
        return count

    def _on_idle(self, node: Node) -> None:
        """Queue the node for eviction if it is an unpinned leaf. An empty root goes at once."""
        if node.pins or node.children:
            return
        if node.parent is None:
            del self._roots[node.namespace]
        elif not node.queued:
            node.queued = True
            self._queueings += 1
            heapq.heappush(self._heap, (node.last_used, self._queueings, node))

    # --- checking ----------------------------------------------------------------------------------------------------

    def check_integrity(self, holders: Iterable[tuple[Node | None, Slots]] = ()) -> None:
        """Check everything that must hold. Costs time in proportion to the pool.

        Args:
            holders: for each running request, where its pin is (None: nowhere) and the slots it holds privately.

        Raises:
            BrokenInvariant: with what is wrong.
        """
        self._slots.check_integrity()
        ends: Counter[Node] = Counter()
        owned = [np.arange(start, end, dtype=np.int64) for start, end in self._slots.free_runs()]
        for node, private in holders:
            owned.append(private)
            if node is not None:
                ends[node] += 1
        nodes = [node for root in self._roots.values() for node in _below(root)]
        for node in nodes:
            self._check_node(node, ends.pop(node, 0))
            owned.append(node.slots)
        require(not ends, "a request is pinned to a node that is not in the tree")
        self._check_totals([node for node in nodes if node.parent is not None])
        everything = np.sort(np.concatenate(owned))
        exact = np.array_equal(everything, np.arange(self._slots.capacity_tokens))
        require(exact, "a slot is owned by nobody, or twice")

    def _check_node(self, node: Node, own_pins: int) -> None:
        require(len(node.tokens) == len(node.slots), "a node has another number of slots than of tokens")
        require(len(node.tokens) % self.page_size == 0, "a node does not end on a page")
        require((node.parent is None) == (len(node.tokens) == 0), "a node is empty, or a root is not")
        require(node.parent is not None or bool(node.pins or node.children), "a root is kept for nothing")
        require(node.pins == own_pins + sum(child.pins for child in node.children.values()), "pins do not add up")
        idle = not node.pins and not node.children
        require(node.queued or not idle, "an unpinned leaf is not queued for eviction")
        for key, child in node.children.items():
            require(child.parent is node, "a child has another parent")
            require(key == self._key(child.tokens), "a child is filed under another page than its first")
            require(bool(child.pins) or child.last_used <= node.last_used, "an idle node was used after its parent")

    def _check_totals(self, nodes: list[Node]) -> None:
        require(self.nodes == len(nodes), f"{self.nodes} nodes are counted, {len(nodes)} are there")
        pinned = sum(len(node.tokens) for node in nodes if node.pins)
        evictable = sum(len(node.tokens) for node in nodes if not node.pins)
        require(self.pinned_tokens == pinned, f"{self.pinned_tokens} tokens are counted as pinned, not {pinned}")
        require(self.evictable_tokens == evictable, f"{self.evictable_tokens} counted as evictable, not {evictable}")
        queued = {node for _, _, node in self._heap}
        require(len(queued) == len(self._heap), "a node is queued twice")
        require(queued == {node for node in nodes if node.queued}, "the eviction queue and the nodes disagree")
        require(all(use <= node.last_used for use, _, node in self._heap), "a node was queued under a later use")


class NoCache(RadixCache):
    """The switched-off cache: finds nothing and keeps nothing, so that every request computes its whole prompt."""

    def extend(self, node: Node, tokens: Tokens, slots: Slots) -> Held:
        """Takes nothing: the slots stay the caller's."""
        return Held(node, NO_SLOTS)


def _below(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children.values())
