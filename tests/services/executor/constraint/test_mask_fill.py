"""Masks that are computed in parallel: the same ones, and what fails among them fails alone."""

from __future__ import annotations

import numpy as np
import pytest
from llguidance import LLMatcher, LLParserLimits

from services.executor.constraint.cursor import Cursor
from services.executor.constraint.engine import Grammar, check
from services.executor.constraint.states import StateStore
from tests.support.plain_grammar import EOS, PlainGrammar, encode, lark, regex, small_tokenizer, tokens_of
from tests.support.tiny_model import VOCAB_SIZE

LETTERS = "abcdefghij"


@pytest.fixture
def states() -> StateStore:
    return StateStore(small_tokenizer(), budget_bytes=10**7, eos_token_ids=EOS, threads=2, together=2)


def bitmask_for(cursors: list[Cursor]) -> np.ndarray:
    return np.full((len(cursors) + 1, -(-VOCAB_SIZE // 32)), 7, np.int32)


class Tight(Grammar):
    """Its lexer is soon full, and then all its matchers fail."""

    def _compile(self) -> LLMatcher:
        limits = LLParserLimits(max_lexer_states=500, verbose_errors=False)
        matcher = LLMatcher(small_tokenizer(), self.key, log_level=0, limits=limits)
        check(matcher)
        return matcher


def test_each_has_its_own(states: StateStore) -> None:
    patterns = [f"[a-j]*{letter}{{2}}x" for letter in LETTERS]
    cursors = [states.enter(regex(pattern), encode(letter)) for pattern, letter in zip(patterns, LETTERS, strict=True)]
    bitmask = bitmask_for(cursors)
    assert states.fill(cursors, bitmask) == [None] * len(cursors)
    for row, (pattern, letter) in enumerate(zip(patterns, LETTERS, strict=True)):
        plain = PlainGrammar(LLMatcher.grammar_from_regex(pattern), encode(letter))
        assert tokens_of(bitmask[row]) == plain.allowed
    assert (bitmask[-1] == 7).all()
    assert states.computed_masks == len(cursors)


def test_what_has_no_token_fails_alone(states: StateStore) -> None:
    good = regex("[a-j]*")
    cursors = [states.enter(good, encode(letter)) for letter in LETTERS]
    dead = lark('start: "ab" X\nX: /[b-d]/ & /[x-z]/')
    cursors.insert(3, states.enter(dead, encode("a") + encode("b")))
    bitmask = bitmask_for(cursors)
    failures = states.fill(cursors, bitmask)
    assert [failure is not None for failure in failures] == [number == 3 for number in range(11)]
    assert (bitmask[3] == -1).all()
    assert states.rebuilt_grammars == 0


def test_a_lexer_that_is_spoilt_is_made_anew_for_all(states: StateStore) -> None:
    text = LLMatcher.grammar_from_regex(r".*[a-f].{100}[a-k].*")
    grammar = Tight(text, text, small_tokenizer())
    cursors = [states.enter(grammar, encode(letter)) for letter in "rstuvwxyz"]
    _spoil(grammar)
    bitmask = bitmask_for(cursors)
    assert states.fill(cursors, bitmask) == [None] * len(cursors)
    expected = PlainGrammar(text, encode("x")).allowed
    assert all(tokens_of(row) == expected for row in bitmask[:-1])
    assert states.rebuilt_grammars == 1
    states.check_integrity()


def _spoil(grammar: Grammar) -> None:
    matcher = grammar.start()
    generator = np.random.default_rng(0)
    for _ in range(2000):
        mask = np.frombuffer(matcher.compute_bitmask(), np.int32)
        if matcher.is_error():
            return
        options = sorted(tokens_of(mask) - EOS)
        matcher.consume_token(options[int(generator.integers(len(options)))])
    raise AssertionError("the lexer has room left")
