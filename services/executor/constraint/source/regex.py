r"""A pattern in the syntax of Python's `re`, rewritten for the engine. The whole output matches it.

Python's own parser reads the pattern; what it understood is written anew, character by character, so nothing depends on
how the engine would read the text. An output satisfies `re.fullmatch(pattern, output)`:

    - `\d`, `\w` and `\s` take ASCII, unless the pattern asks for more with `(?u)`. A set that leaves them out (`\D`,
      `[^\w]`) leaves out all that Python does: it takes what it would take with `re.ASCII` and without.
    - `^` and `\A` at the very start, `$` and `\Z` at the very end say nothing new. Elsewhere they are refused.
    - Lazy repeats are the same language as greedy ones. What is not regular is refused, and so is a pattern that
      nothing matches, or nothing but the empty text.

`warnings` is used in a way that other threads can see.
"""

from __future__ import annotations

import importlib
import re
import warnings
from dataclasses import dataclass
from typing import Any, Literal

from services.executor.constraint.source import regex_classes, regex_sets
from services.executor.constraint.source.refused import Refused
from services.executor.constraint.source.regex_sets import Ranges
from shared import regex_scan
from shared.config import ConstraintsConfig

parser: Any = importlib.import_module("re._parser")  # has no types

MAX_WRITTEN_DEPTH = 240  # the engine refuses more than 250, and a set counts too
ANCHOR = "_anchor_at_{}_"


@dataclass(frozen=True, slots=True)
class Part:
    """Of the pattern, written for the engine."""

    text: str
    binds: Literal["atom", "sequence", "choice"] = "atom"
    depth: int = 0

    @property
    def atom(self) -> Part:
        return self if self.binds == "atom" else Part(f"(?:{self.text})", "atom", self.depth + 1)


EMPTY = Part("", "sequence")


@dataclass(frozen=True, slots=True)
class Place:
    """What is known where a part of the pattern stands."""

    flags: int  # UNICODE only if the pattern asks for it
    at_start: bool = True  # nothing can precede it
    at_end: bool = True  # nothing can follow it
    times: int = 1  # what the repeats around it multiply to


def to_rust(pattern: str, caps: ConstraintsConfig) -> str:
    """The pattern as the engine reads it: printable ASCII, without slashes and quotes.

    Raises:
        Refused: not a pattern, not regular, larger than `caps` allow, or matched by nothing but the empty text.
    """
    written = to_rust_within(regex_sets.ALL, pattern, caps)
    if written is None:
        raise Refused("no text matches this pattern")
    if not written:
        raise Refused("only the empty text matches this pattern")
    return written


def to_rust_within(characters: Ranges, pattern: str, caps: ConstraintsConfig) -> str | None:
    """The same for texts of these characters; None if the pattern matches none of them.

    Raises:
        Refused: not a pattern, not regular, or larger than `caps` allow.
    """
    length = len(pattern.encode(errors="surrogatepass"))
    if length > caps.max_pattern_bytes:
        raise Refused(f"a pattern of {length} bytes; at most {caps.max_pattern_bytes} are taken")
    found = regex_scan.outline(pattern)
    if found.depth > caps.max_depth:
        raise Refused(f"groups nested {found.depth} deep; at most {caps.max_depth} are taken")
    tree = parsed(pattern)
    check_regular(found)
    if found.anchors:
        tree = parsed(_with_marks(pattern, found.anchors))
    part = _Writer(tree.state, caps, characters).sequence(tree, Place(_flags(pattern, tree.state.flags)))
    if part is not None and part.depth > MAX_WRITTEN_DEPTH:
        raise Refused("the pattern is nested too deeply")
    return None if part is None else part.text


def check_regular(found: regex_scan.Outline) -> None:
    """Raises Refused, with the position of what is not regular."""
    for position, name in sorted(found.irregular + found.boundaries):
        raise Refused(f"{name} at position {position} is not supported: it is not regular")


def parsed(pattern: str) -> Any:
    """What Python's parser makes of it.

    Raises:
        Refused: it is no pattern.
    """
    try:
        return _parsed_by_python(pattern, 0)
    except re.error as error:
        place = "" if error.pos is None else f" at position {error.pos}"
        raise Refused(f"{error.msg}{place}") from None
    except (ValueError, OverflowError) as error:
        contradicts = "flags" in str(error)
        raise Refused(str(error) if contradicts else "the repetition number is too large") from None
    except RecursionError:
        raise Refused("the pattern is nested too deeply") from None


def _parsed_by_python(pattern: str, flags: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what may change its meaning in some future
        return parser.parse(pattern, flags)


def _flags(pattern: str, flags: int) -> int:
    """Without UNICODE unless the pattern asks for it: then, and only then, ASCII contradicts it."""
    if flags & re.ASCII or "u" not in pattern:
        return flags & ~re.UNICODE
    try:
        _parsed_by_python(pattern, re.ASCII)
    except ValueError:
        return flags
    return flags & ~re.UNICODE


def _with_marks(pattern: str, anchors: list[tuple[int, int]]) -> str:
    """Each anchor in a group that is named for its position: Python's parser keeps that."""
    pieces, previous = [], 0
    for start, end in anchors:
        pieces.append(f"{pattern[previous:start]}(?P<{ANCHOR.format(start)}>{pattern[start:end]})")
        previous = end
    return "".join(pieces) + pattern[previous:]


class _Writer:
    """Writes what Python's parser understood. None stands for what nothing matches."""

    def __init__(self, state: Any, caps: ConstraintsConfig, characters: Ranges) -> None:
        self._state = state
        self._caps = caps
        self._characters = characters
        self._set_bytes = 0
        prefix = ANCHOR.partition("{")[0]
        marks = {group: name for name, group in state.groupdict.items() if name.startswith(prefix)}
        self._positions = {group: int(name.removeprefix(prefix).rstrip("_")) for group, name in marks.items()}

    def sequence(self, items: Any, place: Place) -> Part | None:
        takes = [bool(parser.SubPattern(self._state, [item]).getwidth()[1]) for item in items]
        first = takes.index(True) if any(takes) else len(takes)
        last = len(takes) - 1 - takes[::-1].index(True) if any(takes) else -1
        parts = []
        for index, item in enumerate(items):
            at_start, at_end = place.at_start and index <= first, place.at_end and index >= last
            parts.append(self._item(item, Place(place.flags, at_start, at_end, place.times)))
        return _joined(parts)

    def _item(self, item: Any, place: Place) -> Part | None:
        code, value = item
        match code.name:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self._set(regex_classes.set_of(code.name, value, place.flags))
            case "BRANCH":
                return _alternatives([self.sequence(branch, place) for branch in value[1]])
            case "SUBPATTERN":
                return self._group(value, place)
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeat(value, place)
            case name:
                raise Refused(f"{name.lower().replace('_', ' ')} is not supported in a pattern")

    def _set(self, ranges: Ranges) -> Part | None:
        ranges = regex_sets.intersection(ranges, self._characters)
        if not ranges:
            return None
        text = regex_sets.written(ranges)
        if len(ranges) > 1:
            self._set_bytes += len(text)
        if self._set_bytes > self._caps.max_source_bytes:
            raise Refused(f"written out, its character sets have more than {self._caps.max_source_bytes} bytes")
        return Part(text, "atom", 2)

    def _group(self, value: Any, place: Place) -> Part | None:
        group, added, removed, items = value
        if group in self._positions:
            return self._anchor(items, self._positions[group], place)
        flags = place.flags & ~regex_classes.CHARACTER_TYPES if added & regex_classes.CHARACTER_TYPES else place.flags
        return self.sequence(items, Place((flags | added) & ~removed, place.at_start, place.at_end, place.times))

    def _anchor(self, items: Any, position: int, place: Place) -> Part:
        is_beginning = items[0][1].name in ("AT_BEGINNING", "AT_BEGINNING_STRING")
        if not (place.at_start if is_beginning else place.at_end):
            where = "the very start" if is_beginning else "the very end"
            raise Refused(f"the anchor at position {position} is not supported: only at {where} of the pattern")
        return EMPTY

    def _repeat(self, value: Any, place: Place) -> Part | None:
        least, most, items = value
        bounded = most is not parser.MAXREPEAT
        times = place.times * max(1, int(most if bounded else least))
        if times > self._caps.max_repeat:
            raise Refused(f"repeats that multiply to {times}; at most {self._caps.max_repeat} are taken")
        once = bounded and most <= 1
        inner = self.sequence(items, Place(place.flags, place.at_start and once, place.at_end and once, times))
        return _repeated(inner, int(least), int(most) if bounded else None)


def _joined(parts: list[Part | None]) -> Part | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    known = [part if part.binds != "choice" else part.atom for part in known if part.text]
    match known:
        case []:
            return EMPTY
        case [part]:
            return part
        case _:
            return Part("".join(part.text for part in known), "sequence", 1 + max(part.depth for part in known))


def _alternatives(parts: list[Part | None]) -> Part | None:
    known = list(dict.fromkeys(part for part in parts if part is not None))
    if len(known) <= 1:
        return known[0] if known else None
    return Part("|".join(part.text for part in known), "choice", 1 + max(part.depth for part in known))


def _repeated(inner: Part | None, least: int, most: int | None) -> Part | None:
    if most == 0 or inner == EMPTY or (inner is None and least == 0):
        return EMPTY
    if inner is None or (least, most) == (1, 1):
        return inner
    return Part(inner.atom.text + _quantifier(least, most), "sequence", inner.atom.depth + 1)


def _quantifier(least: int, most: int | None) -> str:
    match least, most:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case _, None:
            return f"{{{least},}}"
        case _:
            return f"{{{least}}}" if least == most else f"{{{least},{most}}}"
