"""Times several ways of doing one thing in turns, so that what else the machine does falls on all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random

Clock = Callable[[], float]

DRAWS = 2000


def in_turns(
    contestants: Mapping[str, Callable[[], object]], rounds: int, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each call, by contestant. A round before the first is not counted; the order shifts each round."""
    names = list(contestants)
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        shift = number % len(names)
        for name in (*names[shift:], *names[:shift]):
            start = clock()
            contestants[name]()
            if number:
                found[name].append(clock() - start)
    return found


def round_ratios(slower: list[float], faster: list[float]) -> list[float]:
    """Round by round, how many times as long the first takes."""
    return [a / b for a, b in zip(slower, faster, strict=True)]


def median_within(values: Sequence[float]) -> tuple[float, float]:
    """Between which two figures the median is with 95% certainty, by drawing from the values anew (bootstrap)."""
    random = Random(0)
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(DRAWS))
    return medians[DRAWS // 40], medians[-1 - DRAWS // 40]


def slope(points: Mapping[float, float]) -> float:
    """Of the straight line that fits best, by least squares. Raises StatisticsError for fewer than two points."""
    return statistics.linear_regression(list(points), list(points.values())).slope
