"""What a grammar in GBNF takes, by trying every way: small and slow, and nothing of it is the project's own reader."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache

Ends = Callable[[str, int], frozenset[int]]  # of a text from a place on: where what is taken may end

WORDS = re.compile(
    r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|::=|\{\d+(?:,\d*)?\}|[|()*+?.]|[a-zA-Z0-9_-]+|#[^\n]*|\s+', re.DOTALL
)


def takes(source: str, text: str) -> bool:
    words = [word for word in WORDS.findall(source) if word[0] != "#" and word.strip()]
    return len(text) in _Rules(words).rule("root")(text, 0)


class _Rules:
    def __init__(self, words: list[str]) -> None:
        self._words = [*words, "", ""]
        self._at = 0
        self._bodies: dict[str, Ends] = {}
        while self._words[self._at]:
            name = self._words[self._at]
            self._at += 2
            self._bodies[name] = self._choice()

    def rule(self, name: str) -> Ends:
        return lambda text, at: self._bodies[name](text, at)

    def _choice(self) -> Ends:
        ways = [self._sequence()]
        while self._words[self._at] == "|":
            self._at += 1
            ways.append(self._sequence())
        return cache(lambda text, at: frozenset().union(*(way(text, at) for way in ways)))

    def _sequence(self) -> Ends:
        items: list[Ends] = []
        while self._words[self._at] not in ("", "|", ")") and self._words[self._at + 1] != "::=":
            item = self._item()
            if self._words[self._at][:1] in ("*", "+", "?", "{"):
                item = _repeated(item, *_bounds(self._words[self._at]))
                self._at += 1
            items.append(item)
        return lambda text, at: _through(items, text, at)

    def _item(self) -> Ends:
        word = self._words[self._at]
        self._at += 1
        if word == "(":
            inner = self._choice()
            self._at += 1
            return inner
        if word[0] == '"':
            literal = ast.literal_eval(word)
            return lambda text, at: frozenset({at + len(literal)} if text.startswith(literal, at) else ())
        if word[0] in "[.":
            members = re.compile(word, re.DOTALL)
            return lambda text, at: frozenset({at + 1} if members.match(text, at) else ())
        return self.rule(word)


def _bounds(word: str) -> tuple[int, int | None]:
    if word[0] != "{":
        return int(word == "+"), 1 if word == "?" else None
    least, comma, most = word[1:-1].partition(",")
    return int(least), int(most) if most else None if comma else int(least)


def _through(items: list[Ends], text: str, at: int) -> frozenset[int]:
    places = frozenset({at})
    for item in items:
        places = frozenset().union(*(item(text, place) for place in places))
    return places


def _repeated(item: Ends, least: int, most: int | None) -> Ends:
    def ends(text: str, at: int) -> frozenset[int]:
        places, found, count = frozenset({at}), frozenset[int](), 0
        while places and (most is None or count <= most):
            found |= places if count >= least else frozenset()
            places = frozenset().union(*(item(text, place) for place in places)) - found
            count += 1
        return found

    return ends
