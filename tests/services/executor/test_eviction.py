from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.executor.eviction import POLICIES, Leaves
from services.executor.nodes import Node
from shared.config import EvictionPolicy
from shared.invariant import BrokenInvariant


def leaf(name: str, *, last_used: int = 0, hits: int = 0, priority: int = 0, is_cheap: bool = False) -> Node:
    return Node(name, None, last_used=last_used, hits=hits, priority=priority, is_cheap=is_cheap)


def order(policy: EvictionPolicy, *nodes: Node) -> list[str]:
    leaves = Leaves(POLICIES[policy])
    for node in nodes:
        leaves.add(node)
    return [node.namespace for _ in nodes if (node := leaves.pop()) is not None]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("lru", ["cheap", "old and loved", "urgent", "new"]),
        ("lfu", ["cheap", "urgent", "new", "old and loved"]),
        ("priority", ["cheap", "old and loved", "new", "urgent"]),
    ],
)
def test_policies(policy: EvictionPolicy, expected: list[str]) -> None:
    nodes = [
        leaf("new", last_used=9, hits=1),
        leaf("cheap", last_used=10, hits=20, priority=30, is_cheap=True),
        leaf("old and loved", last_used=1, hits=5),
        leaf("urgent", last_used=3, priority=2, hits=1),
    ]
    assert order(policy, *nodes) == expected


def test_a_node_that_is_no_idle_leaf_is_passed_over() -> None:
    pinned, parent, free = leaf("pinned"), leaf("parent", last_used=1), leaf("free", last_used=2)
    leaves = Leaves(POLICIES["lru"])
    for node in (pinned, parent, free):
        leaves.add(node)
    pinned.pins = 1
    parent.children[b""] = leaf("child")
    assert leaves.first() is free
    assert leaves.pop() is free
    assert leaves.pop() is leaves.first() is None
    assert not pinned.queued


@given(st.data())
def test_the_lowest_rank_of_now_goes_first_whatever_it_was_when_queued(data: st.DataObject) -> None:
    policy = POLICIES[data.draw(st.sampled_from(sorted(POLICIES)))]
    leaves = Leaves(policy)
    nodes = [
        leaf(str(number), last_used=number, priority=data.draw(st.integers(0, 2)), is_cheap=data.draw(st.booleans()))
        for number in range(data.draw(st.integers(1, 8)))
    ]
    for node in nodes:
        leaves.add(node)
        leaves.add(node)
    for now, node in enumerate(data.draw(st.lists(st.sampled_from(nodes), max_size=10)), start=100):
        node.last_used, node.hits, node.is_cheap = now, node.hits + 1, False
        leaves.check_integrity(nodes)
    taken = [leaves.pop() for _ in nodes]
    assert taken == sorted(nodes, key=policy)


def test_the_check_finds_a_node_that_was_queued_too_far_back() -> None:
    leaves, node = Leaves(POLICIES["lru"]), leaf("a", last_used=5)
    leaves.add(node)
    node.last_used = 3
    with pytest.raises(BrokenInvariant):
        leaves.check_integrity([node])
