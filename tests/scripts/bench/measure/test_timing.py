from itertools import count
from random import Random

import pytest

from scripts.bench.measure.timing import in_turns, median_within, round_ratios, slope


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


def test_the_median_lies_within_what_more_values_make_narrower():
    random = Random(1)
    values = [random.gauss(1.0, 0.1) for _ in range(400)]
    (low, high), (least, most) = median_within(values), median_within(values[:25])
    assert least < low < 1.0 < high < most
    error = 1.2533 * 0.1 / 400**0.5  # of the median of so many normal values
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.3)
    assert median_within([3.0]) == (3.0, 3.0)


def test_the_slope_of_a_line():
    assert slope({1000: 12.0, 2000: 14.0, 4000: 18.0}) == pytest.approx(0.002)
