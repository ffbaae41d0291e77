"""A matcher that follows one cursor, as far behind it as nobody asks.

Knows how to get a matcher to where the cursor stands, and what to do when one fails. Does not know masks or budgets.

Matchers of a grammar share a lexer. An error in one of them can spoil it, and then every matcher fails, even a fresh
one: then the grammar is compiled anew, and what was asked is asked once more. What fails nevertheless fails for this
cursor alone. Matchers of an earlier generation are not used any more.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from llguidance import LLMatcher

from services.executor.constraint.engine import GrammarFailed, check, guarded
from services.executor.constraint.state import State
from services.executor.constraint.trie import Trie

T = TypeVar("T")


class Walker:
    """Args:
    path: the tokens that the cursor has behind it, which the cursor appends to.
    """

    __slots__ = ("_depth", "_generation", "_matcher", "_path", "_trie")

    def __init__(self, trie: Trie, path: array[int]) -> None:
        self._trie = trie
        self._path = path
        self._matcher: LLMatcher | None = None
        self._depth = 0  # tokens that it has consumed
        self._generation = 0  # of the grammar, when it was made

    def ask(self, state: State, question: Callable[[LLMatcher], T]) -> T:
        """What a matcher at this state, the cursor's, answers. Raises GrammarFailed."""
        try:
            return self._try(state, question)
        except GrammarFailed:
            if not self._is_spoilt():
                raise
        self._trie.rebuild()
        return self._try(state, question)

    def matcher_at(self, state: State) -> LLMatcher:
        """A matcher that stands there. Raises GrammarFailed."""
        return self.ask(state, lambda matcher: matcher)

    def has_consumed(self) -> None:
        """A question has made the matcher consume a token."""
        self._depth += 1

    def copy(self, state: State, path: array[int]) -> Walker:
        """For another cursor at the same state, the copy's path beside it."""
        walker = Walker(self._trie, path)
        if self._is_current():
            with suppress(GrammarFailed), guarded():  # then each finds out for itself
                walker._matcher = self.matcher_at(state).deep_copy()
                walker._depth, walker._generation = self._depth, self._generation
        return walker

    def _try(self, state: State, question: Callable[[LLMatcher], T]) -> T:
        try:
            with guarded():
                matcher = self._caught_up(state)
                answer = question(matcher)
                check(matcher)
        except GrammarFailed:
            self._matcher = None
            raise
        return answer

    def _caught_up(self, state: State) -> LLMatcher:
        if not self._is_current():
            self._matcher, self._depth = None, 0
            self._generation = self._trie.grammar.generation
        if self._depth < len(self._path):
            nearer = self._trie.nearest(state, self._depth)
            if nearer is not None:
                self._matcher, self._depth = nearer
        if self._matcher is None:
            self._matcher, self._depth = self._trie.grammar.start(), 0
        if self._depth < len(self._path):
            self._matcher.consume_tokens(self._path[self._depth :].tolist())
            check(self._matcher)
            self._depth = len(self._path)
        return self._matcher

    def _is_current(self) -> bool:
        return self._matcher is not None and self._generation == self._trie.grammar.generation

    def _is_spoilt(self) -> bool:
        """Not even a matcher at the beginning works."""
        try:
            with guarded():
                fresh = self._trie.grammar.start()
                fresh.compute_bitmask()
                return fresh.is_error()
        except GrammarFailed:
            return True
