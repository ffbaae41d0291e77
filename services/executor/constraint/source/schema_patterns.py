"""A pattern of a JSON schema, for the engine. It searches: what matches may stand anywhere in the string.

An alternative of the pattern that begins with `^` or ends with `$` is held to that side of the string; with anchors
elsewhere a pattern is refused. All else about patterns is said in `regex`. No set has a character that the engine
cannot write in JSON: where one has all control characters, it would take a quote or a backslash as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from services.executor.constraint.source import regex, regex_sets
from services.executor.constraint.source.refused import Refused
from shared import regex_scan
from shared.config import ConstraintsConfig

ANYTHING = "(?s:.*)"
NEWLINE = r"\x{a}"
UNWRITABLE = ((0, 8), (11, 12), (14, 32), (127, 128))  # but for \b \t \n \f \r, which have escapes of their own
_WRITABLE = regex_sets.complement(UNWRITABLE)
_STARTS, _ENDS = ("^", r"\A"), ("$", r"\Z")
_FLAGS = re.compile(r"\(\?[aiLmsux]+\)")
_MULTILINE = re.compile(r"\(\?[a-zA-Z]*m")
_POSITION = re.compile(r"(?<=at position )\d+")


def search(pattern: str, caps: ConstraintsConfig) -> str | None:
    """The pattern for whole strings, anchored. It takes some of the strings that it should, as `to_rust` does.

    None if no string matches that the engine can write.

    Raises:
        Refused: see `to_rust_within`.
    """
    return _anchored(pattern, "", caps)


def search_exactly(pattern: str, caps: ConstraintsConfig) -> str | None:
    """The same for all strings that Python's `re.search` takes, where others are not to match.

    Raises:
        Refused: as `search` does, and where `^` or `$` are within lines.
    """
    if _MULTILINE.search(pattern) and regex_scan.outline(pattern).anchors:
        raise Refused("anchors with the flag m are not supported here")
    found = _FLAGS.match(pattern)
    flags = found.group() if found else "(?)"
    full = flags if re.search("[aLu]", flags) else f"{flags[:-1]}u)"
    rest = pattern[len(flags) if found else 0 :]
    try:
        return _anchored(full + rest, f"{NEWLINE}?", caps)
    except Refused as refused:
        raise Refused(_shifted(refused.message, len(pattern) - len(full + rest))) from None


def _anchored(pattern: str, line_end: str, caps: ConstraintsConfig) -> str | None:
    """Args:
    line_end: what may stand before the end of a string that `$` matches.
    """
    regex.check_regular(regex_scan.outline(pattern))
    written = [_alternative(flags, text, at, line_end, caps) for flags, text, at in _alternatives(pattern)]
    kept = [text for text in written if text is not None]
    return f"^(?:{'|'.join(kept)})$" if kept else None


def _alternative(flags: str, text: str, at: int, line_end: str, caps: ConstraintsConfig) -> str | None:
    anchors = regex_scan.outline(text).anchors
    held_start = any(start == 0 and text[start:end] in _STARTS for start, end in anchors)
    held_end = any(end == len(text) and text[start:end] in _ENDS for start, end in anchors)
    for start, _ in anchors[held_start : len(anchors) - held_end]:
        raise Refused(f"the anchor at position {at + start} is not supported: only at an end of the pattern")
    bare = text[anchors[0][1] if held_start else 0 : anchors[-1][0] if held_end else None]
    try:
        written = regex.to_rust_within(_WRITABLE, flags + text, caps) if bare else ""
    except Refused as refused:
        raise Refused(_shifted(refused.message, at - len(flags))) from None
    if written is None:
        return None
    after = (line_end if text.endswith("$") else "") if held_end else ANYTHING
    return f"{'' if held_start else ANYTHING}(?:{written}){after}"


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
