"""Text fit for a log: what a client wrote can neither forge a line nor steer a terminal, and is not told at length.

Knows strings and exceptions. Does not know who logs them.
"""

from __future__ import annotations

import re
import traceback
from typing import Any

LONGEST_MESSAGE = 200  # of an exception: it may quote what a client sent
MOST_FRAMES = 30

# All that moves a cursor, ends a line, changes the direction of writing, or is half a character.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(value: Any) -> Any:
    """The same with control characters as escapes, also within lists and objects. Every value logged comes by here."""
    if isinstance(value, str):
        return value if value.isprintable() else _CONTROL.sub(_escape, value)
    if isinstance(value, dict):
        return {plain(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def exception_text(error: BaseException) -> str:
    """Where it was raised and what it says, cut, after what it came from. No values of variables."""
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    lines = [exception_text(earlier), "which led to:"] if earlier is not None else []
    lines += [_without_end(frame) for frame in traceback.format_tb(error.__traceback__, -MOST_FRAMES)]
    lines.append(f"{type(error).__qualname__}: {plain(str(error)[:LONGEST_MESSAGE])}")
    if isinstance(error, BaseExceptionGroup):
        lines += [exception_text(inner) for inner in error.exceptions]
    return "\n".join(lines)


def _without_end(frame: str) -> str:
    return frame.rstrip("\n")


def _escape(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]
