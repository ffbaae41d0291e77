"""Files of API keys: one a line, in whatever form. Does not know what a key looks like."""

from __future__ import annotations

from pathlib import Path


def key_lines(path: Path) -> list[str]:
    """Without blank lines and those that begin with #. Raises OSError, UnicodeDecodeError."""
    lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]
