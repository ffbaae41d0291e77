"""What must hold of the prefix cache at any time. Each check raises BrokenInvariant with what is wrong.

Knows the shapes that the cache is made of. Changes nothing; costs time in proportion to the pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from services.executor.nodes import Node
from services.executor.quota import Accounts
from services.executor.slots import SlotAllocator, Slots
from shared.invariant import require


def check_nodes(nodes: Sequence[Node], pinned: Iterable[Node], page_size: int) -> None:
    """Args:
    nodes: all, the roots included.
    pinned: where each running request's pin is.
    """
    ends = Counter(pinned)
    numbers = [node.number for node in nodes if node.parent is not None]
    require(len(set(numbers)) == len(numbers), "two nodes have one number")
    for node in nodes:
        _check_node(node, ends.pop(node, 0), page_size)
    require(not ends, "a request is pinned to a node that is not in the tree")


def _check_node(node: Node, own_pins: int, page_size: int) -> None:
    require(len(node.tokens) == len(node.slots), "a node has another number of slots than of tokens")
    require(len(node.tokens) % page_size == 0, "a node does not end on a page")
    require((node.parent is None) == (len(node.tokens) == 0), "a node is empty, or a root is not")
    require(node.parent is not None or not node.is_idle_leaf, "a root is kept for nothing")
    require(node.pins == own_pins + sum(child.pins for child in node.children.values()), "pins do not add up")
    require(node.queued or not node.is_idle_leaf, "an unpinned leaf is not queued for eviction")
    for key, child in node.children.items():
        require(child.parent is node and child.namespace == node.namespace, "a child has another parent")
        require(key == child.tokens[:page_size].tobytes(), "a child is filed under another page than its first")
        require(bool(child.pins) or child.last_used <= node.last_used, "an idle node was used after its parent")
        require(node.parent is None or child.hits <= node.hits, "a node was found more often than its parent")


def check_totals(nodes: Sequence[Node], count: int, pinned_tokens: int, evictable_tokens: int) -> None:
    there = sum(node.parent is not None for node in nodes)
    require(count == there, f"{count} nodes are counted, {there} are there")
    pinned, evictable = _tokens(nodes)
    require(pinned_tokens == pinned, f"{pinned_tokens} tokens are counted as pinned, not {pinned}")
    require(evictable_tokens == evictable, f"{evictable_tokens} tokens are counted as evictable, not {evictable}")


def check_accounts(nodes: Sequence[Node], accounts: Accounts) -> None:
    for account in accounts:
        own = [node for node in nodes if node.namespace in account.namespaces]
        require((account.pinned_tokens, account.evictable_tokens) == _tokens(own), "a tenant's account is wrong")
        account.leaves.check_integrity(own)
    namespaces = sorted(namespace for account in accounts for namespace in account.namespaces)
    roots = sorted(node.namespace for node in nodes if node.parent is None)
    require(namespaces == roots, "the accounts and the roots disagree")


def check_slots(nodes: Iterable[Node], private: Iterable[Slots], slots: SlotAllocator) -> None:
    """Every slot is owned exactly once: free, in a node, or private to a running request."""
    free = [np.arange(start, end, dtype=np.int64) for start, end in slots.free_runs()]
    everything = np.sort(np.concatenate([*free, *private, *(node.slots for node in nodes)]))
    require(np.array_equal(everything, np.arange(slots.capacity_tokens)), "a slot is owned by nobody, or twice")


def _tokens(nodes: Iterable[Node]) -> tuple[int, int]:
    """Pinned and evictable."""
    pinned = evictable = 0
    for node in nodes:
        if node.pins:
            pinned += len(node.tokens)
        else:
            evictable += len(node.tokens)
    return pinned, evictable
