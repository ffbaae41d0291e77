"""Prometheus counters of what executors count themselves, each from its own start."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Counter


class RunningTotals:
    """Args:
    counters: by the name of the figure that each one follows.
    """

    def __init__(self, counters: Mapping[str, Counter]) -> None:
        self._counters = counters
        self._totals: dict[tuple[str, str], int] = {}  # by figure and executor: when it was last asked

    def update(self, executors: Mapping[str, object]) -> None:
        """Args:
        executors: by name, objects that have the figures.
        """
        for key in self._counters:
            for name, figures in executors.items():
                self._count(key, name, getattr(figures, key))

    def _count(self, key: str, name: str, total: int) -> None:
        """An executor that was started again counts from 0."""
        before = self._totals.get((key, name), 0)
        self._counters[key].inc(total - before if total >= before else total)
        self._totals[key, name] = total
