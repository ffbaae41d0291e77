from itertools import count

import pytest

from scripts.bench.measure.timing import in_turns, round_ratios, slope


def test_each_has_its_turn_in_every_round_and_the_first_round_does_not_count():
    calls: list[str] = []
    ticks = count()
    found = in_turns(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2, clock=lambda: float(next(ticks))
    )
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": [1.0, 1.0], "b": [1.0, 1.0]}


def test_ratios_are_of_rounds():
    assert round_ratios([4.0, 9.0], [2.0, 3.0]) == [2.0, 3.0]


def test_the_slope_of_a_line():
    assert slope({1000: 12.0, 2000: 14.0, 4000: 18.0}) == pytest.approx(0.002)
