r"""A client's pattern that ends an output, as an automaton: which characters can follow which in a match.

Python's own parser reads the pattern, so it is in the syntax of `re`; nothing of `re` runs it. The automaton is
Glushkov's (1961): a state for each place in the pattern that takes a character, no others, so that a reader in any
state has a bounded number of steps for each character, whatever the pattern.

A match is looked for in the text so far as if it were all: `$` and `\b` hold at its end. What is not regular
(look-around, backreferences) is refused, and so is what matches the empty text.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from shared.pattern_characters import CharacterSet, character_set
from shared.regex_scan import outline

parser: Any = importlib.import_module("re._parser")  # has no types

MAX_CHARACTERS = 1024  # of a pattern
MAX_SIZE = 1000  # states and steps, of all patterns of a request: so much work may each character of an output be
MAX_DEPTH = 40  # of groups and repeats in one another

Conditions: TypeAlias = frozenset[str]  # that hold between two characters: keys of HOLDS
Steps: TypeAlias = set[tuple[int, Conditions]]  # states, and what must hold before the character that leads there

NOTHING: Conditions = frozenset()


class BadPattern(Exception):
    """Not a pattern, or none that can be served; says why."""


def _is_word(char: str | None) -> bool:
    return char is not None and (char.isalnum() or char == "_")


HOLDS: dict[str, Callable[[str | None, str | None], bool]] = {  # the characters before and after; None: there is none
    "start": lambda before, after: before is None,
    "line_start": lambda before, after: before in (None, "\n"),
    "end": lambda before, after: after is None,
    "line_end": lambda before, after: after in (None, "\n"),
    "boundary": lambda before, after: _is_word(before) != _is_word(after),
    "no_boundary": lambda before, after: _is_word(before) == _is_word(after),
}


@dataclass(frozen=True)
class Automaton:
    """States are numbers. A match is begun by a step of `first`, goes on by `following` and ends in `last`."""

    pattern: str
    sets: tuple[CharacterSet, ...]  # by state: what leads there
    first: Steps
    following: tuple[Steps, ...]  # by state
    last: Steps  # conditions: of the place behind it

    @property
    def size(self) -> int:
        return len(self.sets) + len(self.first) + len(self.last) + sum(map(len, self.following))


def read_stop_patterns(patterns: Iterable[str]) -> list[Automaton]:
    """Raises BadPattern, also if they are too large together."""
    read: list[Automaton] = []
    for pattern in patterns:
        read.append(read_stop_pattern(pattern))
        if sum(automaton.size for automaton in read) > MAX_SIZE:
            raise BadPattern("too large, its repeats written out" if len(read) == 1 else "too large together")
    return read


@lru_cache(maxsize=256)
def read_stop_pattern(pattern: str) -> Automaton:
    """Raises BadPattern."""
    if not 0 < len(pattern) <= MAX_CHARACTERS:
        raise BadPattern(f"a pattern has 1 to {MAX_CHARACTERS} characters, not {len(pattern)}")
    parsed = _parsed(pattern)
    builder = _Builder()
    for position, name in outline(pattern).irregular:
        raise BadPattern(f"{name} at position {position} is not supported: it is not regular")
    whole = builder.sequence(parsed, parsed.state.flags)
    if whole.empty:
        raise BadPattern("it matches the empty text")
    steps = tuple(builder.following[state] for state in range(len(builder.sets)))
    return Automaton(pattern, tuple(builder.sets), whole.first, steps, whole.last)


def _parsed(pattern: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what may change its meaning in some future
            return parser.parse(pattern, 0)
    except re.error as error:
        place = "" if error.pos is None else f" at position {error.pos}"
        raise BadPattern(f"{error.msg}{place}") from None
    except (ValueError, OverflowError):
        raise BadPattern("the flags contradict each other, or a repetition number is too large") from None
    except RecursionError:
        raise BadPattern("nested too deeply") from None


@dataclass(frozen=True)
class _Part:
    """Of the pattern. `empty`: the conditions under each of which it takes no character."""

    first: Steps
    last: Steps
    empty: frozenset[Conditions]


EMPTY = _Part(set(), set(), frozenset({NOTHING}))


class _Builder:
    def __init__(self) -> None:
        self.sets: list[CharacterSet] = []
        self.following: defaultdict[int, Steps] = defaultdict(set)
        self._size = 0
        self._depth = 0

    def sequence(self, items: Sequence[Any], flags: int) -> _Part:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadPattern("nested too deeply")
        whole = EMPTY
        for item in items:
            whole = self._joined(whole, self._item(item, flags))
        self._depth -= 1
        return whole

    def _item(self, item: Any, flags: int) -> _Part:
        code, value = item
        match code.name:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self._character(character_set(code.name, value, flags))
            case "AT":
                return _Part(set(), set(), frozenset({frozenset({_condition(value.name, flags)})}))
            case "BRANCH":
                return _either([self.sequence(branch, flags) for branch in value[1]])
            case "SUBPATTERN":
                _, added, removed, items = value
                return self.sequence(items, (flags | added) & ~removed)
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeat(value, flags)
            case name:
                raise BadPattern(f"{name.lower().replace('_', ' ')} is not supported: it is not regular")

    def _character(self, characters: CharacterSet) -> _Part:
        self._grow()
        state = len(self.sets)
        self.sets.append(characters)
        return _Part({(state, NOTHING)}, {(state, NOTHING)}, frozenset())

    def _repeat(self, value: Any, flags: int) -> _Part:
        least, most, items = value
        if not items.getwidth()[1]:  # once or often is the same
            return self.sequence(items, flags) if least else EMPTY
        whole = EMPTY
        if most is parser.MAXREPEAT:
            whole = self.sequence(items, flags)
            self._link(whole.last, whole.first)
            whole = whole if least else _either([EMPTY, whole])
            least, most = max(least - 1, 0), 0
        for _ in range(int(least), int(most)):
            whole = _either([EMPTY, self._joined(self.sequence(items, flags), whole)])
        for _ in range(int(least)):
            whole = self._joined(self.sequence(items, flags), whole)
        return whole

    def _joined(self, left: _Part, right: _Part) -> _Part:
        self._link(left.last, right.first)
        return _Part(
            left.first | {(state, more | held) for held in left.empty for state, more in right.first},
            right.last | {(state, more | held) for held in right.empty for state, more in left.last},
            frozenset(one | other for one in left.empty for other in right.empty),
        )

    def _link(self, last: Steps, first: Steps) -> None:
        for state, held in last:
            for following, more in first:
                self._grow()
                self.following[state].add((following, held | more))

    def _grow(self) -> None:
        self._size += 1
        if self._size > MAX_SIZE:
            raise BadPattern("too large, its repeats written out")


def _either(parts: Sequence[_Part]) -> _Part:
    return _Part(
        set().union(*(part.first for part in parts)),
        set().union(*(part.last for part in parts)),
        frozenset().union(*(part.empty for part in parts)),
    )


def _condition(name: str, flags: int) -> str:
    by_line = bool(flags & re.MULTILINE)
    match name:
        case "AT_BEGINNING":
            return "line_start" if by_line else "start"
        case "AT_BEGINNING_STRING":
            return "start"
        case "AT_END":
            return "line_end" if by_line else "end"
        case "AT_END_STRING":
            return "end"
        case "AT_BOUNDARY":
            return "boundary"
        case _:
            return "no_boundary"
