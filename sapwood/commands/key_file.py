"""A file of API keys: lines that say whose they are, among comments. Knows lines, no key.

It is written in place, for a container may have this very file, and what is changed was complete before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

NAMELESS = "(no name)"
COMMENT = "#"


class Entry(NamedTuple):
    name: str
    key: str  # or what stands for it

    @classmethod
    def of(cls, line: str) -> Entry | None:
        """None for a comment, and for nothing."""
        text = line.strip()
        if not text or text.startswith(COMMENT):
            return None
        name, _, key = text.rpartition(": ")
        return cls(name.strip() or NAMELESS, key.strip())


def entries(path: Path) -> list[Entry]:
    """Raises OSError, UnicodeDecodeError."""
    found = [Entry.of(line) for line in path.read_text("utf-8").splitlines()]
    return [entry for entry in found if entry is not None]


def append(path: Path, line: str) -> None:
    """A new file is its owner's alone."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+", encoding="utf-8") as file:
        text = file.read()
        file.write(f"{line}\n" if not text or text.endswith("\n") else f"\n{line}\n")


def remove(path: Path, goes: Callable[[Entry], bool]) -> None:
    """The lines of these entries. All others stay as they are."""
    with path.open("r+", encoding="utf-8", newline="") as file:
        lines = file.read().splitlines(keepends=True)
        kept = [line for line in lines if (entry := Entry.of(line)) is None or not goes(entry)]
        file.seek(0)
        file.write("".join(kept))
        file.truncate()
