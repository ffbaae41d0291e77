"""How many processes there are of each stage, and how often one was lost: what crashes again and again shows here."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge


class StageMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._processes = Gauge(
            "sapwood_stage_processes", "Processes of a stage that are connected", ["stage"], registry=registry
        )
        self._lost = Counter(
            "sapwood_stage_lost",
            "Processes of a stage that have left, for whatever reason",
            ["stage"],
            registry=registry,
        )
        self._told: Counts[str] = Counts()

    def update(self, processes: Mapping[str, int], lost: Mapping[str, int]) -> None:
        """Args:
        lost: since the start.
        """
        for stage, count in processes.items():
            self._processes.labels(stage).set(count)
        for stage, count in lost.items():
            self._lost.labels(stage).inc(max(count - self._told[stage], 0))
            self._told[stage] = max(count, self._told[stage])
