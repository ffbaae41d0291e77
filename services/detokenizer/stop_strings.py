"""Stop strings in a stream of text. Knows characters, not tokens.

The match that is complete first wins; of those complete at the same character, the longest. So the outcome does not
depend on how the text was cut into pieces, and no character of the match has been let go before.

    text:  [0 ........... released)            let go
                          [released ... end)   held: could still become a stop string; shorter than the longest of them

Time is linear in the text (Knuth, Morris and Pratt 1977, one automaton for each stop string).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable


class StopStrings:
    """Args:
    stops: empty ones are ignored.
    include: let the stop string itself go too.
    """

    def __init__(self, stops: Iterable[str], *, include: bool = False) -> None:
        self._searches = [_Search(stop) for stop in stops if stop]
        self._include = include
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> str:
        """Take in more text; returns what can be let go. Not to be called after a match."""
        for position, char in enumerate(text, start=1):
            complete = [search.pattern for search in self._searches if search.step(char)]
            if complete:
                return self._match(max(complete, key=len), self._held + text[:position])
        return self._release(self._held + text)

    def flush(self) -> str:
        """The text has ended without a match: let go what is held."""
        held, self._held = self._held, ""
        return held

    def _match(self, stop: str, text: str) -> str:
        self.matched, self._held = stop, ""
        return text if self._include else text[: len(text) - len(stop)]

    def _release(self, text: str) -> str:
        end = len(text) - max((search.matched_chars for search in self._searches), default=0)
        self._held = text[end:]
        return text[:end]


class _Search:
    """`matched_chars` is the longest prefix of the pattern that ends the text so far."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.matched_chars = 0
        self._fallback = _fallbacks(pattern)

    def step(self, char: str) -> bool:
        """Take one character; whether it completes the pattern."""
        length = self.matched_chars
        while length and self.pattern[length] != char:
            length = self._fallback[length - 1]
        self.matched_chars = length + (self.pattern[length] == char)
        return self.matched_chars == len(self.pattern)


def _fallbacks(pattern: str) -> array[int]:
    """For each prefix, the longest shorter prefix of the pattern that ends it."""
    fallback = array("I", [0])
    length = 0
    for char in pattern[1:]:
        while length and pattern[length] != char:
            length = fallback[length - 1]
        length += pattern[length] == char
        fallback.append(length)
    return fallback
