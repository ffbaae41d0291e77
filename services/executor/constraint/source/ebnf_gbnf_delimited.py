"""Parts of a GBNF sequence that show where they begin and end, as a string between quotes does.

Such a part has no recursion, no text of it is the beginning of another one, and no character that it begins with stands
anywhere else in the grammar. So it can be a terminal of the engine, which takes as much text as it can, and still mean
what it says; masks within it are cheap. Knows the tree of a grammar; writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from services.executor.constraint.source.ebnf_gbnf_reader import Choice, Node, Pattern, Reference, Repeat
from services.executor.constraint.source.regex_sets import Ranges

MAX_POSITIONS = 64  # characters written in a part, repeats written out
MAX_NODES = 200  # of its tree, repeats and references written out
MAX_STATES = 256  # of a part while it is read
MAX_ITEMS = 8  # of a sequence in one part
BOUNDS = re.compile(r"\{([0-9]+)(,?)([0-9]*)\}")


class _TooLarge(Exception):
    pass


def end_of_part(sequence: Sequence[Node], start: int, rules: Mapping[str, Node], regular: set[str]) -> int | None:
    """Where the longest such part from this place on ends, if there is one with a repeat in it."""
    if not _is_character(sequence[start]):
        return None
    for end in range(min(len(sequence), start + MAX_ITEMS), start + 2, -1):
        part = sequence[start:end]
        is_part = _is_character(part[-1]) and any(isinstance(item, Repeat) for item in part)
        if is_part and _is_delimited(part, rules, regular) and not _stands_elsewhere(part, rules):
            return end
    return None


def _is_character(node: Node) -> bool:
    return isinstance(node, Pattern) and len(node.characters) == 1


def _is_delimited(part: Sequence[Node], rules: Mapping[str, Node], regular: set[str]) -> bool:
    try:
        return _Positions(rules, regular).is_prefix_free(part)
    except _TooLarge:
        return False


def _stands_elsewhere(part: Sequence[Node], rules: Mapping[str, Node]) -> bool:
    (first,) = part[0].characters if isinstance(part[0], Pattern) else ()
    own = {id(pattern) for item in part for pattern in _patterns(item)}
    others = (pattern for body in rules.values() for pattern in _patterns(body) if id(pattern) not in own)
    return any(_overlap(first, one) for pattern in others for one in pattern.characters)


def _patterns(node: Node) -> Iterator[Pattern]:
    match node:
        case Pattern():
            yield node
        case Repeat(item, _):
            yield from _patterns(item)
        case Choice(sequences):
            for sequence in sequences:
                for item in sequence:
                    yield from _patterns(item)


@dataclass
class _Ends:
    """Of a part: whether it may be empty, and the positions that it may begin and end at."""

    may_be_empty: bool = True
    first: set[int] = field(default_factory=set)
    last: set[int] = field(default_factory=set)


class _Positions:
    """The characters written in a part, and which of them may follow which: Glushkov's automaton."""

    def __init__(self, rules: Mapping[str, Node], regular: set[str]) -> None:
        self._rules = rules
        self._regular = regular
        self._sets: list[Ranges] = []
        self._follow: list[set[int]] = []
        self._nodes = 0

    def is_prefix_free(self, part: Sequence[Node]) -> bool:
        """Where a text of the part ends, nothing of it can follow."""
        ends = self._sequence(part)
        states = [frozenset({position}) for position in ends.first]
        seen = set(states)
        while states:
            state = states.pop()
            following = set().union(*(self._follow[position] for position in state))
            if following and not ends.last.isdisjoint(state):
                return False
            for reached in self._read(following) - seen:
                seen.add(reached)
                states.append(reached)
            if len(seen) > MAX_STATES:
                raise _TooLarge
        return not ends.may_be_empty

    def _read(self, positions: set[int]) -> set[frozenset[int]]:
        """What one more character may lead to."""
        starts = {start for position in positions for start, _ in self._sets[position]}
        return {frozenset(one for one in positions if _has(self._sets[one], start)) for start in starts}

    def _node(self, node: Node) -> _Ends:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _TooLarge
        match node:
            case Pattern(characters):
                ends = _Ends()
                for ranges in characters:
                    ends = self._joined(ends, self._position(ranges))
                return ends
            case Reference(name):
                if name not in self._regular:
                    raise _TooLarge
                return self._node(self._rules[name])
            case Repeat(item, how):
                return self._repeated(item, how)
            case Choice(sequences):
                ways = [self._sequence(sequence) for sequence in sequences]
                return _Ends(
                    any(way.may_be_empty for way in ways),
                    set().union(*(way.first for way in ways)),
                    set().union(*(way.last for way in ways)),
                )

    def _position(self, ranges: Ranges) -> _Ends:
        if len(self._sets) >= MAX_POSITIONS:
            raise _TooLarge
        self._sets.append(ranges)
        self._follow.append(set())
        number = len(self._sets) - 1
        return _Ends(False, {number}, {number})

    def _sequence(self, items: Sequence[Node]) -> _Ends:
        ends = _Ends()
        for item in items:
            ends = self._joined(ends, self._node(item))
        return ends

    def _joined(self, one: _Ends, other: _Ends) -> _Ends:
        for position in one.last:
            self._follow[position] |= other.first
        return _Ends(
            one.may_be_empty and other.may_be_empty,
            one.first | other.first if one.may_be_empty else one.first,
            one.last | other.last if other.may_be_empty else other.last,
        )

    def _repeated(self, item: Node, how: str) -> _Ends:
        least, most = _bounds(how)
        if max(least, most or 0) > MAX_POSITIONS:
            raise _TooLarge
        ends = _Ends()
        for number in range(least if most is None else most):
            copy = self._node(item)
            ends = self._joined(ends, _Ends(copy.may_be_empty or number >= least, copy.first, copy.last))
        return ends if most is not None else self._joined(ends, self._looped(item))

    def _looped(self, item: Node) -> _Ends:
        ends = self._node(item)
        for position in ends.last:
            self._follow[position] |= ends.first
        return _Ends(True, ends.first, ends.last)


def _bounds(how: str) -> tuple[int, int | None]:
    match = BOUNDS.fullmatch(how)
    if match is None:
        return int(how == "+"), 1 if how == "?" else None
    least, comma, most = match.groups()
    return int(least), int(most) if most else None if comma else int(least)


def _overlap(one: Ranges, other: Ranges) -> bool:
    return any(start < other_end and other_start < end for start, end in one for other_start, other_end in other)


def _has(ranges: Ranges, point: int) -> bool:
    return any(start <= point < end for start, end in ranges)
