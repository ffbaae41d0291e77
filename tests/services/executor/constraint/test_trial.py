"""Walks through grammars: what is sound passes, what explodes or leads nowhere is found."""

from pathlib import Path

import pytest
from llguidance import LLMatcher, LLTokenizer

from services.executor.constraint import trial
from services.executor.constraint.engine import DeadEnd, Grammar, GrammarFailed, load_tokenizer
from services.executor.constraint.trial import TooSlow, walk_about
from services.executor.model.prepare import prepare
from shared.config import ModelConfig
from shared.model_card import load_card


@pytest.fixture(scope="module")
def folder() -> Path:
    return prepare(ModelConfig())


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> LLTokenizer:
    card = load_card(ModelConfig())
    return load_tokenizer(folder, card.vocab_size, card.eos_token_ids)


def regex(pattern: str) -> str:
    return LLMatcher.grammar_from_regex(pattern)


@pytest.mark.parametrize(
    "text",
    [
        regex("[a-z]+@[a-z]+[.]com"),
        regex(r"\{\"name\": \"[^\"]+\"\}"),
        regex("[一-龥]+"),
        regex("(.*a){20}"),
        regex(""),
        'start: "a" start "b" | ""',
        '%llguidance {}\nstart: %json {"type": "object"}',
    ],
)
def test_what_is_sound_passes(tokenizer: LLTokenizer, text: str) -> None:
    walk_about(Grammar("k", text, tokenizer), tokenizer)


@pytest.mark.parametrize("pattern", ["((a{0,100}){0,100}){0,100}b", "(a?){500}a{500}", "(.*a.{8}b|.*c.{9}d|.*e.{10}f)"])
def test_patterns_that_explode_behind_their_compiling(tokenizer: LLTokenizer, pattern: str) -> None:
    grammar = Grammar("k", regex(pattern), tokenizer)
    with pytest.raises(GrammarFailed, match="too many"):
        walk_about(grammar, tokenizer)


AMBIGUOUS = 'start: e\ne: e e e | e e | "a" | "b" |'


def test_a_token_that_takes_long_is_too_slow(tokenizer: LLTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SLOW_MEAN_S", 9.0)
    with pytest.raises(TooSlow, match="a token"):
        walk_about(Grammar("k", AMBIGUOUS, tokenizer), tokenizer)


def test_tokens_that_take_long_in_the_mean_are_too_slow(
    tokenizer: LLTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "SLOW_S", 9.0)
    with pytest.raises(TooSlow, match="its tokens"):
        walk_about(Grammar("k", AMBIGUOUS, tokenizer), tokenizer)


@pytest.mark.parametrize("text", ["start: start", r"start: /[^\x00-\U0010ffff]/"])
def test_what_no_text_satisfies(tokenizer: LLTokenizer, text: str) -> None:
    with pytest.raises(DeadEnd):
        walk_about(Grammar("k", text, tokenizer), tokenizer)


def test_what_is_forced_on_and_on(tokenizer: LLTokenizer) -> None:
    with pytest.raises(GrammarFailed):
        walk_about(Grammar("k", 'start: x "a"\nx: "b" x', tokenizer), tokenizer)


def test_a_branch_that_leads_nowhere_is_left_alone(tokenizer: LLTokenizer) -> None:
    walk_about(Grammar("k", 'start: "a" x | "b"\nx: x', tokenizer), tokenizer)


def test_ways_take_only_what_is_allowed_and_never_the_end(tokenizer: LLTokenizer) -> None:
    grammar = Grammar("k", regex("[ab]*c[de]*"), tokenizer)
    taken: list[str] = []
    for choose in trial._ways(tokenizer):
        matcher, token_ids = grammar.start(), list[int]()
        for _ in range(20):
            mask = trial._without(trial._mask(matcher, trial._Meter()), tokenizer.eos_tokens)
            token_ids.append(choose(mask))
            assert token_ids[-1] not in tokenizer.eos_tokens
            assert matcher.consume_token(token_ids[-1])
        taken.append(tokenizer.decode_str(token_ids))
    assert len(set(taken)) >= 5, "they do not all go the same way"
