"""What commands print with: colours where somebody sees them, tables, bars, percentiles in words. Knows no content."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
BLOCKS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True)
class Paint:
    has_colours: bool

    def __call__(self, text: str, *styles: str) -> str:
        """Styles are names in CODES."""
        if not self.has_colours or not text:
            return text
        return f"\x1b[{';'.join(CODES[style] for style in styles)}m{text}\x1b[0m"


def paint_for(stream: TextIO, environment: Mapping[str, str] | None = None) -> Paint:
    """No colours where nobody sees them or NO_COLOR is set (no-color.org)."""
    environment = os.environ if environment is None else environment
    return Paint(stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb")


def table(rows: Sequence[Sequence[str]], *, heading: Sequence[str] = ()) -> list[str]:
    """Lines: the first column to the left, the others to the right."""
    every = [*([heading] if heading else []), *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(every[0]))] if every else []
    return ["  ".join(_cells(row, widths)).rstrip() for row in every]


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def bar(share: float, width: int) -> str:
    """As much of the width as the share, to an eighth of a character."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (BLOCKS[rest] if rest else "")).ljust(width)


def width(most: int = 100) -> int:
    return min(shutil.get_terminal_size().columns, most)


def seconds(value: float | None) -> str:
    """With three figures, in the unit that people would use."""
    if value is None:
        return "–"
    return f"{value * 1e3:.3g} ms" if value < 0.9995 else f"{value:.3g} s"


def count(value: float) -> str:
    """1,234 in full, then 12.3 k, 4.56 M."""
    if value < 10_000:
        return f"{value:,.0f}"
    for factor, unit in ((1e3, "k"), (1e6, "M"), (1e9, "G")):
        if value < factor * 999.5 or unit == "G":
            return f"{value / factor:.3g} {unit}"
    raise AssertionError(value)


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"
