"""Figures as text: a Markdown table for each workload's phase. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from .figures import METRICS, Run, Spread, by_round, phases, ratios, same_outputs


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def spread_text(spread: Spread | None, form: str = ".1f") -> str:
    if spread is None:
        return "–"
    median = f"{spread.median:{form}}"
    return median if spread.count == 1 else f"{median} ({spread.low:{form}} to {spread.high:{form}})"


def ratio_text(spread: Spread | None) -> str:
    return "–" if spread is None else f"{spread_text(spread, '.2f')} ×"


def compare(runs: Sequence[Run], sides: Sequence[str]) -> str:
    """One table for each phase. The first side is held against every other one; above 1 it is the better."""
    return "\n\n".join(_phase_table(runs, sides, workload, phase) for workload, phase in phases(runs))


def _phase_table(runs: Sequence[Run], sides: Sequence[str], workload: str, phase: str) -> str:
    first = sides[0]
    header = ["side", *(metric.title for metric in METRICS.values())]
    header += [f"{first} against it: tok/s", "TTFT p50", "between tokens", "same outputs"]
    title = workload if phase == workload else f"{workload}, {phase}"
    rows = [_row(runs, first, side, workload, phase) for side in sides]
    return f"**{title}**\n\n{markdown(header, rows)}"


def _row(runs: Sequence[Run], first: str, side: str, workload: str, phase: str) -> list[str]:
    cells = [side]
    for metric in METRICS.values():
        cells.append(spread_text(Spread.of(list(by_round(runs, side, workload, phase, metric).values()))))
    for name in ("tok_s", "ttft_p50", "itl_p50"):
        metric = METRICS[name]
        ours, theirs = (by_round(runs, who, workload, phase, metric) for who in (first, side))
        cells.append("" if side == first else ratio_text(Spread.of(ratios(ours, theirs, metric))))
    same, compared = same_outputs(runs, first, side, workload, phase)
    return [*cells, "" if side == first else f"{same} of {compared}"]
