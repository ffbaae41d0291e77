"""The cache of grammars, against a plain list; what was refused is remembered for a while."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from llguidance import LLTokenizer

from services.executor.constraint.cache import IDLE_PARTS, MAX_REFUSALS, GrammarCache
from services.executor.constraint.engine import LEXER_BYTES, Grammar, load_tokenizer
from shared import wire
from tests.support.small_tokenizers import byte_level, small_card, write_folder

ERROR = wire.Error("no", "invalid_constraint", "constraint")
BUDGET = 600_000  # of four grammars that were never in use


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> LLTokenizer:
    backend = byte_level()
    return load_tokenizer(write_folder(tmp_path_factory.mktemp("m"), backend), small_card(backend).vocab_size, (2,))


def make(key: str, tokenizer: LLTokenizer) -> Grammar:
    return Grammar(key, 'start: "a"', tokenizer)


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_least_recently_used_goes_first(tokenizer: LLTokenizer) -> None:
    cache = GrammarCache(BUDGET)
    grammars = {key: make(key, tokenizer) for key in "abcde"}
    for key in "abcd":
        cache.put(grammars[key])
    assert cache.get("a") is grammars["a"]
    cache.put(grammars["e"])
    assert cache.get("b") is None
    assert (len(cache), cache.compiled) == (4, 5)
    cache.check_integrity()


def test_one_that_was_never_in_use_is_nobody_s_when_it_goes(tokenizer: LLTokenizer) -> None:
    cache = GrammarCache(BUDGET)
    for key in "abcdefgh":
        cache.put(make(key, tokenizer))
    assert cache.take_retired() == []


def test_from_its_first_use_on_a_grammar_is_charged_its_lexer_until_it_goes(tokenizer: LLTokenizer) -> None:
    cache = GrammarCache(3 * LEXER_BYTES + BUDGET)
    grammars = {key: make(key, tokenizer) for key in "abcd"}
    for key, grammar in grammars.items():
        cache.put(grammar)
        assert cache.acquire(key) is cache.acquire(key) is grammar
        cache.check_integrity()
        for _ in range(2):
            cache.release(grammar)
    assert cache.get("a") is None
    assert cache.take_retired() == [grammars["a"]]
    assert cache.take_retired() == []
    assert cache.size_bytes == sum(grammars[key].size_bytes + LEXER_BYTES for key in "bcd")
    cache.check_integrity()


def test_what_is_in_use_stays_until_it_is_released(tokenizer: LLTokenizer) -> None:
    cache = GrammarCache(1)
    used = make("used", tokenizer)
    cache.put(used)
    assert cache.acquire("used") is cache.acquire("used") is used
    cache.put(make("next", tokenizer))
    cache.put(make("last", tokenizer))
    cache.release(used)
    assert cache.get("next") is None
    assert cache.acquire("used") is used
    cache.put(make("end", tokenizer))
    for _ in range(2):
        cache.release(used)
    assert cache.get("used") is None
    cache.check_integrity()


def test_however_much_is_in_use_those_who_wait_find_what_was_compiled_for_them(tokenizer: LLTokenizer) -> None:
    cache = GrammarCache(IDLE_PARTS * BUDGET)
    for key in "ABCDEF":
        cache.put(make(key, tokenizer))
        assert cache.acquire(key) is not None
    assert cache.size_bytes > IDLE_PARTS * BUDGET
    for key in "abcdefgh":
        cache.put(make(key, tokenizer))
        cache.check_integrity()
    assert [key for key in "abcdefgh" if cache.get(key) is not None] == list("defgh")


def test_one_that_is_larger_than_the_budget_is_there_for_whoever_waits_for_it(tokenizer: LLTokenizer) -> None:
    cache = GrammarCache(1)
    cache.put(make("large", tokenizer))
    assert cache.acquire("large") is not None
    assert cache.take_retired() == []


def test_put_twice_the_first_one_stays(tokenizer: LLTokenizer) -> None:
    cache = GrammarCache(BUDGET)
    first = make("a", tokenizer)
    cache.put(first)
    cache.put(make("a", tokenizer))
    assert cache.get("a") is first
    cache.check_integrity()


def test_nothing_is_acquired_that_is_not_there() -> None:
    assert GrammarCache(BUDGET).acquire("a") is None


def test_a_refusal_is_kept_for_ever_or_for_a_time() -> None:
    clock = Clock()
    cache = GrammarCache(BUDGET, clock=clock)
    cache.refuse("wrong", ERROR)
    cache.refuse("slow", ERROR, for_s=10.0)
    clock.now = 9.0
    assert cache.refusal("slow") == cache.refusal("wrong") == ERROR
    clock.now = 10.0
    assert cache.refusal("slow") is None
    assert cache.refusal("wrong") == ERROR
    assert cache.refused == 2


def test_refusals_are_bounded_by_number_the_last_used_stay() -> None:
    cache = GrammarCache(BUDGET)
    cache.refuse("kept", ERROR)
    for number in range(MAX_REFUSALS - 1):
        cache.refuse(str(number), ERROR)
    assert cache.refusal("kept") == ERROR
    cache.refuse("one more", ERROR)
    assert cache.refusal("kept") == ERROR
    assert cache.refusal("0") is None
    cache.check_integrity()


@dataclass
class Sized:
    """As much of a grammar as the cache looks at."""

    key: str
    size_bytes: int = field(default=10)


LIMIT = 2 * LEXER_BYTES + 45


class Model(RuleBasedStateMachine):
    """Which grammars are there, by the rules: a list in order of use."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: Any = GrammarCache(LIMIT)
        self.used: set[str] = set()
        self.awaited: str | None = None
        self.order: list[Sized] = []
        self.users: dict[str, int] = {}
        self.retired: list[Sized] = []

    keys = st.sampled_from("abcdefgh")

    @rule(key=keys, size=st.integers(1, 30))
    def put(self, key: str, size: int) -> None:
        grammar = Sized(key, size)
        self.cache.put(grammar)
        if all(other.key != key for other in self.order):
            self.used.discard(key)
            self.order.append(grammar)
            self.awaited = key
            self.evict()

    @rule(key=keys)
    def get(self, key: str) -> None:
        assert self.cache.get(key) is self.touch(key)

    @rule(key=keys)
    def acquire(self, key: str) -> None:
        found = self.touch(key)
        assert self.cache.acquire(key) is found
        if found is not None:
            self.users[key] = self.users.get(key, 0) + 1
            self.awaited = None if self.awaited == key else self.awaited
            self.used.add(key)
            self.evict()

    @precondition(lambda self: any(self.users.values()))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(key for key, users in self.users.items() if users)))
        self.users[key] -= 1
        self.cache.release(next(grammar for grammar in self.order if grammar.key == key))
        self.evict()

    @rule()
    def take_retired(self) -> None:
        assert self.cache.take_retired() == self.retired
        self.retired = []

    def touch(self, key: str) -> Sized | None:
        found = next((grammar for grammar in self.order if grammar.key == key), None)
        if found is not None:
            self.order.remove(found)
            self.order.append(found)
        return found

    def evict(self) -> None:
        for grammar in list(self.order):
            idle = [one for one in self.order if not self.users.get(one.key) and one.key != self.awaited]
            if self.size() <= LIMIT or self.size(idle) <= LIMIT // IDLE_PARTS:
                return
            if not self.users.get(grammar.key) and grammar.key != self.awaited:
                self.order.remove(grammar)
                if grammar.key in self.used:
                    self.retired.append(grammar)

    def size(self, grammars: list[Sized] | None = None) -> int:
        counted = self.order if grammars is None else grammars
        return sum(grammar.size_bytes + LEXER_BYTES * (grammar.key in self.used) for grammar in counted)

    @invariant()
    def holds(self) -> None:
        self.cache.check_integrity()
        assert len(self.cache) == len(self.order)
        assert self.cache.size_bytes == self.size()


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
