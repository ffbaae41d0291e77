"""Where in a pattern's text things stand, which Python's parser does not say. Knows the outline of the syntax only.

Tells the truth of patterns that Python accepts; of others it says something, in linear time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""
    (?P<octal>    \\[0-7]{3} )
  | (?P<escape>   \\. )
  | (?P<set>      \[\^?\]?(?:\\.|[^\]\\])*\] )
  | (?P<comment>  \(\?\#[^)]*\) )
  | (?P<flags>    \(\?(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]*))?(?P<close>[:)]) )
  | (?P<group>    \((?:\?(?:P[<=>]|<[=!]|[=!>(]))? )
  | (?P<end>      \) )
  | (?P<repeat>   (?:[*+?]|\{(?:\d+(?:,\d*)?|,\d*)\})(?P<mode>[?+]?) )
  | (?P<anchor>   [\^$] )
  | (?P<other>    . )
    """,
    re.VERBOSE | re.DOTALL,
)
LINE_END = re.compile(r"[^\n]*")
GROUPS = {
    "(?=": "look-ahead",
    "(?!": "look-ahead",
    "(?<=": "look-behind",
    "(?<!": "look-behind",
    "(?>": "an atomic group",
    "(?(": "a conditional group",
    "(?P=": "a backreference",
}


@dataclass
class Outline:
    depth: int = 0  # of groups in one another
    irregular: list[tuple[int, str]] = field(default_factory=list)  # position, what stands there
    boundaries: list[tuple[int, str]] = field(default_factory=list)  # of words, likewise
    anchors: list[tuple[int, int]] = field(default_factory=list)  # [start, end) in the text


def outline(pattern: str) -> Outline:
    found = Outline()
    verbose = [False]  # of each open group, the outermost first
    at = 0
    while at < len(pattern):
        if verbose[-1] and pattern[at] == "#":
            at = _end_of(LINE_END.match(pattern, at), at)
            continue
        token = TOKEN.match(pattern, at)
        if token is not None:
            _note(found, token, verbose)
        at = _end_of(token, at + 1)
    return found


def _end_of(token: re.Match[str] | None, otherwise: int) -> int:
    return otherwise if token is None else token.end()


def _note(found: Outline, token: re.Match[str], verbose: list[bool]) -> None:
    match token.lastgroup:
        case "flags" | "close":
            _take_flags(token, verbose)
        case "group":
            verbose.append(verbose[-1])
        case "end" if len(verbose) > 1:
            verbose.pop()
        case _:
            pass
    found.depth = max(found.depth, len(verbose) - 1)
    if _is_anchor(token):
        found.anchors.append(token.span())
    if token["escape"] in (r"\b", r"\B"):
        found.boundaries.append((token.start(), f"a word boundary, {token['escape']},"))
    name = _irregular(token)
    if name is not None:
        found.irregular.append((token.start(), name))


def _is_anchor(token: re.Match[str]) -> bool:
    return token["anchor"] is not None or token["escape"] in (r"\A", r"\Z")


def _take_flags(token: re.Match[str], verbose: list[bool]) -> None:
    is_verbose = (verbose[-1] or "x" in token["on"]) and "x" not in (token["off"] or "")
    if token["close"] == ":":
        verbose.append(is_verbose)
    else:
        verbose[-1] = is_verbose


def _irregular(token: re.Match[str]) -> str | None:
    if token["group"] is not None:
        name = GROUPS.get(token["group"])
        return None if name is None else f"{name}, {token['group']},"
    if token["repeat"] is not None and token["mode"] == "+":
        return f"a possessive repeat, {token['repeat']},"
    if token["escape"] is not None and token["escape"][1:] in "123456789":
        return f"a backreference, {token['escape']},"
    return None
