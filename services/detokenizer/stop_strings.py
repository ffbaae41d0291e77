"""Stop strings and stop patterns in a stream of text. Knows characters, not tokens.

The match that is complete first wins; of those complete at the same character, the longest. So the outcome does not
depend on how the text was cut into pieces, and no character of the match has been let go before.

    text:  [0 ........... released)            let go
                          [released ... end)   held: could still become a match; shorter than the longest stop string,
                                               of a pattern MAX_HELD_CHARACTERS at most

Time is linear in the text (Knuth, Morris and Pratt 1977, one automaton for each stop string).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from services.detokenizer.stop_patterns import PatternSearch
from shared.stop_pattern import Automaton


class StopStrings:
    """Args:
    stops: empty ones are ignored.
    include: let the match itself go too.
    """

    def __init__(self, stops: Iterable[str], patterns: Iterable[Automaton] = (), *, include: bool = False) -> None:
        self._searches: list[_Search | PatternSearch] = [_Search(stop) for stop in stops if stop]
        self._searches += [PatternSearch(pattern) for pattern in patterns]
        self._include = include
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> str:
        """Take in more text; returns what can be let go. Not to be called after a match."""
        for position, char in enumerate(text, start=1):
            lengths = [search.step(char) for search in self._searches]
            if any(lengths):
                return self._match(lengths, self._held + text[:position])
        return self._release(self._held + text)

    def flush(self) -> str:
        """The text has ended without a match: let go what is held."""
        held, self._held = self._held, ""
        return held

    def _match(self, lengths: list[int], text: str) -> str:
        longest = max(lengths)
        self.matched, self._held = self._searches[lengths.index(longest)].pattern, ""
        return text if self._include else text[: len(text) - longest]

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

    def step(self, char: str) -> int:
        """Take one character; returns the length of the match that it completes, 0 if it completes none."""
        length = self.matched_chars
        while length and self.pattern[length] != char:
            length = self._fallback[length - 1]
        self.matched_chars = length + (self.pattern[length] == char)
        return self.matched_chars if self.matched_chars == len(self.pattern) else 0


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
