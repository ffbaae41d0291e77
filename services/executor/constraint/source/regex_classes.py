"""Which characters an item of a pattern takes, from what Python's parser made of it. Knows the flags in force there."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from services.executor.constraint.source import regex_sets
from services.executor.constraint.source.regex_sets import Ranges

CHARACTER_TYPES = re.ASCII | re.UNICODE


def set_of(code: str, value: Any, flags: int) -> Ranges:
    match code:
        case "ANY":
            return regex_sets.ALL if flags & re.DOTALL else regex_sets.NOT_NEWLINE
        case "LITERAL":
            return _class((("LITERAL", value),), flags)
        case "NOT_LITERAL":
            return _class((("NEGATE", None), ("LITERAL", value)), flags)
        case _:
            return _class(tuple((item.name, argument) for item, argument in value), flags)


@lru_cache(maxsize=256)
def _class(items: tuple[tuple[str, Any], ...], flags: int) -> Ranges:
    """The characters of a set in brackets."""
    literal = regex_sets.union(_literal_range(*item) for item in items if item[0] in ("LITERAL", "RANGE"))
    literal = regex_sets.intersection(literal, regex_sets.ALL)
    if flags & re.IGNORECASE:
        literal = regex_sets.folded(literal, unicode=not flags & re.ASCII)
    letters = [_letter(argument.name) for name, argument in items if name == "CATEGORY"]
    negated = items[0][0] == "NEGATE"
    widens = not negated and all(letter.islower() for letter in letters)
    taken = regex_sets.ALL
    for unicode in _readings(flags, widens):
        members = regex_sets.union(literal, *(regex_sets.category(letter, unicode=unicode) for letter in letters))
        taken = regex_sets.intersection(taken, regex_sets.complement(members) if negated else members)
    return taken


def _readings(flags: int, widens: bool) -> tuple[bool, ...]:
    """As Unicode or not: in which ways categories are read, where what is in all of them is taken.

    Args:
        widens: whether to read them as Unicode gives a larger set.
    """
    if flags & CHARACTER_TYPES:
        return (not flags & re.ASCII,)
    return (False,) if widens else (False, True)


def _literal_range(name: str, argument: Any) -> tuple[int, int]:
    first, last = argument if name == "RANGE" else (argument, argument)
    return first, last + 1


def _letter(category: str) -> str:
    """`CATEGORY_NOT_DIGIT` is `\\D`."""
    name = category.removeprefix("CATEGORY_")
    return name.removeprefix("NOT_")[0] if name.startswith("NOT_") else name[0].lower()
