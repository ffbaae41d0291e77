"""Medians, spreads and ratios of recorded runs. Pure.

A run is what `compare.py` records: {"round", "side", "workload", "report"}, with the report of `traffic/client.py`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Run = Mapping[str, Any]


@dataclass(frozen=True)
class Metric:
    title: str
    path: tuple[str, ...]  # in a phase's summary
    more_is_better: bool


METRICS = {
    "tok_s": Metric("tok/s", ("new_tok_s",), True),
    "ttft_p50": Metric("TTFT p50, ms", ("ttft_ms", "p50"), False),
    "ttft_p95": Metric("TTFT p95, ms", ("ttft_ms", "p95"), False),
    "itl_p50": Metric("between tokens p50, ms", ("itl_ms", "p50"), False),
}


@dataclass(frozen=True)
class Spread:
    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        return cls(statistics.median(values), min(values), max(values), len(values)) if values else None


def phases(runs: Iterable[Run]) -> list[tuple[str, str]]:
    """(workload, phase), in the order in which they were played."""
    found = {(run["workload"], phase): None for run in runs for phase in run["report"]["phases"]}
    return list(found)


def by_round(runs: Iterable[Run], side: str, workload: str, phase: str, metric: Metric) -> dict[int, float]:
    """The rounds in which the side finished the phase without a failure."""
    found: dict[int, float] = {}
    for run in runs:
        summary = run["report"]["phases"].get(phase)
        if (run["side"], run["workload"]) == (side, workload) and summary is not None and not summary["failed"]:
            value = _at(summary, metric.path)
            if value is not None:
                found[run["round"]] = value
    return found


def same_outputs(runs: Sequence[Run], one: str, other: str, workload: str, phase: str) -> tuple[int, int]:
    """How many outputs are the same on both sides, and of how many; of the rounds that both finished."""
    shas: dict[tuple[int, str], list[str]] = {}
    for run in runs:
        if run["workload"] == workload and phase in run["report"]["phases"]:
            shas[run["round"], run["side"]] = run["report"]["phases"][phase]["text_shas"]
    pairs = [
        pair
        for (number, side), texts in shas.items()
        if side == one and (number, other) in shas
        for pair in zip(texts, shas[number, other], strict=True)
    ]
    return sum(a == b for a, b in pairs), len(pairs)


def ratios(ours: Mapping[int, float], theirs: Mapping[int, float], metric: Metric) -> list[float]:
    """Of the rounds that both finished: how many times better ours is, whichever way the metric points."""
    both = [(ours[number], theirs[number]) for number in sorted(ours.keys() & theirs.keys())]
    return [a / b if metric.more_is_better else b / a for a, b in both if a and b]


def _at(summary: Mapping[str, Any], path: Sequence[str]) -> float | None:
    value: Any = summary
    for name in path:
        value = value[name]
    return value
