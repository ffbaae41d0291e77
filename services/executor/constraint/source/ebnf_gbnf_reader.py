"""GBNF as a tree: reads it, and tells where it is wrong. Knows nothing of what becomes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from services.executor.constraint.source import regex_sets
from services.executor.constraint.source.refused import Refused
from services.executor.constraint.source.regex_sets import Ranges
from shared.config import ConstraintsConfig

CHARACTER = r"(?:\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[^xuU])|[^\\])"
WORD = re.compile(
    rf"""
    (?P<space>    [ \t\r\n]+ | \#[^\n]* )
  | (?P<assign>   ::= )
  | (?P<name>     [a-zA-Z0-9_\-]+ )
  | (?P<literal>  "(?:(?!["\n]){CHARACTER})*" )
  | (?P<set>      \[\^?(?:(?!\]){CHARACTER})*\] )
  | (?P<repeat>   [*+?] | \{{[ ]*(?P<least>[0-9]+)[ ]*(?P<more>,[ ]*(?P<most>[0-9]*))?[ ]*\}} )
  | (?P<sign>     [|().] )
    """,
    re.VERBOSE,
)
RANGE = re.compile(rf"(?P<first>{CHARACTER})(?:-(?P<last>{CHARACTER}))?", re.DOTALL)
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-", "^": "^", "/": "/"}
MAX_DIGITS = 9  # of a repeat's number


@dataclass(frozen=True, slots=True)
class Word:
    kind: str
    text: str
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A literal or a set."""

    characters: tuple[Ranges, ...]  # of each, which ones it may be


@dataclass(frozen=True, slots=True)
class Reference:
    name: str


@dataclass(frozen=True, slots=True)
class Repeat:
    item: Node
    how: str


@dataclass(frozen=True, slots=True)
class Choice:
    sequences: list[list[Node]]


Node: TypeAlias = Pattern | Reference | Repeat | Choice


def read(source: str, caps: ConstraintsConfig) -> dict[str, Node]:
    """The rules by their names.

    Raises:
        Refused: with the line.
    """
    return _Reader(_words(source), caps).rules()


def _words(source: str) -> list[Word]:
    words, at, line = [], 0, 1
    while at < len(source):
        match = WORD.match(source, at)
        if match is None:
            raise Refused(f"line {line}: not a word of a grammar: {source[at : at + 20]!r}")
        if match.lastgroup != "space":
            words.append(Word(_kind(match), match[0], line))
        at, line = match.end(), line + match[0].count("\n")
    return [*words, Word("end", "the end", line)]


def _kind(match: re.Match[str]) -> str:
    return next(kind for kind in ("space", "assign", "name", "literal", "set", "repeat", "sign") if match[kind])


class _Reader:
    def __init__(self, words: list[Word], caps: ConstraintsConfig) -> None:
        self._words = words
        self._at = 0
        self._caps = caps
        self._referred: dict[str, int] = {}  # names, with the line

    def rules(self) -> dict[str, Node]:
        rules: dict[str, Node] = {}
        while self._word.kind != "end":
            name = self._taken("name")
            self._taken("assign")
            if name.text in rules:
                raise Refused(f"line {name.line}: the rule {name.text} is there twice")
            rules[name.text] = self._choice(0)
        for missing, line in self._referred.items():
            if missing not in rules:
                raise Refused(f"line {line}: there is no rule of the name {missing}")
        return rules

    @property
    def _word(self) -> Word:
        return self._words[self._at]

    @property
    def _begins_rule(self) -> bool:
        return self._word.kind == "name" and self._words[self._at + 1].kind == "assign"

    def _taken(self, kind: str, text: str | None = None) -> Word:
        word = self._word
        if word.kind != kind or (text is not None and word.text != text):
            raise Refused(f"line {word.line}: expected {text or kind}, not {word.text[:20]}")
        self._at += 1
        return word

    def _choice(self, depth: int) -> Choice:
        if depth > self._caps.max_depth:
            raise Refused(f"line {self._word.line}: parentheses nested too deeply")
        sequences = [self._sequence(depth)]
        while self._word.text == "|" and self._word.kind == "sign":
            self._at += 1
            sequences.append(self._sequence(depth))
        return Choice(sequences)

    def _sequence(self, depth: int) -> list[Node]:
        items: list[Node] = []
        while not self._begins_rule and self._word.kind != "end" and self._word.text not in ("|", ")"):
            if self._word.kind == "repeat" and items:
                word = self._taken("repeat")
                if isinstance(items[-1], Repeat):
                    raise Refused(f"line {word.line}: a repeat of a repeat; put the inner one in parentheses")
                items[-1] = Repeat(items[-1], _how(word))
            else:
                items.append(self._item(depth))
        return items

    def _item(self, depth: int) -> Node:
        word = self._word
        self._at += 1
        match word.kind, word.text:
            case "literal", text:
                return Pattern(tuple(((one, one + 1),) for one in _points(text[1:-1], word.line)))
            case "set", text:
                return Pattern((_set(text[1:-1], word.line),))
            case "sign", ".":
                return Pattern((regex_sets.ALL,))
            case "name", name:
                self._referred.setdefault(name, word.line)
                return Reference(name)
            case "sign", "(":
                inner = self._choice(depth + 1)
                self._taken("sign", ")")
                return inner
            case _:
                raise Refused(f"line {word.line}: unexpected {word.text[:20]}")


def _how(word: Word) -> str:
    match = WORD.match(word.text)
    if match is None or match["least"] is None:
        return word.text
    if max(len(match["least"]), len(match["most"] or "")) > MAX_DIGITS:
        raise Refused(f"line {word.line}: the repetition number is too large")
    least, most = int(match["least"]), int(match["most"] or 0)
    if match["most"] and most < least:
        raise Refused(f"line {word.line}: the repetition's bounds are the wrong way round")
    return f"{{{least},{match['most']}}}" if match["more"] else f"{{{least}}}"


def _points(text: str, line: int) -> list[int]:
    return [_point(match[0], line) for match in re.compile(CHARACTER, re.DOTALL).finditer(text)]


def _point(character: str, line: int) -> int:
    if character[0] != "\\":
        return ord(character)
    if character[1] in ESCAPES:
        return ord(ESCAPES[character[1]])
    if character[1] not in "xuU":
        raise Refused(f"line {line}: there is no escape {character}")
    point = int(character[2:], 16)
    if point >= regex_sets.END or 0xD800 <= point < 0xE000:
        raise Refused(f"line {line}: {character} is not a character")
    return point


def _set(text: str, line: int) -> Ranges:
    negated = text.startswith("^")
    ranges = []
    for match in RANGE.finditer(text, int(negated)):
        first = _point(match["first"], line)
        last = first if match["last"] is None else _point(match["last"], line)
        if last < first:
            raise Refused(f"line {line}: the range {match[0]} is the wrong way round")
        ranges.append((first, last + 1))
    members = regex_sets.intersection(regex_sets.union(ranges), regex_sets.ALL)
    taken = regex_sets.complement(members) if negated else members
    if not taken:
        raise Refused(f"line {line}: a set that no character is in")
    return taken
