"""GBNF, the grammars of llama.cpp, rewritten as Lark. The rule `root` is the output.

A rule that never comes back to itself is a regular expression, and becomes a terminal. So a grammar without recursion
means exactly what it says. In one with recursion each such rule, and each repeat or group of its own, takes as much
text as it can: where `name ::= [a-z]+` is followed by "ing", the "ing" is never reached.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from services.executor.constraint.source import ebnf_gbnf_reader
from services.executor.constraint.source.ebnf_gbnf_reader import Choice, Node, Pattern, Reference, Repeat
from services.executor.constraint.source.refused import Refused
from shared.config import ConstraintsConfig


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
    return _Writer(rules).grammar()


@dataclass
class _Writer:
    """Names are made up anew: `r` and a number for a rule, `T` for a terminal."""

    rules: dict[str, Node]
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._regular = _regular_rules(self.rules)
        numbers = {name: number for number, name in enumerate(self.rules)}
        self._names = {name: f"{'T' if name in self._regular else 'r'}{numbers[name]}" for name in self.rules}

    def grammar(self) -> str:
        self.lines.append(f"start: {self._names['root']}")
        for name, body in self.rules.items():
            written = self._terminal(body) if name in self._regular else self._rule(body)
            self.lines.append(f"{self._names[name]}: {written}")
        return "\n".join(self.lines)

    def _terminal(self, node: Node) -> str:
        match node:
            case Pattern(text):
                return f"/{text}/" if text else '""'
            case Reference(name):
                return self._names[name]
            case Repeat(item, how):
                return '""' if how in ("{0}", "{0,0}") else f"({self._terminal(item)}){how}"
            case Choice(sequences):
                return _joined([[self._terminal(item) for item in sequence] for sequence in sequences])

    def _rule(self, node: Node) -> str:
        match node:
            case Repeat() | Choice() if self._is_regular(node):
                name = f"X{len(self.lines)}"
                self.lines.append(f"{name}: {self._terminal(node)}")
                return name
            case Repeat(item, how):
                return '""' if how in ("{0}", "{0,0}") else f"({self._rule(item)}){how}"
            case Choice(sequences):
                return _joined([[self._rule(item) for item in sequence] for sequence in sequences])
            case _:
                return self._terminal(node)

    def _is_regular(self, node: Node) -> bool:
        return all(name in self._regular for name in _references(node))


def _joined(sequences: list[list[str]]) -> str:
    written = [" ".join(items) if items else '""' for items in sequences]
    return written[0] if len(written) == 1 else f"({' | '.join(written)})"


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
