from __future__ import annotations

from services.executor import tree_sketch
from services.executor.tree_sketch import MOST_NOTES, UseTimes, sketch
from tests.services.executor.test_radix_cache import ids, make, put


def test_the_age_of_a_use_is_what_has_passed_since_it_was_noted() -> None:
    times = UseTimes()
    for uses, now_s in ((3, 10.0), (4, 10.5), (5, 20.0), (5, 30.0), (9, 40.0)):
        times.note(uses, now_s)
    assert [times.age_s(use, 50.0) for use in (1, 3, 4, 5, 9, 10)] == [40.0, 40.0, 30.0, 30.0, 10.0, 0.0]


def test_old_notes_thin_out_and_ages_stay_in_order() -> None:
    times = UseTimes()
    for use in range(3 * MOST_NOTES):
        times.note(use, 2.0 * use)
        assert len(times._at_s) <= MOST_NOTES
    ages = [times.age_s(use, 6.0 * MOST_NOTES) for use in range(3 * MOST_NOTES)]
    assert ages == sorted(ages, reverse=True)
    assert ages[-1] == 2.0


def test_the_tree_is_drawn_by_shape_and_use() -> None:
    cache, times = make(), UseTimes()
    put(cache, ids(1, 2, 3, 4))
    times.note(cache.uses, 100.0)
    put(cache, ids(1, 2, 5, 6, 7))
    drawn = sketch(cache, times, 103.0)
    assert (drawn["total"], drawn["tree_tokens"]) == (3, 7)
    upper = next(number for number, parent, *_ in drawn["nodes"] if parent is None)
    shapes = sorted((parent, tokens, age_s, pins) for _, parent, tokens, age_s, pins, _ in drawn["nodes"] if parent)
    assert shapes == [(upper, 2, 3.0, 0), (upper, 3, 0.0, 0)]


def test_of_a_large_tree_what_was_used_last_is_drawn_below_what_is_drawn(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(tree_sketch, "MOST_NODES", 4)
    cache, times = make(), UseTimes()
    for first in range(6):
        put(cache, ids(first, 1, 2))
        put(cache, ids(first, 1, 3))
    drawn = sketch(cache, times, 0.0)
    assert (drawn["total"], len(drawn["nodes"])) == (18, 4)
    numbers = {number for number, *_ in drawn["nodes"]}
    assert all(parent is None or parent in numbers for _, parent, *_ in drawn["nodes"])


def test_of_a_large_tree_the_nodes_used_last_are_drawn(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(tree_sketch, "MOST_NODES", 6)
    cache = make()
    for first in range(6):
        put(cache, ids(first, 1, 2))
        put(cache, ids(first, 1, 3))
    put(cache, ids(0, 1, 2))
    drawn = {number for number, *_ in sketch(cache, UseTimes(), 0.0)["nodes"]}
    last_used = {node.number: node.last_used for _, node in cache.walk()}
    assert len(drawn) == 6
    assert min(last_used[number] for number in drawn) >= max(last_used[number] for number in last_used.keys() - drawn)
    cache.flush()
    assert sketch(cache, UseTimes(), 0.0)["nodes"] == []
