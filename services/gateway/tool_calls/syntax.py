"""The text around a call's arguments as patterns, also for text that ends before they do."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from shared.tool_format import ToolFormat

NAME = "(?P<name>[a-zA-Z0-9_-]{1,64})"
SPACES = r"\s{0,16}"  # the arguments' own; bounded, so that reading stays linear


class CallSyntax:
    """`head` is what stands before a call's arguments, `tail` what stands behind them."""

    def __init__(self, style: ToolFormat) -> None:
        head = [*_letters(style.before_name()), NAME, *_letters(style.before_arguments()), SPACES, r"(?=\{)"]
        closing = style.closing.strip()
        tail = [SPACES, *_letters("}"), *([SPACES, *_letters(closing)] if closing else [])]
        self.head = re.compile("".join(head))
        self.tail = re.compile("".join(tail))
        self.begun_head = _begun(head)
        self.begun_tail = _begun(tail)
        self.between = string.whitespace + style.separator.strip()  # characters that mean nothing between two calls


def _letters(text: str) -> list[str]:
    return [re.escape(letter) for letter in text]


def _begun(pieces: Sequence[str]) -> re.Pattern[str]:
    """Matches the end of a text, from where the pieces may have begun: always, if only the empty end."""
    pattern = ""
    for piece in reversed(pieces):
        pattern = f"(?:{piece}{pattern})?"
    return re.compile(pattern + r"\Z")
