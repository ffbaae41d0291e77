"""A list of texts, one of which the output is. Knows nothing of tokens: a text may be the beginning of another one."""

from __future__ import annotations

from typing import Any

from services.executor.constraint.source import regex_sets
from services.executor.constraint.source.refused import Refused
from shared.config import ConstraintsConfig

MAX_TEXT_BYTES = 4_000  # of a text that is given: what is left of it is looked at for each token's mask


def grammar(choices: Any, *, caps: ConstraintsConfig) -> str:
    """Args:
        choices: as decoded from JSON.

    Raises:
        Refused: not an array of distinct texts, none of them empty.
    """
    if not isinstance(choices, list) or not choices:
        raise Refused("choices must be an array of strings, at least one")
    if len(choices) > caps.max_enum_values:
        raise Refused(f"{len(choices)} choices; at most {caps.max_enum_values} are taken")
    seen: set[str] = set()
    for index, choice in enumerate(choices):
        reason = _refusal(choice, seen)
        if reason is not None:
            raise Refused(reason, (index,))
        seen.add(choice)
    return f"start: /{'|'.join(_written(choice) for choice in choices)}/"


def _refusal(choice: Any, seen: set[str]) -> str | None:
    if not isinstance(choice, str):
        return "a choice must be a string"
    if not choice:
        return "a choice must not be empty"
    if any(0xD800 <= ord(character) < 0xE000 for character in choice):
        return "a choice must be text: it has half of a surrogate pair"
    size = len(choice.encode())
    if size > MAX_TEXT_BYTES:
        return f"a choice of {size} bytes; at most {MAX_TEXT_BYTES} are taken"
    return "the same choice is there twice" if choice in seen else None


def _written(choice: str) -> str:
    return "".join(regex_sets.character(ord(character)) for character in choice)
