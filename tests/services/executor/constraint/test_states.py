from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from llguidance import LLMatcher, LLParserLimits

from services.executor.constraint.cursor import Cursor
from services.executor.constraint.engine import PANICKED, Grammar, GrammarFailed, check
from services.executor.constraint.stage import failure
from services.executor.constraint.states import StateStore
from services.executor.constraint.trie import LONGEST_CHAIN
from shared.invariant import BrokenInvariant
from tests.support.plain_grammar import EOS, PlainGrammar, encode, lark, regex, small_tokenizer, tokens_of
from tests.support.tiny_model import VOCAB_SIZE

WORDS = -(-VOCAB_SIZE // 32)
LETTERS = "abcdefghij"


def store(budget_bytes: int = 10_000_000, threads: int = 1) -> StateStore:
    return StateStore(small_tokenizer(), budget_bytes=budget_bytes, eos_token_ids=EOS, threads=threads)


def mask_of(states: StateStore, *cursors: Cursor) -> list[set[int]]:
    bitmask = np.empty((len(cursors), WORDS), np.int32)
    assert states.fill(cursors, bitmask) == [None] * len(cursors)
    return [tokens_of(row) for row in bitmask]


def test_who_comes_second_computes_nothing() -> None:
    states, grammar = store(), regex("[a-j]{3}|[x-z]+")
    path = [encode(letter)[0] for letter in "abc"]
    first = states.enter(grammar)
    for token_id in path:
        mask_of(states, first)
        first.advance(token_id)
    assert (states.computed_masks, states.inherited_masks) == (3, 0)
    second = states.enter(grammar)
    for token_id in path:
        mask_of(states, second)
        second.advance(token_id)
    assert (states.computed_masks, states.inherited_masks) == (3, 3)
    assert second.state is first.state


def test_states_with_the_same_mask_share_its_row() -> None:
    states, grammar = store(), regex("[a-j]*")
    cursor = states.enter(grammar)
    mask_of(states, cursor)
    before = states.used_bytes
    cursor.advance(encode("a")[0])
    state_bytes = states.used_bytes - before
    mask_of(states, cursor)
    assert states.used_bytes - before == state_bytes
    assert states.computed_masks == 2


def test_a_state_asked_for_twice_in_a_step_is_computed_once() -> None:
    states, grammar = store(threads=2), regex("[a-j]*")
    cursors = [states.enter(grammar, encode(letter)) for letter in (*LETTERS, *LETTERS)]
    expected = PlainGrammar(_text(grammar), encode("a")).allowed
    assert mask_of(states, *cursors) == [expected] * 20
    assert (states.computed_masks, states.inherited_masks) == (10, 10)


def test_what_is_forced_needs_no_mask() -> None:
    states, grammar = store(), regex("nothing that the reader would rather know")
    cursor = states.enter(grammar)
    forced = cursor.forced
    assert list(forced) == encode("nothing that the reader would rather know")
    for number, token_id in enumerate(forced):
        assert cursor.forced == forced[number:]
        assert mask_of(states, cursor) == [{token_id}]
        cursor.advance(token_id)
    assert cursor.is_over
    assert mask_of(states, cursor) == [EOS]
    assert (states.computed_masks, states.inherited_masks) == (0, 0)


def test_a_special_token_is_never_forced() -> None:
    states = store()
    cursor = states.enter(lark('start: "the <|im_end|> fox"'))
    output: list[int] = []
    while not cursor.is_over:
        [allowed] = mask_of(states, cursor)
        assert not allowed & EOS
        output.append(cursor.forced[0] if cursor.forced else min(allowed))
        cursor.advance(output[-1])
    assert small_tokenizer().decode_bytes(output) == b"the <|im_end|> fox"


def test_a_long_chain_comes_in_parts() -> None:
    text = "xyz" * 200
    cursor = store().enter(regex(text))
    assert len(cursor.forced) == LONGEST_CHAIN
    taken: list[int] = []
    while cursor.forced:
        taken += cursor.forced
        for token_id in cursor.forced:
            cursor.advance(token_id)
    assert small_tokenizer().decode_str(taken) == text
    assert cursor.is_over


def test_behind_the_end_of_sequence_nothing_follows() -> None:
    states = store()
    cursor = states.enter(regex("[ab]*"), encode("a"))
    cursor.advance(2)
    assert cursor.is_over
    assert mask_of(states, cursor) == [EOS]
    with pytest.raises(GrammarFailed):
        cursor.advance(encode("a")[0])
    cursor.advance(0)
    assert cursor.copy().is_over
    assert cursor.allowed(encode("a")) == 0


def test_the_end_of_sequence_waits_for_the_output_to_be_complete() -> None:
    cursor = store().enter(regex("[ab]{2}"), encode("a"))
    with pytest.raises(GrammarFailed):
        cursor.advance(2)
    assert not cursor.is_accepting


def test_an_empty_output_is_over_at_once() -> None:
    cursor = store().enter(regex(""))
    assert cursor.is_over


def test_tokens_that_do_not_satisfy_the_grammar_leave_nothing_behind() -> None:
    states, grammar = store(), regex("[ab]{2}")
    with pytest.raises(GrammarFailed):
        states.enter(grammar, encode("ac"))
    states.check_integrity()
    assert states.enter(grammar, encode("ab")).is_over


def test_an_earlier_path_goes_when_there_is_no_room_for_the_next_one() -> None:
    states, grammar = store(20_000), regex("[a-j]*")
    for letter in LETTERS:
        states.enter(grammar, encode(letter * 12)).leave()
        states.check_integrity()
    assert len(states) > 30
    kept = len(states)
    states.enter(grammar, encode("j" * 12)).leave()
    assert len(states) == kept
    states.enter(grammar, encode("a" * 12)).leave()
    assert states.used_bytes <= 21_000


def test_what_has_no_room_goes_on_all_the_same() -> None:
    states, grammar = store(0), regex("[a-j]{40}")
    cursor = states.enter(grammar)
    for number in range(40):
        assert mask_of(states, cursor) == [PlainGrammar(_text(grammar), encode("b") * number).allowed]
        cursor.advance(encode("b")[0])
    assert cursor.is_over
    assert len(states) == 1
    states.check_integrity()


def test_a_forgotten_grammar_costs_nothing_and_its_cursors_go_on() -> None:
    states, grammar = store(), regex("[a-j]*x")
    cursor = states.enter(grammar, encode("abcdefghij" * 4))
    mask_of(states, cursor)
    states.forget(grammar)
    states.sweep(100)
    assert (len(states), states.used_bytes) == (0, 0)
    cursor.advance(encode("x")[0])
    assert cursor.is_over
    cursor.leave()
    states.check_integrity()


def test_states_of_a_forgotten_grammar_go_a_few_at_a_time() -> None:
    states, grammar = store(), regex("[a-j]*x")
    for letter in LETTERS:
        states.enter(grammar, encode(letter * 12)).leave()
    count = len(states)
    states.forget(grammar)
    while len(states):
        states.check_integrity()
        states.sweep(7)
        assert len(states) == max(count - 7, 0)
        count -= 7
    states.check_integrity()
    assert states.used_bytes == 0


def test_forgotten_states_make_room_before_any_other_goes() -> None:
    states, old, new = store(20_000), regex("[a-j]*x"), regex("[a-j]*y")
    kept = states.enter(new, encode("abc"))
    kept.leave()
    for letter in LETTERS:
        states.enter(old, encode(letter * 12)).leave()
    kept = states.enter(new, encode("abc"))
    mask_of(states, kept)
    kept.leave()
    states.forget(old)
    states.enter(new, encode("d" * 12)).leave()
    states.check_integrity()
    computed = states.computed_masks
    mask_of(states, states.enter(new, encode("abc")))
    assert states.computed_masks == computed


def test_drafts_that_may_follow() -> None:
    cursor = store().enter(regex("(abc|abd)*x"))
    a, b, c, x = (encode(letter)[0] for letter in "abcx")
    for drafts, count in (([a, b, c, a], 4), ([a, c], 1), ([x, 2], 1), ([x, a], 1), ([], 0), ([b], 0)):
        assert cursor.allowed(drafts) == count
    assert cursor.allowed([VOCAB_SIZE + 100]) == 0


def test_ids_outside_the_vocabulary_are_refused() -> None:
    cursor = store().enter(regex("(?s:.*)"))
    for token_id in (VOCAB_SIZE, VOCAB_SIZE + 100):
        with pytest.raises(GrammarFailed):
            cursor.advance(token_id)


def test_the_bitmask_must_have_room() -> None:
    states = store()
    cursor = states.enter(regex("a*"))
    for bitmask in (np.empty((0, WORDS), np.int32), np.empty((4, 2 * WORDS), np.int32)[:, ::2]):
        with pytest.raises(ValueError, match="one block"):
            states.fill([cursor], bitmask)


# --- what fails ------------------------------------------------------------------------------------------------------


class Tight(Grammar):
    """Its lexer has few states, so it is soon full, and then all its matchers fail."""

    LEXER_STATES = 3_000

    def _compile(self) -> LLMatcher:
        limits = LLParserLimits(max_lexer_states=self.LEXER_STATES, verbose_errors=False)
        matcher = LLMatcher(small_tokenizer(), self.key, log_level=0, limits=limits)
        check(matcher)
        return matcher


class Tighter(Tight):
    LEXER_STATES = 500


PATTERN = LLMatcher.grammar_from_regex(r".*[a-f].{100}[a-k].*")


def drive(states: StateStore, cursor: Cursor, seed: int, tokens: int) -> GrammarFailed | None:
    """Go on by any tokens, as long as none fails."""
    bitmask = np.empty((1, WORDS), np.int32)
    generator = np.random.default_rng(seed)
    for _ in range(tokens):
        [fault] = states.fill([cursor], bitmask)
        if fault is not None:
            assert (bitmask == -1).all()
            return fault
        options = sorted(tokens_of(bitmask[0]) - EOS)
        cursor.advance(options[int(generator.integers(len(options)))])
    return None


def test_where_the_lexer_is_full_it_is_made_anew_and_all_go_on() -> None:
    states, grammar = store(), Tight(PATTERN, PATTERN, small_tokenizer())
    other = states.enter(grammar, encode("x" * 40))
    [mask] = mask_of(states, other)
    for seed in range(40):
        assert drive(states, states.enter(grammar), seed, 40) is None
        states.check_integrity()
    assert states.rebuilt_grammars == grammar.generation > 0
    other.advance(encode("y")[0])
    assert mask_of(states, other) == [mask]


def test_what_fills_the_lexer_alone_fails_alone() -> None:
    states, grammar = store(), Tighter(PATTERN, PATTERN, small_tokenizer())
    other = states.enter(grammar, encode("xyz"))
    [mask] = mask_of(states, other)
    hostile = states.enter(grammar)
    fault = drive(states, hostile, 0, 500)
    assert fault is not None
    assert "too many states" in str(fault)
    assert failure(fault).message == "the constraint cannot go on: it is too complex for the server's limits"
    hostile.leave()
    other.advance(encode("y")[0])
    assert mask_of(states, other) == [mask]
    assert mask_of(states, states.enter(grammar, encode("zz"))) == [mask]
    assert states.rebuilt_grammars >= 1
    states.check_integrity()


def test_spoilt_in_the_midst_of_a_step_it_is_made_anew_for_all() -> None:
    states, grammar = store(threads=2), Tighter(PATTERN, PATTERN, small_tokenizer())
    cursors = [states.enter(grammar, encode(letter)) for letter in "rstuvwxyz"]
    assert drive(states, states.enter(grammar), 0, 500) is not None
    masks = mask_of(states, *cursors)
    assert masks == [PlainGrammar(PATTERN, encode("x")).allowed] * 9


class Panic(BaseException):
    """As Rust libraries raise it."""


class BrittleMatcher:
    """Panics at an x, and so do all that share its lexer from then on."""

    def __init__(self, matcher: LLMatcher, lexer: set[str]) -> None:
        self.matcher, self.lexer = matcher, lexer

    def deep_copy(self) -> BrittleMatcher:
        self.use()
        return BrittleMatcher(self.matcher.deep_copy(), self.lexer)

    def consume_token(self, token_id: int) -> bool:
        if token_id == encode("x")[0]:
            self.lexer.add("broken")
        self.use()
        return self.matcher.consume_token(token_id)

    def consume_tokens(self, token_ids: list[int]) -> bool:
        return all(self.consume_token(token_id) for token_id in token_ids)

    def __getattr__(self, name: str) -> Any:
        self.use()
        return getattr(self.matcher, name)

    def use(self) -> None:
        if self.lexer:
            raise Panic("called `Result::unwrap()` on an `Err` value: PoisonError")


class Brittle(Grammar):
    def _compile(self) -> Any:
        return BrittleMatcher(super()._compile(), set())


def test_a_panic_ends_the_request_that_caused_it_and_no_other() -> None:
    states, grammar = store(), Brittle("k", regex("[a-j]*x?")._text, small_tokenizer())
    other, cause = states.enter(grammar, encode("abc")), states.enter(grammar, encode("j"))
    [mask] = mask_of(states, other)
    for _ in range(2):
        with pytest.raises(GrammarFailed, match=PANICKED):
            cause.advance(encode("x")[0])
        other.advance(encode("b")[0])
        assert mask_of(states, other) == [mask]
        assert not states.enter(grammar, encode("c")).is_over
    cause.copy().leave()
    states.check_integrity()
    assert states.rebuilt_grammars >= 2


def test_a_grammar_that_is_spoilt_before_anybody_enters_is_made_anew() -> None:
    states, grammar = store(), Brittle("k", regex("[a-j]*x?")._text, small_tokenizer())
    with pytest.raises(Panic):
        grammar.start().consume_token(encode("x")[0])
    assert mask_of(states, states.enter(grammar))[0] >= set(encode("a"))
    assert states.rebuilt_grammars == 1


def test_where_no_token_may_follow_it_fails_and_neighbours_do_not() -> None:
    states = store(threads=2)
    good = regex("[a-j]*")
    cursors = [states.enter(good, encode(letter)) for letter in LETTERS]
    dead = lark('start: "ab" X\nX: /[b-d]/ & /[x-z]/')
    cursors.insert(3, states.enter(dead, encode("a") + encode("b")))
    bitmask = np.empty((len(cursors), WORDS), np.int32)
    failures = states.fill(cursors, bitmask)
    assert [failure is not None for failure in failures] == [number == 3 for number in range(11)]
    assert (bitmask[3] == -1).all()
    assert states.rebuilt_grammars == 0


def test_the_check_finds_what_is_wrong() -> None:
    states, grammar = store(), regex("[a-j]*")
    states.enter(grammar, encode("ab")).leave()
    states.check_integrity()
    states._ledger = replace(states._ledger, bytes=states.used_bytes + 1)
    with pytest.raises(BrokenInvariant, match="ledger"):
        states.check_integrity()
    states._leaves.clear()
    with pytest.raises(BrokenInvariant, match="leaves"):
        states.check_integrity()


def _text(grammar: Grammar) -> str:
    return grammar._text
