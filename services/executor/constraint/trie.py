"""One grammar's states, and the matchers that are kept at some of them.

Knows where matchers are kept. Does not know cursors, other grammars or what the budget is.

A matcher grows with what it has consumed, so the deeper, the rarer they are kept: their sum stays in proportion to the
tokens, and who goes on from one consumes at most a third of its tokens again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from llguidance import LLMatcher

from services.executor.constraint.engine import Grammar, GrammarFailed, check, guarded
from services.executor.constraint.state import State

SNAPSHOT_BYTES = 4096
SNAPSHOT_BYTES_PER_TOKEN = 160  # of what it has consumed, measured
NEAREST = 16  # tokens between two of them, at least
LONGEST_CHAIN = 256  # forced tokens that are looked for at once
DEEPEST = 1 << 22  # tokens; no output is longer


def _snapshot_depths() -> frozenset[int]:
    depths = [NEAREST]
    while depths[-1] < DEEPEST:
        depths.append(depths[-1] + max(NEAREST, depths[-1] // 2))
    return frozenset(depths)


SNAPSHOT_DEPTHS = _snapshot_depths()


@dataclass(slots=True)
class Ledger:
    """What a store holds, and running totals of what it has done."""

    states: int = 0
    bytes: int = 0  # an estimate, of states, mask rows and kept matchers
    computed_masks: int = 0
    inherited_masks: int = 0
    rebuilt_grammars: int = 0


class Trie:
    """Raises GrammarFailed if the grammar does not even start."""

    def __init__(self, grammar: Grammar, eos_token_ids: frozenset[int], ledger: Ledger) -> None:
        self.grammar = grammar
        self._ledger = ledger
        self.root = self._root(eos_token_ids)
        self.ended = State(0, 0, (), 0, is_accepting=True, is_over=True)  # behind an end-of-sequence token
        self._snapshots: dict[State, LLMatcher] = {}
        self._generation = grammar.generation

    @property
    def snapshot_states(self) -> list[State]:
        """The states at which a matcher is kept."""
        return list(self._snapshots)

    def rebuild(self) -> None:
        """Compile the grammar anew, since what its matchers share is spoilt. Raises GrammarFailed."""
        self.grammar.rebuild()
        self._ledger.rebuilt_grammars += 1

    def offer(self, state: State, matcher: LLMatcher) -> None:
        """Keep a copy of the matcher, which stands at this state, if it is time for one."""
        self._renew()
        if state.depth in SNAPSHOT_DEPTHS:
            with suppress(GrammarFailed), guarded():  # then others start from further above
                self._snapshots[state] = matcher.deep_copy()
                self._ledger.bytes += snapshot_bytes(state)

    def drop(self, state: State) -> None:
        """Keep nothing there."""
        if self._snapshots.pop(state, None) is not None:
            self._ledger.bytes -= snapshot_bytes(state)

    def nearest(self, state: State, depth: int) -> tuple[LLMatcher, int] | None:
        """A copy of the matcher that is kept nearest above the state, and how many tokens it has consumed.

        None if that is no more than `depth` of them.
        """
        self._renew()
        above: State | None = state
        while above is not None and above.depth > depth:
            if above in self._snapshots:
                return self._snapshots[above].deep_copy(), above.depth
            above = above.parent
        return None

    def _root(self, eos_token_ids: frozenset[int]) -> State:
        try:
            return _first(self.grammar, eos_token_ids)
        except GrammarFailed:  # perhaps spoilt by somebody who has failed here before
            self.rebuild()
            return _first(self.grammar, eos_token_ids)

    def _renew(self) -> None:
        """Forget what was kept before the grammar was compiled anew."""
        if self._generation != self.grammar.generation:
            self._generation = self.grammar.generation
            self._ledger.bytes -= sum(map(snapshot_bytes, self._snapshots))
            self._snapshots = {}


def _first(grammar: Grammar, eos_token_ids: frozenset[int]) -> State:
    """The state at the beginning."""
    with guarded():
        matcher = grammar.start()
        root = describe(matcher, 0, 0)
        root.is_kept = True
        root.is_over = root.is_accepting and _allows_only(eos_token_ids, matcher)
        return root


def _allows_only(token_ids: frozenset[int], matcher: LLMatcher) -> bool:
    """The engine notices that nothing may follow only behind a token; at the beginning it has to be looked up."""
    mask = int.from_bytes(matcher.compute_bitmask(), "little")
    check(matcher)
    return not mask & ~sum(1 << token_id for token_id in token_ids)


def snapshot_bytes(state: State) -> int:
    """Of a matcher that is kept there, or would be."""
    return SNAPSHOT_BYTES + SNAPSHOT_BYTES_PER_TOKEN * state.depth


def describe(matcher: LLMatcher, depth: int, token_id: int, behind: tuple[tuple[int, ...], int] | None = None) -> State:
    """The state at which a matcher stands.

    Args:
        behind: the chain of forced tokens in whose midst it is, and the place in it.

    Raises GrammarFailed.
    """
    chain, at = behind or (tuple(matcher.compute_ff_tokens()[:LONGEST_CHAIN]), 0)
    is_accepting = matcher.is_accepting()
    is_over = is_accepting and matcher.is_stopped()
    check(matcher)
    return State(depth, token_id, chain, at, is_accepting=is_accepting, is_over=is_over)
