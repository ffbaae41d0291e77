"""Sets of characters: as ranges of code points, by the rules of Python's `re`, and written for the engine.

A set is a tuple of ranges [start, end), sorted, no two of which touch. Surrogates are in none: they are not text.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable
from functools import cache, lru_cache
from string import ascii_letters

Ranges = tuple[tuple[int, int], ...]

END = 0x110000
NONE: Ranges = ()
ALL: Ranges = ((0, 0xD800), (0xE000, END))
NOT_NEWLINE: Ranges = ((0, 10), (11, 0xD800), (0xE000, END))
UTF_32 = f"utf-32-{sys.byteorder[0]}e"
CASED_END = 0x20000  # no character from here on has a case
PLAIN = frozenset(map(ord, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"))


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """Of ranges in any order."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(one for ranges in sets for one in ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    """All other characters."""
    gaps, previous = [], 0
    for start, end in union(ranges, ((0xD800, 0xE000),)):
        if previous < start:
            gaps.append((previous, start))
        previous = end
    return (*gaps, (previous, END)) if previous < END else tuple(gaps)


@lru_cache(maxsize=256)
def intersection(first: Ranges, second: Ranges) -> Ranges:
    return complement(union(complement(first), complement(second)))


@cache
def category(letter: str, *, unicode: bool) -> Ranges:
    r"""What `\d`, `\w` or `\s` takes, or `\D`, `\W`, `\S`."""
    if letter.isupper():
        return complement(category(letter.lower(), unicode=unicode))
    text = array("I", range(END if unicode else 128)).tobytes().decode(UTF_32, "surrogatepass")
    spans = [match.span() for match in re.finditer(rf"\{letter}+", text, 0 if unicode else re.ASCII)]
    return union(spans)


def folded(ranges: Ranges, *, unicode: bool) -> Ranges:
    """The same and what `re.IGNORECASE` takes besides; only ASCII has cases unless `unicode`."""
    letters = _cased() if unicode else ascii_letters
    cased = intersection(ranges, union((ord(one), ord(one) + 1) for one in letters))
    return union(ranges, _other_cases(cased, letters)) if cased else ranges


@cache
def _cased() -> str:
    """All characters that another one can be taken for, and some more."""
    letters = (chr(point) for point in range(CASED_END) if not 0xD800 <= point < 0xE000)
    forms = ((one, one.lower(), one.upper(), one.title()) for one in letters)
    return "".join(sorted({letter for form in forms if len(set(form)) > 1 for letter in "".join(form)}))


@lru_cache(maxsize=256)
def _other_cases(ranges: Ranges, letters: str) -> Ranges:
    members = "".join(rf"\U{start:08x}-\U{end - 1:08x}" for start, end in ranges)
    found = re.findall(f"[{members}]", letters, re.IGNORECASE)
    return union((ord(one), ord(one) + 1) for one in found)


def written(ranges: Ranges) -> str:
    """A set that is not empty, as the engine reads it; ASCII, with neither slash nor quote."""
    if ranges == ALL:
        return "(?s:.)"
    if ranges == NOT_NEWLINE:
        return "."
    if len(ranges) == 1 and ranges[0][1] - ranges[0][0] == 1:
        return character(ranges[0][0])
    others = complement(ranges)
    return f"[^{_members(others)}]" if len(others) < len(ranges) else f"[{_members(ranges)}]"


def character(point: int) -> str:
    return chr(point) if point in PLAIN else f"\\x{{{point:x}}}"


def _members(ranges: Ranges) -> str:
    return "".join(
        character(start) if end - start == 1 else f"{character(start)}-{character(end - 1)}" for start, end in ranges
    )
