"""Suspects by themselves: whoever else is there, the guilty ones are found, and at a bounded number of deaths."""

from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.suspects import REMEMBER_S, Suspects


def keys(count):
    return [("gateway", f"r{number}") for number in range(count)]


def try_all(suspects, positions, starts):
    """Run group after group, each alone, from where it stood. Returns the guilty ones and the number of deaths.

    Args:
        positions: at which a step kills the executor, by request; others run through.
        starts: how far each one had come.
    """
    guilty, deaths = [], 1
    found = suspects.died("executor-0", {key: start + 2 for key, start in starts.items()}, 0.0)
    guilty += [found] if found else []
    while group := next(iter(suspects), None):
        members = list(group.members)
        for step in range(4):  # all of them a token further
            computed = {key: starts[key] + step for key in members if suspects.group(key)}
            if any(positions.get(key) == tokens for key, tokens in computed.items()):
                found = suspects.died(f"executor-{deaths}", {key: tokens + 1 for key, tokens in computed.items()}, 0.0)
                guilty += [found] if found else []
                deaths += 1
                break
            for key, tokens in computed.items():
                suspects.computed(key, tokens + 1)
        else:
            assert not any(suspects.group(key) for key in members), "nobody is cleared"
    return guilty, deaths


@given(st.data(), st.integers(1, 64))
def test_the_guilty_are_found_and_nobody_else(data, count):
    starts = {key: data.draw(st.integers(0, 50)) for key in keys(count)}
    culprits = data.draw(st.sets(st.sampled_from(keys(count)), min_size=1, max_size=5))
    positions = {key: starts[key] + data.draw(st.integers(0, 1)) for key in culprits}
    suspects = Suspects()
    guilty, deaths = try_all(suspects, positions, starts)
    assert sorted(guilty) == sorted(culprits)
    assert deaths <= len(culprits) * (ceil(log2(count)) + 2)
    assert not suspects


@given(st.integers(1, 64))
def test_after_a_death_for_another_reason_all_are_cleared(count):
    suspects = Suspects()
    assert try_all(suspects, {}, dict.fromkeys(keys(count), 7)) == ([], 1)


def test_a_request_that_was_alone_once_is_not_guilty():
    suspects, (key,) = Suspects(), keys(1)
    assert suspects.died("one", {key: 9}, 0.0) is None
    suspects.computed(key, 8)
    assert suspects.group(key)
    suspects.computed(key, 9)
    assert not suspects.group(key)
    assert suspects.died("two", {key: 12}, 0.0) is None, "it had been cleared"
    assert suspects.died("three", {key: 12}, 0.0) == key
    assert not suspects


def test_halves_are_tried_in_turn():
    suspects, all_keys = Suspects(), keys(5)
    suspects.died("one", dict.fromkeys(all_keys, 1), 0.0)
    assert [list(group.members) for group in suspects] == [all_keys[:3], all_keys[3:]]
    suspects.died("two", dict.fromkeys(all_keys[:3], 1), 0.0)
    assert [list(group.members) for group in suspects] == [all_keys[3:], all_keys[:2], all_keys[2:3]]


def test_an_executor_that_lives_has_had_no_death():
    suspects, all_keys = Suspects(), keys(4)
    suspects.died("one", dict.fromkeys(all_keys[:2], 1), 0.0)
    suspects.died("two", dict.fromkeys(all_keys[2:], 1), 0.0)
    suspects.lives("one")
    assert [bool(suspects.group(key)) for key in all_keys] == [False, False, True, True]


def test_a_death_without_plans_in_flight_is_nobodys():
    suspects = Suspects()
    assert suspects.died("one", {}, 0.0) is None
    assert list(suspects) == []


@pytest.mark.parametrize(("later_s", "left"), [(REMEMBER_S, 3), (REMEMBER_S + 1, 0)])
def test_who_does_not_come_back_is_forgotten(later_s, left):
    suspects = Suspects()
    suspects.died("one", dict.fromkeys(keys(3), 1), 0.0)
    suspects.forget(later_s)
    assert len(suspects) == left
