"""A pattern of a JSON schema, for the engine. It searches: what matches may stand anywhere in the string.

An alternative of the pattern that begins with `^` or ends with `$` is held to that side of the string; with anchors
elsewhere a pattern is refused. All else about patterns is said in `regex`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from services.executor.constraint.source import regex_scan
from services.executor.constraint.source.refused import Refused
from services.executor.constraint.source.regex import to_rust
from shared.config import ConstraintsConfig

ANYTHING = "(?s:.*)"
_FLAGS = re.compile(r"\(\?[aiLmsux]+\)")
_POSITION = re.compile(r"(?<=at position )\d+")


def search(pattern: str, caps: ConstraintsConfig) -> str:
    """The pattern for whole strings, anchored.

    Raises:
        Refused: see `to_rust`.
    """
    written = [_alternative(flags, text, at, caps) for flags, text, at in _alternatives(pattern)]
    return f"^(?:{'|'.join(written)})$"


def _alternative(flags: str, text: str, at: int, caps: ConstraintsConfig) -> str:
    anchors = regex_scan.outline(text).anchors
    held_start = any(start == 0 for start, _ in anchors)
    held_end = any(end == len(text) for _, end in anchors)
    for start, end in anchors:
        if start != 0 and end != len(text):
            raise Refused(f"the anchor at position {at + start} is not supported: only at an end of the pattern")
    bare = text[anchors[0][1] if held_start else 0 : anchors[-1][0] if held_end else None]
    try:
        written = to_rust(flags + text, caps) if bare else ""
    except Refused as refused:
        raise Refused(_shifted(refused.message, at - len(flags))) from None
    return f"{'' if held_start else ANYTHING}(?:{written}){'' if held_end else ANYTHING}"


def _alternatives(pattern: str) -> Iterator[tuple[str, str, int]]:
    """The flags of the whole pattern, an alternative's text, and where it begins."""
    found = _FLAGS.match(pattern)
    flags = found.group() if found else ""
    if "x" in flags:
        yield "", pattern, 0
        return
    start = len(flags)
    for end in [*_bars(pattern, start), len(pattern)]:
        yield flags, pattern[start:end], start
        start = end + 1


def _bars(pattern: str, at: int) -> Iterator[int]:
    """Where the alternatives of the whole pattern part."""
    depth = 0
    while token := regex_scan.TOKEN.match(pattern, at):
        depth += (token["group"] is not None or (token["flags"] is not None and token["close"] == ":")) - (
            token["end"] is not None
        )
        if token.group() == "|" and not depth:
            yield at
        at = token.end()


def _shifted(message: str, by: int) -> str:
    return _POSITION.sub(lambda found: str(int(found.group()) + by), message)
