"""A cursor: where one request stands in its grammar.

Knows how to move, along states that are there or to new ones. Does not know what states cost or how masks are filled.

Where others have been it needs no matcher. Where tokens are forced its mask allows the first of them only, so the
output is the same whether they are taken at once or one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from llguidance import LLMatcher

from services.executor.constraint.engine import Grammar, GrammarFailed, check
from services.executor.constraint.state import State
from services.executor.constraint.trie import Trie, describe
from services.executor.constraint.walker import Walker

T = TypeVar("T")


class Keeper(Protocol):
    """Of the states: what cursors ask of it."""

    eos_token_ids: frozenset[int]

    def keep(self, trie: Trie, parent: State, child: State) -> bool:
        """Give a new state its place behind its parent; False if there is no room."""

    def arrive(self, state: State) -> None:
        """One cursor more stands there."""

    def depart(self, trie: Trie, state: State) -> None:
        """One cursor less stands there."""


class Cursor:
    """Made by `StateStore.enter` and by `copy`; to be left in the end."""

    __slots__ = ("_keeper", "_path", "_trie", "_walker", "state")

    def __init__(self, keeper: Keeper, trie: Trie, state: State, path: array[int], walker: Walker) -> None:
        self._keeper = keeper
        self._trie = trie
        self._path = path  # the tokens behind it, without end-of-sequence
        self._walker = walker
        self.state = state
        keeper.arrive(state)

    @property
    def grammar(self) -> Grammar:
        return self._trie.grammar

    @property
    def forced(self) -> tuple[int, ...]:
        """The tokens that must follow; none if there is a choice."""
        return self.state.forced

    @property
    def is_accepting(self) -> bool:
        """The output may end here."""
        return self.state.is_accepting

    @property
    def is_over(self) -> bool:
        """The output may end here, and nothing else may follow."""
        return self.state.is_over

    def advance(self, token_id: int) -> None:
        """Go on behind this token. Behind end-of-sequence, the output is over.

        Raises GrammarFailed if it may not follow, or the engine fails; the cursor stays where it is.
        """
        child = self.state.child(token_id)
        if child is None:
            child = self._ended() if token_id in self._keeper.eos_token_ids else self._new_child(token_id)
        if child is not self._trie.ended:
            self._path.append(token_id)
        self._keeper.arrive(child)
        self._keeper.depart(self._trie, self.state)
        self.state = child

    def allowed(self, token_ids: Sequence[int]) -> int:
        """How many of these tokens may follow one another from here, up to an end-of-sequence token."""
        tip = self.copy()
        try:
            for count, token_id in enumerate(token_ids):
                if not tip._may_take(token_id):
                    return count
                tip.advance(token_id)
        except GrammarFailed:
            return len(tip._path) - len(self._path)
        finally:
            tip.leave()
        return len(token_ids)

    def copy(self) -> Cursor:
        """Another one at the same state."""
        path = self._path[:]
        return Cursor(self._keeper, self._trie, self.state, path, self._walker.copy(self.state, path))

    def leave(self) -> None:
        """The cursor is not used any more."""
        self._keeper.depart(self._trie, self.state)

    def ask(self, question: Callable[[LLMatcher], T]) -> T:
        """What a matcher that stands here answers. Raises GrammarFailed."""
        return self._walker.ask(self.state, question)

    def matcher(self) -> LLMatcher:
        """One that stands here, the cursor's own. Raises GrammarFailed."""
        return self._walker.matcher_at(self.state)

    def _may_take(self, token_id: int) -> bool:
        state = self.state
        if state.is_over or token_id in self._keeper.eos_token_ids:
            return False
        if state.next_forced is not None:
            return token_id == state.next_forced
        if state.row is not None:
            return state.row.allows(token_id)
        return state.child(token_id) is not None or self.ask(lambda matcher: matcher.validate_tokens([token_id])) == 1

    def _new_child(self, token_id: int) -> State:
        state = self.state
        if state.is_over:
            raise GrammarFailed("nothing may follow a complete output")
        behind = state.chain_behind(token_id)

        def consume(matcher: LLMatcher) -> tuple[State, LLMatcher]:
            matcher.consume_token(token_id)
            check(matcher)
            return describe(matcher, state.depth + 1, token_id, behind), matcher

        child, matcher = self.ask(consume)
        self._walker.has_consumed()
        if self._keeper.keep(self._trie, state, child):
            self._trie.offer(child, matcher)
        return child

    def _ended(self) -> State:
        if not self.state.is_accepting:
            raise GrammarFailed("the output may not end here")
        return self._trie.ended
