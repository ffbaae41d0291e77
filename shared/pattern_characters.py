r"""Which characters one place of a pattern takes, from what Python's parser made of it: as `re` takes them.

`\d`, `\w` and `\s` take Unicode, unless the pattern has the flag for ASCII.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CATEGORIES: dict[str, Callable[[str], bool]] = {
    "DIGIT": str.isdecimal,
    "SPACE": str.isspace,
    "WORD": lambda char: char.isalnum() or char == "_",
}
ASCII_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "DIGIT": lambda char: char in string.digits,
    "SPACE": lambda char: char in string.whitespace,
    "WORD": lambda char: char in string.ascii_letters + string.digits + "_",
}


@dataclass(frozen=True)
class CharacterSet:
    ranges: tuple[tuple[str, str], ...]  # first and last
    categories: tuple[str, ...]  # "DIGIT", "NOT_DIGIT"
    is_negated: bool
    flags: int

    def __contains__(self, char: str) -> bool:
        forms = self._forms(char)
        in_range = any(first <= form <= last for first, last in self.ranges for form in forms)
        return (in_range or any(self._is_of(category, char) for category in self.categories)) != self.is_negated

    def _forms(self, char: str) -> set[str]:
        """As what it counts."""
        if not self.flags & re.IGNORECASE or (self.flags & re.ASCII and not char.isascii()):
            return {char}
        return {char, char.lower(), char.upper()}

    def _is_of(self, category: str, char: str) -> bool:
        categories = ASCII_CATEGORIES if self.flags & re.ASCII else CATEGORIES
        return categories[category.removeprefix("NOT_")](char) != category.startswith("NOT_")


def character_set(code: str, value: Any, flags: int) -> CharacterSet:
    flags &= re.IGNORECASE | re.ASCII | re.DOTALL
    match code:
        case "ANY":
            return CharacterSet(() if flags & re.DOTALL else (("\n", "\n"),), (), True, 0)
        case "LITERAL":
            return CharacterSet(((chr(value), chr(value)),), (), False, flags)
        case "NOT_LITERAL":
            return CharacterSet(((chr(value), chr(value)),), (), True, flags)
        case _:
            return _in_brackets([(item.name, argument) for item, argument in value], flags)


def _in_brackets(items: list[tuple[str, Any]], flags: int) -> CharacterSet:
    ranges = [(argument, argument) for name, argument in items if name == "LITERAL"]
    ranges += [argument for name, argument in items if name == "RANGE"]
    return CharacterSet(
        tuple((chr(first), chr(last)) for first, last in ranges),
        tuple(argument.name.removeprefix("CATEGORY_") for name, argument in items if name == "CATEGORY"),
        any(name == "NEGATE" for name, _ in items),
        flags,
    )
