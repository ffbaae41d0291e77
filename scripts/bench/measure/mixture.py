"""Requests of many kinds, as they come to a server that has run for long. Pure: a seed decides all of them.

Some begin with one of several prefixes of many lengths, few of them often and many seldom, and new ones replace old
ones; some are turns of chats that come back with what they were answered; some have nothing in common with others.
Some are cancelled on the way. Knows token ids only; nothing of how they are run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

ORDINARY = range(1000, 40_000)  # ids that end nothing
KINDS = {"prefix": 5, "chat": 3, "alone": 2}
PREFIXES, PREFIX_TOKENS = 24, (32, 2500)
FORGOTTEN, COMES_BACK, CANCELLED = 0.01, 0.75, 0.05  # how often
CHATS, CHAT_TOKENS = 40, 2000  # that wait for their next turn, and before they end
ALONE_TOKENS, TAIL_TOKENS, TURN_TOKENS, NEW_TOKENS = (64, 1500), (8, 300), (10, 120), (4, 80)

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Asked:
    prompt: Tokens
    new_tokens: int
    cancelled_after: int | None = None  # tokens of output
    is_chat: bool = False

    @property
    def output_tokens(self) -> int:
        return self.new_tokens if self.cancelled_after is None else self.cancelled_after


class Mixture:
    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._prefixes = [self._tokens(PREFIX_TOKENS) for _ in range(PREFIXES)]
        self._weights = [1 / place for place in range(1, PREFIXES + 1)]
        self._chats: list[Tokens] = []

    def next(self) -> Asked:
        kind = self._chance.choices(list(KINDS), list(KINDS.values()))[0]
        prompt = {"prefix": self._with_prefix, "chat": self._turn, "alone": self._alone}[kind]()
        new_tokens = self._between(NEW_TOKENS)
        is_cancelled = self._chance.random() < CANCELLED
        return Asked(prompt, new_tokens, self._chance.randrange(new_tokens) if is_cancelled else None, kind == "chat")

    def answered(self, asked: Asked, output: Sequence[int]) -> None:
        """A chat may come back with it."""
        if asked.is_chat and len(asked.prompt) < CHAT_TOKENS and self._chance.random() < COMES_BACK:
            self._chats.append(asked.prompt + tuple(output))
            if len(self._chats) > CHATS:
                self._chats.pop(0)

    def _with_prefix(self) -> Tokens:
        place = self._chance.choices(range(PREFIXES), self._weights)[0]
        if self._chance.random() < FORGOTTEN:
            self._prefixes[place] = self._tokens(PREFIX_TOKENS)
        return self._prefixes[place] + self._tokens(TAIL_TOKENS)

    def _turn(self) -> Tokens:
        goes_on = self._chats and self._chance.random() < COMES_BACK
        before = self._chats.pop(self._chance.randrange(len(self._chats))) if goes_on else ()
        return before + self._tokens(TURN_TOKENS)

    def _alone(self) -> Tokens:
        return self._tokens(ALONE_TOKENS)

    def _tokens(self, bounds: tuple[int, int]) -> Tokens:
        return tuple(self._chance.choices(ORDINARY, k=self._between(bounds)))

    def _between(self, bounds: tuple[int, int]) -> int:
        """Small numbers more often than large ones: as likely below the geometric mean as above."""
        low, high = map(math.log, bounds)
        return round(math.exp(self._chance.uniform(low, high)))
