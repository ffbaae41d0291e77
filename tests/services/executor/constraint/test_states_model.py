"""The state store against a matcher that is compiled anew and consumes all tokens, whatever was evicted, forgotten or
compiled again in between."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from llguidance import LLMatcher

from services.executor.constraint.cursor import Cursor
from services.executor.constraint.engine import Grammar, GrammarFailed
from services.executor.constraint.states import StateStore
from tests.support.plain_grammar import EOS, PlainGrammar, longest, small_tokenizer, tokens_of
from tests.support.tiny_model import VOCAB_SIZE

TEXTS = (
    LLMatcher.grammar_from_regex(r"the (quick|lazy) (dog|fox)( and the (dog|fox)){0,9}\."),
    LLMatcher.grammar_from_regex(r"[a-c]*"),
    LLMatcher.grammar_from_regex(r"(abcdef)?(ab|abc|nothing that the reader would rather know)*"),
    'start: "[" item ("," item)* "]"\nitem: start | /[0-9]{1,3}/ | "true" | "null"',
    LLMatcher.grammar_from_json_schema('{"type": "object", "properties": {"a": {"type": "string"}}}'),
)
BUDGETS = (0, 2_000, 20_000, 10_000_000)
MOST = 12  # cursors

numbers = st.integers(0, 10**6)


@dataclass
class Stand:
    cursor: Cursor
    text: str
    path: list[int] = field(default_factory=list)

    @property
    def plain(self) -> PlainGrammar:
        return PlainGrammar(self.text, self.path)


def walk(text: str, choices: list[int]) -> list[int]:
    plain, path = PlainGrammar(text), []
    for choice in choices:
        options = sorted(plain.allowed - EOS)
        if not options:
            break
        path.append(options[choice % len(options)])
        plain.advance(path[-1])
    return path


class StoreMachine(RuleBasedStateMachine):
    @initialize(budget=st.sampled_from(BUDGETS), threads=st.sampled_from([1, 2]))
    def begin(self, budget: int, threads: int) -> None:
        self.store = StateStore(small_tokenizer(), budget_bytes=budget, eos_token_ids=EOS, threads=threads, together=2)
        self.grammars = [Grammar(text, text, small_tokenizer()) for text in TEXTS]
        self.stands: list[Stand] = []

    @precondition(lambda self: len(self.stands) < MOST)
    @rule(number=st.integers(0, len(TEXTS) - 1), choices=st.lists(numbers, max_size=40))
    def enter(self, number: int, choices: list[int]) -> None:
        path = walk(TEXTS[number], choices)
        self.stands.append(Stand(self.store.enter(self.grammars[number], path), TEXTS[number], path))

    @precondition(lambda self: self.stands)
    @rule(which=numbers, choices=st.lists(numbers, min_size=1, max_size=20))
    def advance(self, which: int, choices: list[int]) -> None:
        stand = self.stands[which % len(self.stands)]
        plain = stand.plain
        for choice in choices:
            options = sorted(plain.allowed)
            token_id = options[choice % len(options)]
            stand.cursor.advance(token_id)
            plain.advance(token_id)
            stand.path.append(token_id)
            self.agree(stand, plain)

    @precondition(lambda self: self.stands)
    @rule(which=numbers, choice=numbers)
    def advance_by_what_may_not_follow(self, which: int, choice: int) -> None:
        stand = self.stands[which % len(self.stands)]
        plain = stand.plain
        refused = [token_id for token_id in range(VOCAB_SIZE) if not plain.takes(token_id)]
        with pytest.raises(GrammarFailed):
            stand.cursor.advance(refused[choice % len(refused)])
        self.agree(stand, plain)

    @precondition(lambda self: 0 < len(self.stands) < MOST)
    @rule(which=numbers)
    def copy(self, which: int) -> None:
        stand = self.stands[which % len(self.stands)]
        self.stands.append(Stand(stand.cursor.copy(), stand.text, list(stand.path)))

    @precondition(lambda self: self.stands)
    @rule(which=numbers)
    def leave(self, which: int) -> None:
        self.stands.pop(which % len(self.stands)).cursor.leave()

    @precondition(lambda self: self.stands)
    @rule(
        which=numbers, choices=st.lists(numbers, max_size=6), other=st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=2)
    )
    def count_drafts(self, which: int, choices: list[int], other: list[int]) -> None:
        stand = self.stands[which % len(self.stands)]
        if stand.plain.has_ended:
            return
        plain, drafts = stand.plain, []
        for choice in choices:
            options = sorted(plain.allowed - EOS)
            if options:
                drafts.append(options[choice % len(options)])
                plain.advance(drafts[-1])
        drafts += other
        assert stand.cursor.allowed(drafts) == longest(stand.text, stand.path, drafts)

    @rule()
    def fill(self) -> None:
        bitmask = np.full((MOST, -(-VOCAB_SIZE // 32)), 7, np.int32)
        failures = self.store.fill([stand.cursor for stand in self.stands], bitmask)
        assert failures == [None] * len(self.stands)
        for row, stand in enumerate(self.stands):
            assert tokens_of(bitmask[row]) == stand.plain.allowed

    @rule(number=st.integers(0, len(TEXTS) - 1))
    def compile_anew(self, number: int) -> None:
        self.grammars[number].rebuild()

    @rule(number=st.integers(0, len(TEXTS) - 1))
    def forget(self, number: int) -> None:
        self.store.forget(self.grammars[number])

    @rule(states=st.integers(1, 20))
    def sweep(self, states: int) -> None:
        before = len(self.store)
        self.store.sweep(states)
        assert before - states <= len(self.store) <= before

    @invariant()
    def is_sound(self) -> None:
        if hasattr(self, "store"):
            self.store.check_integrity()

    def agree(self, stand: Stand, plain: PlainGrammar) -> None:
        cursor = stand.cursor
        found = (cursor.forced, cursor.is_accepting, cursor.is_over)
        assert found == (plain.forced, plain.is_accepting, plain.is_over)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
