"""GBNF, the grammars of llama.cpp, rewritten as Lark. The rule `root` is the output.

A grammar that never comes back to one of its rules is a regular expression, and becomes terminals. In one with
recursion each terminal is a single character, or is delimited: the engine's terminals take as much text as they can,
and another one could take what must follow it. So both mean exactly what they say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from services.executor.constraint.source import ebnf_gbnf_reader, regex_sets
from services.executor.constraint.source.ebnf_gbnf_delimited import end_of_part
from services.executor.constraint.source.ebnf_gbnf_reader import Choice, Node, Pattern, Reference, Repeat
from services.executor.constraint.source.refused import Refused
from services.executor.constraint.source.regex_sets import Ranges
from shared.config import ConstraintsConfig

NEED_NOTHING = ("*", "?", "{0,", "{0}")  # repeats


def is_gbnf(source: str) -> bool:
    """Lark never has this outside of its strings and patterns."""
    return re.search(r"(?m)^\s*[a-zA-Z0-9_\-]+\s*::=", source) is not None


def to_lark(source: str, caps: ConstraintsConfig) -> str:
    """Raises:
    Refused: not GBNF; with the line.
    """
    rules = ebnf_gbnf_reader.read(source, caps)
    if "root" not in rules:
        raise Refused("there is no rule of the name root")
    if "root" not in _ending_rules(rules):
        raise Refused("no output can ever end: each way through root needs a rule that needs itself")
    return _Writer(rules).grammar()


class _Writer:
    """Names are made up anew: a number, behind `T` for a terminal and `r` for a rule."""

    def __init__(self, rules: dict[str, Node]) -> None:
        regular = _regular_rules(rules)
        self._regular = regular
        self._is_regular = "root" in regular
        self._rules = {name: body for name, body in rules.items() if name in regular or not self._is_regular}
        letter = "T" if self._is_regular else "r"
        self._names = {name: f"{letter}{number}" for number, name in enumerate(self._rules)}

    def grammar(self) -> str:
        rules = [f"{self._names[name]}: {self._written(body)}" for name, body in self._rules.items()]
        return "\n".join([f"start: {self._names['root']}", *rules])

    def _written(self, node: Node) -> str:
        match node:
            case Pattern(characters):
                return self._pattern(characters)
            case Reference(name):
                return self._names[name]
            case Repeat(item, how):
                return '""' if how in ("{0}", "{0,0}") else f"({self._written(item)}){how}"
            case Choice(sequences):
                written = [" ".join(self._items(sequence)) or '""' for sequence in sequences]
                return written[0] if len(written) == 1 else f"({' | '.join(written)})"

    def _items(self, sequence: Sequence[Node]) -> Iterator[str]:
        at = 0
        while at < len(sequence):
            end = None if self._is_regular else end_of_part(sequence, at, self._rules, self._regular)
            if end is None:
                yield self._written(sequence[at])
            else:
                yield f"/{self._regex(Choice([list(sequence[at:end])]))}/"
            at = end or at + 1

    def _pattern(self, characters: Sequence[Ranges]) -> str:
        if not characters:
            return '""'
        written = [regex_sets.written(one) for one in characters]
        return f"/{''.join(written)}/" if self._is_regular else " ".join(f"/{one}/" for one in written)

    def _regex(self, node: Node) -> str:
        match node:
            case Pattern(characters):
                return "".join(map(regex_sets.written, characters))
            case Reference(name):
                return self._regex(self._rules[name])
            case Repeat(item, how):
                return f"({self._regex(item)}){how}"
            case Choice(sequences):
                return f"({'|'.join(''.join(map(self._regex, sequence)) for sequence in sequences)})"


def _ending_rules(rules: dict[str, Node]) -> set[str]:
    """Those that some text satisfies."""
    ending: set[str] = set()
    left, found = list(rules), -1
    while len(ending) > found:
        found = len(ending)
        left.reverse()  # they refer to later ones, or to earlier ones
        for name in left:
            if _ends(rules[name], ending):
                ending.add(name)
        left = [name for name in left if name not in ending]
    return ending


def _ends(node: Node, ending: set[str]) -> bool:
    match node:
        case Pattern():
            return True
        case Reference(name):
            return name in ending
        case Repeat(item, how):
            return how.startswith(NEED_NOTHING) or _ends(item, ending)
        case Choice(sequences):
            return any(all(_ends(item, ending) for item in sequence) for sequence in sequences)


def _references(node: Node) -> list[str]:
    found, left = [], [node]
    while left:
        match left.pop():
            case Reference(name):
                found.append(name)
            case Repeat(item, _):
                left.append(item)
            case Choice(sequences):
                left.extend(item for sequence in sequences for item in sequence)
            case Pattern():
                pass
    return found


def _regular_rules(rules: dict[str, Node]) -> set[str]:
    """The rules from which none that comes back to itself is reached."""
    waits_for = {name: set(_references(body)) for name, body in rules.items()}
    users: dict[str, list[str]] = {name: [] for name in rules}
    for name, referred in waits_for.items():
        for other in referred:
            users[other].append(name)
    ready = [name for name, referred in waits_for.items() if not referred]
    regular: set[str] = set()
    while ready:
        name = ready.pop()
        regular.add(name)
        for user in users[name]:
            waits_for[user].discard(name)
            if not waits_for[user]:
                ready.append(user)
    return regular
