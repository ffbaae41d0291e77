"""Figures as PNG files. Knows matplotlib, which is needed for nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

Series = Mapping[str, Mapping[float, float]]  # by name: x to y
SIZE = (8, 4.5)  # inches


def lines(path: Path, title: str, x_label: str, y_label: str, series: Series) -> None:
    figure, axes = _start(title, y_label)
    for name, points in series.items():
        axes.plot(list(points), list(points.values()), marker="o", label=name)
    axes.set_xlabel(x_label)
    axes.set_ylim(bottom=0)
    axes.legend()
    _finish(figure, path)


def bars(
    path: Path,
    title: str,
    y_label: str,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    log: bool = False,
) -> None:
    """Side by side, one of each series in every group."""
    figure, axes = _start(title, y_label)
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        places = [place + number * width for place in range(len(groups))]
        axes.bar_label(axes.bar(places, values, width, label=name), fmt="%.3g", fontsize=7)
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(groups))], groups, fontsize=8)
    axes.set_yscale("log" if log else "linear")
    axes.legend()
    _finish(figure, path)


def stacks(path: Path, title: str, y_label: str, groups: Sequence[str], parts: Mapping[str, Sequence[float]]) -> None:
    """One bar in each group, made of the parts."""
    figure, axes = _start(title, y_label)
    base = [0.0] * len(groups)
    for name, values in parts.items():
        axes.bar(groups, values, bottom=base, label=name)
        base = [below + value for below, value in zip(base, values, strict=True)]
    axes.tick_params(axis="x", labelsize=8)
    axes.legend()
    _finish(figure, path)


def _start(title: str, y_label: str) -> tuple[Any, Any]:
    figure, axes = plt.subplots(figsize=SIZE)
    axes.set_title(title)
    axes.set_ylabel(y_label)
    axes.grid(axis="y", alpha=0.3)
    return figure, axes


def _finish(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"drawn: {path}")
