"""Compiled grammars: errors are raised, copies do not touch one another, and a spoilt lexer is replaced."""

from pathlib import Path
from typing import Any

import pytest
from llguidance import LLMatcher, LLTokenizer

from services.executor.constraint.engine import (
    PANICKED,
    Grammar,
    GrammarFailed,
    TokenizerFailed,
    check,
    guarded,
    load_tokenizer,
)
from tests.support.small_tokenizers import byte_fallback, byte_level, small_card, write_folder


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> LLTokenizer:
    backend = byte_level()
    folder = write_folder(tmp_path_factory.mktemp("model"), backend)
    return load_tokenizer(folder, small_card(backend).vocab_size, (2,))


def allowed(matcher: LLMatcher) -> set[int]:
    mask = int.from_bytes(matcher.compute_bitmask(), "little")
    check(matcher)
    return {token_id for token_id in range(mask.bit_length()) if mask >> token_id & 1}


def test_ids_beyond_the_tokenizer_s_own_vocabulary_are_never_allowed(tokenizer: LLTokenizer) -> None:
    anything = Grammar("any", "start: /(?s:.*)/", tokenizer)
    assert tokenizer.vocab_size == byte_level().get_vocab_size() + 8
    assert 0 < max(allowed(anything.start())) < byte_level().get_vocab_size()


def test_padding_and_truncation_of_the_file_are_turned_off(tmp_path: Path) -> None:
    backend = byte_fallback()
    backend.enable_truncation(2)
    backend.enable_padding(length=8)
    tokenizer = load_tokenizer(write_folder(tmp_path, backend), backend.get_vocab_size(), (2,))
    assert len(tokenizer.tokenize_str("cat cat cat")) > 2
    assert len(tokenizer.tokenize_str("a")) < 8


@pytest.mark.parametrize("content", [None, b"", b"[]", b"{}", b"\xff"])
def test_a_tokenizer_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(TokenizerFailed):
        load_tokenizer(tmp_path, 100, (2,))


def test_a_vocabulary_larger_than_the_model_s(tmp_path: Path) -> None:
    with pytest.raises(TokenizerFailed):
        load_tokenizer(write_folder(tmp_path, byte_level()), 100, (2,))


@pytest.mark.parametrize("text", ["", "start: %", "start: foo", "start: /(/", "\x00", '{"grammars": []}', "{"])
def test_what_is_no_grammar(tokenizer: LLTokenizer, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(GrammarFailed) as raised:
        Grammar("bad", text, tokenizer)
    assert 0 < len(str(raised.value)) <= 300
    assert "\n" not in str(raised.value)
    assert capfd.readouterr() == ("", "")


class Panic(BaseException):
    """As Rust libraries raise it."""


def test_a_panic_of_the_engine_is_a_failure_in_words_for_a_client() -> None:
    with pytest.raises(GrammarFailed, match=PANICKED), guarded():
        raise Panic("called `Option::unwrap()` on a `None` value, src/lexer.rs:17")
    with pytest.raises(ValueError, match="ours"), guarded():
        raise ValueError("ours")
    with pytest.raises(KeyboardInterrupt), guarded():
        raise KeyboardInterrupt


class Panicked:
    def is_error(self) -> bool:
        return True

    def get_error(self) -> str:
        return "panic: index out of bounds, src/lexer.rs:17\nstack backtrace"


def test_where_the_engine_has_caught_its_panic_nothing_of_it_is_told() -> None:
    matcher: Any = Panicked()
    with pytest.raises(GrammarFailed) as raised:
        check(matcher)
    assert str(raised.value) == PANICKED


def test_a_copy_starts_at_the_beginning(tokenizer: LLTokenizer) -> None:
    grammar = Grammar("abc", 'start: "abc" | "xyz"', tokenizer)
    first = grammar.start()
    before = allowed(first)
    first.consume_tokens(tokenizer.tokenize_str("abc"))
    assert first.is_accepting()
    assert allowed(grammar.start()) == before


def test_a_failed_copy_says_so(tokenizer: LLTokenizer) -> None:
    matcher = Grammar("abc", 'start: "abc"', tokenizer).start()
    matcher.consume_tokens(tokenizer.tokenize_str("b"))
    with pytest.raises(GrammarFailed):
        check(matcher)


def test_compiled_anew_it_accepts_the_same(tokenizer: LLTokenizer) -> None:
    grammar = Grammar("digits", "start: /[0-9]+/", tokenizer)
    before = allowed(grammar.start())
    assert grammar.generation == 0
    grammar.rebuild()
    assert grammar.generation == 1
    assert allowed(grammar.start()) == before


def test_a_longer_grammar_is_taken_for_larger(tokenizer: LLTokenizer) -> None:
    short, long = (Grammar("x", f'start: "{"a" * count}"', tokenizer) for count in (1, 1000))
    assert long.size_bytes > short.size_bytes > 100_000
