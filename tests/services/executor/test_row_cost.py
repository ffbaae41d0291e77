from __future__ import annotations

import pytest

from services.executor.row_cost import GUESSED_FIXED_ROWS, LEAST_FIXED_ROWS, MOST_FIXED_ROWS, MOST_ROWS, RowCost


def measured(*steps: tuple[int, float]) -> RowCost:
    cost = RowCost()
    for rows, seconds in steps:
        cost.observe(rows, seconds)
    return cost


def test_nothing_measured_is_a_guess() -> None:
    assert RowCost().fixed_rows == GUESSED_FIXED_ROWS


def test_steps_of_one_size_say_nothing_of_a_row() -> None:
    assert measured(*[(3, 0.02)] * 50).fixed_rows == pytest.approx(GUESSED_FIXED_ROWS)


@pytest.mark.parametrize("fixed", [1.0, 3.0, 20.0])
def test_a_line_is_found(fixed: float) -> None:
    steps = [(rows, 0.001 * (fixed + rows)) for _ in range(20) for rows in (1, 4, 9, 16)]
    assert measured(*steps).fixed_rows == pytest.approx(fixed, rel=0.1)


def test_a_row_that_costs_nothing_and_a_step_that_costs_nothing_have_limits() -> None:
    assert measured(*[(1, 0.02), (9, 0.02)] * 50).fixed_rows > GUESSED_FIXED_ROWS
    assert measured(*[(1, 0.05), (9, 0.02)] * 50).fixed_rows == MOST_FIXED_ROWS
    assert measured(*[(1, 0.001), (9, 0.09)] * 50).fixed_rows == LEAST_FIXED_ROWS


def test_what_was_long_ago_is_forgotten() -> None:
    then = [(rows, 0.001 * (20 + rows)) for _ in range(100) for rows in (1, 9)]
    now = [(rows, 0.004 * (1 + rows)) for _ in range(200) for rows in (1, 9)]
    assert measured(*then, *now).fixed_rows == pytest.approx(1.0, rel=0.2)


def test_large_steps_are_no_measure() -> None:
    assert measured((MOST_ROWS + 1, 0.5)).fixed_rows == GUESSED_FIXED_ROWS
