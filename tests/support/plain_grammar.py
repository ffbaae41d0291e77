"""A grammar asked token by token, with a matcher compiled for the occasion: what the state store must agree with."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from services.executor.constraint.engine import LIMITS, Grammar, load_tokenizer
from tests.support.tiny_model import VOCAB_SIZE, tiny_tokenizer

EOS = frozenset((0, 2))


@cache
def small_tokenizer() -> LLTokenizer:
    with tempfile.TemporaryDirectory() as folder:
        tiny_tokenizer().save(str(Path(folder) / "tokenizer.json"))
        return load_tokenizer(Path(folder), VOCAB_SIZE, sorted(EOS))


def encode(text: str) -> list[int]:
    return small_tokenizer().tokenize_str(text)


def regex(pattern: str) -> Grammar:
    return Grammar(pattern, LLMatcher.grammar_from_regex(pattern), small_tokenizer())


def lark(text: str) -> Grammar:
    return Grammar(text, text, small_tokenizer())


def tokens_of(words: np.ndarray) -> set[int]:
    """Those that have a bit in a mask row."""
    return set(np.unpackbits(words.view(np.uint8), bitorder="little").nonzero()[0].tolist())


class PlainGrammar:
    """Behind some tokens."""

    def __init__(self, text: str, token_ids: Iterable[int] = ()) -> None:
        self._matcher = LLMatcher(small_tokenizer(), text, log_level=0, limits=LIMITS)
        self.forced = tuple(self._matcher.compute_ff_tokens())
        self.has_ended = False
        for token_id in token_ids:
            self.advance(token_id)

    def advance(self, token_id: int) -> None:
        if token_id in EOS:
            assert self.is_accepting
            self.has_ended, self.forced = True, ()
            return
        rest = self.forced[1:] if self.forced[:1] == (token_id,) else ()
        assert self._matcher.consume_token(token_id)
        self.forced = rest or tuple(self._matcher.compute_ff_tokens())

    @property
    def is_accepting(self) -> bool:
        return self.has_ended or self._matcher.is_accepting()

    @property
    def allowed(self) -> set[int]:
        """The tokens that may follow; where some are forced, the first of them."""
        if self.has_ended:
            return set(EOS)
        if self.forced:
            return {self.forced[0]}
        return tokens_of(np.frombuffer(self._matcher.compute_bitmask(), np.int32))

    @property
    def is_over(self) -> bool:
        return self.is_accepting and not self.forced and self.allowed <= EOS

    def takes(self, token_id: int) -> bool:
        """Whether the grammar alone lets it follow, forced or not."""
        if token_id in EOS:
            return self.is_accepting
        return not self.has_ended and self._matcher.validate_tokens([token_id]) == 1


def longest(text: str, before: Sequence[int], token_ids: Sequence[int]) -> int:
    """How many of the tokens may follow one another, up to an end-of-sequence token."""
    plain = PlainGrammar(text, before)
    for count, token_id in enumerate(token_ids):
        if token_id in EOS or token_id not in plain.allowed:
            return count
        plain.advance(token_id)
    return len(token_ids)
