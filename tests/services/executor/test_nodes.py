from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.executor.nodes import Node, below


@given(st.lists(st.one_of(st.integers(1, 40), st.floats(0, 1)), max_size=30))
def test_a_node_grows_and_is_cut_at_its_end(changes: list[int | float]) -> None:
    """A whole number: so many more. A fraction: that part is kept."""
    node, expected, added = Node("", None), np.empty(0, np.int64), 0
    for change in changes:
        if isinstance(change, int):
            more = np.arange(added, added + change)
            added += change
            node.grow(more, -more)
            expected = np.concatenate((expected, more))
        else:
            length = int(change * len(expected))
            node.cut(length)
            expected = expected[:length]
        assert np.array_equal(node.tokens, expected)
        assert np.array_equal(node.slots, -expected)
        for run in (node.tokens, node.slots):
            assert run.base is None or len(run.base) <= 2 * max(added, 1)


def test_little_of_a_long_node_does_not_keep_its_memory() -> None:
    node = Node("", None)
    node.grow(np.arange(10_000), np.arange(10_000))
    node.cut(10)
    assert node.tokens.base is None
    assert node.slots.base is None


def test_the_nodes_below_come_with_their_depth_and_after_their_parents() -> None:
    root = Node("", None)
    child = Node("", root, 1, np.arange(5))
    grandchild = Node("", child, 2, np.arange(7))
    root.children[b"child"], child.children[b"grandchild"] = child, grandchild
    assert list(below(root)) == [(0, root), (0, child), (5, grandchild)]
