"""Reads what /metrics says. Knows the text format of Prometheus, no meaning."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Snapshot:
    """All series of one scrape: by name, then by their labels."""

    series: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Snapshot:
        series: dict[str, dict[Labels, float]] = {}
        for line in text.splitlines():
            if found := _LINE.match(line):
                labels = tuple(sorted(_LABEL.findall(found[2] or "")))
                series.setdefault(found[1], {})[labels] = float(found[3])
        return cls(series)

    def total(self, name: str) -> float:
        """Of all labels. 0 for what is not there."""
        return sum(self.series.get(name, {}).values())

    def by_label(self, name: str, label: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for labels, value in self.series.get(name, {}).items():
            key = dict(labels).get(label, "")
            found[key] = found.get(key, 0.0) + value
        return found

    def buckets(self, name: str) -> dict[float, float]:
        """Of a histogram, by upper bound: how many were at most that."""
        return {float(bound): value for bound, value in self.by_label(f"{name}_bucket", "le").items()}


def quantile_between(before: Mapping[float, float], now: Mapping[float, float], share: float) -> float | None:
    """What a share of the observations between two scrapes was at most; even within a bucket. None of none."""
    counts = [(bound, now[bound] - before.get(bound, 0.0)) for bound in sorted(now)]
    if not counts or counts[-1][1] <= 0:
        return None
    rank, lower, below = share * counts[-1][1], 0.0, 0.0
    for bound, count in counts:
        if count >= rank and count > below:
            return lower if math.isinf(bound) else lower + (bound - lower) * (rank - below) / (count - below)
        lower, below = bound, count
    return lower
