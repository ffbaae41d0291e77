"""One stop pattern in a stream of text: all matches that may be under way, one character at a time.

Of each state of the automaton only the earliest beginning is kept, so the work for a character is bounded by the
automaton's size. See `shared.stop_pattern`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from shared.pattern_characters import CharacterSet
from shared.stop_pattern import HOLDS, Automaton, Conditions, Steps

MAX_HELD_CHARACTERS = 256  # of a longer match the front has been let go: it stays in the text
KNOWN_CHARACTERS = 512


class PatternSearch:
    """`matched_chars` is the length of the longest match that may be under way, up to the most that is held."""

    def __init__(self, automaton: Automaton) -> None:
        self.pattern = automaton.pattern
        self.matched_chars = 0
        self._automaton = automaton
        self._taking = _Taking(automaton)
        self._begun: dict[int, int] = {}  # by state: characters of the longest that has come there
        self._before: str | None = None  # the last character

    def step(self, char: str) -> int:
        """Take one character; returns the length of the longest match that it completes, 0 if it completes none."""
        taking = self._taking[char]
        reached: dict[int, int] = {}
        for state, length in self._begun.items():
            self._walk(self._automaton.following[state], taking, length + 1, char, reached)
        self._walk(self._automaton.first, taking, 1, char, reached)
        self._begun, self._before = reached, char
        self.matched_chars = _longest(length for state, length in reached.items() if self._automaton.following[state])
        return _longest(reached[state] for state, held in self._automaton.last if state in reached and self._hold(held))

    def _walk(self, steps: Steps, taking: frozenset[int], length: int, char: str, reached: dict[int, int]) -> None:
        for state, conditions in steps:
            if state in taking and reached.get(state, 0) < length and self._hold(conditions, char):
                reached[state] = length

    def _hold(self, conditions: Conditions, after: str | None = None) -> bool:
        return all(HOLDS[condition](self._before, after) for condition in conditions)


def _longest(lengths: Iterable[int]) -> int:
    return min(max(lengths, default=0), MAX_HELD_CHARACTERS)


class _Taking(dict[str, frozenset[int]]):
    """By character: the states that it leads to."""

    def __init__(self, automaton: Automaton) -> None:
        super().__init__()
        self._states: defaultdict[CharacterSet, list[int]] = defaultdict(list)
        for state, characters in enumerate(automaton.sets):
            self._states[characters].append(state)

    def __missing__(self, char: str) -> frozenset[int]:
        if len(self) >= KNOWN_CHARACTERS:
            self.clear()
        found = (states for characters, states in self._states.items() if char in characters)
        self[char] = taking = frozenset(state for states in found for state in states)
        return taking
