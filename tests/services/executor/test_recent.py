from __future__ import annotations

import pytest

from services.executor import recent
from services.executor.nodes import Node
from services.executor.recent import Recent
from shared.invariant import BrokenInvariant

ROOT = Node("", None)
TRUNK = Node("", ROOT, 1)
LEFT, RIGHT, OTHER = Node("", TRUNK, 2), Node("", TRUNK, 3), Node("", ROOT, 4)


def numbers(ends: Recent) -> list[int]:
    return [node.number for node in ends.paths()]


def test_paths_to_the_last_uses_come_last_first_and_each_node_once() -> None:
    ends = Recent()
    for end in (LEFT, OTHER, RIGHT, LEFT):
        ends.note(end)
    assert numbers(ends) == [2, 1, 3, 4]
    ends.forget(LEFT)
    assert numbers(ends) == [3, 1, 4]


def test_only_so_many_ends_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "MOST_ENDS", 2)
    ends = Recent()
    for end in (OTHER, LEFT, RIGHT):
        ends.note(end)
    assert numbers(ends) == [3, 1, 2]


def test_an_end_that_has_left_the_tree_is_a_fault() -> None:
    ends = Recent()
    ends.note(LEFT)
    ends.check_integrity([ROOT, TRUNK, LEFT])
    with pytest.raises(BrokenInvariant):
        ends.check_integrity([ROOT, TRUNK])
