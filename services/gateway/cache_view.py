"""What /cache tells of the executors' trees: their sums, and for each tree its largest nodes. Never a token id.

Pure: the scheduler's answer in, JSON out. Text is made elsewhere and handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Ids = tuple[int, ...]

LONGEST_HEAD = 60  # characters of a prefix that are shown
SUMMED = (
    *("nodes", "namespaces", "cheap_namespaces"),
    *("capacity_tokens", "cached_tokens", "pinned_tokens", "evictable_tokens"),
    *("hit_tokens", "miss_tokens", "evicted_tokens"),
)


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A run of tokens of the tree, behind `depth_tokens` others."""

    namespace: str
    depth_tokens: int
    tokens: int
    children: int
    pins: int
    hits: int
    priority: int
    last_used: int  # in uses of the tree
    head_token_ids: Ids = ()  # its first ones, if asked for


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """One executor's answer, its largest nodes first."""

    nodes: int
    namespaces: int
    cheap_namespaces: int
    capacity_tokens: int
    cached_tokens: int
    pinned_tokens: int
    evictable_tokens: int
    hit_tokens: int
    miss_tokens: int
    evicted_tokens: int
    deepest_tokens: int
    uses: int
    tenants: dict[str, dict[str, int]]
    largest: tuple[Node, ...]


Trees = dict[str, Tree]


def read_trees(executors: Mapping[str, Any], limit: int) -> Trees:
    """By executor, each with so many of its nodes at the most."""
    trees = msgspec.convert(executors, Trees)
    return {name: msgspec.structs.replace(tree, largest=tree.largest[:limit]) for name, tree in trees.items()}


def heads_of(trees: Trees) -> list[Ids]:
    """What there is to be made readable, each once: executors often hold the same prefixes."""
    heads = (node.head_token_ids for tree in trees.values() for node in tree.largest)
    return list(dict.fromkeys(head for head in heads if head))


def cache_body(trees: Trees, texts: Mapping[Ids, str] | None) -> dict[str, Any]:
    """`texts`: of the heads; None if text is not to be shown."""
    sums = {key: sum(getattr(tree, key) for tree in trees.values()) for key in SUMMED}
    executors = {name: _tree(tree, texts) for name, tree in trees.items()}
    return sums | {"hit_rate": _rate(sums["hit_tokens"], sums["miss_tokens"]), "executors": executors}


def _tree(tree: Tree, texts: Mapping[Ids, str] | None) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(tree)
    largest = [_node(node, texts) for node in tree.largest]
    return body | {"hit_rate": _rate(tree.hit_tokens, tree.miss_tokens), "largest": largest}


def _node(node: Node, texts: Mapping[Ids, str] | None) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(node)
    del body["head_token_ids"]
    return body if texts is None else body | {"head": _head(texts.get(node.head_token_ids))}


def _head(text: str | None) -> str | None:
    """The last character may be half there."""
    return text if text is None else text.rstrip("\N{REPLACEMENT CHARACTER}")[:LONGEST_HEAD]


def _rate(hit_tokens: int, miss_tokens: int) -> float:
    return round(hit_tokens / (hit_tokens + miss_tokens), 6) if hit_tokens + miss_tokens else 0.0
