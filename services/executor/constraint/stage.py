"""The constraints of the requests that run: each one's place in its grammar, from its admission to its end.

Knows grammars that are compiled and the states that requests have been in. Does not compile, and knows no logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from services.executor.constraint.cache import GrammarCache
from services.executor.constraint.engine import GrammarFailed, LimitReached
from shared import wire
from shared.constraints import key_of

if TYPE_CHECKING:
    from services.executor.constraint.cursor import Cursor
    from services.executor.constraint.states import StateStore

SWEPT_STATES = 2000  # in a step: some 2 ms


class NotCompiled(Exception):
    """The request has to wait until its grammar is (again)."""


class ConstraintStage:
    """Args:
    jumps: forced tokens are appended without a forward pass each.
    """

    def __init__(self, grammars: GrammarCache, states: StateStore, *, jumps: bool = True) -> None:
        self.grammars = grammars
        self.states = states
        self.jumps = jumps

    def enter(self, constraint: wire.Constraint, output_token_ids: Sequence[int]) -> Cursor:
        """The place behind what was generated before. To be left in the end.

        Raises:
            NotCompiled: there is no such grammar here.
            GrammarFailed: the output does not satisfy it.
        """
        grammar = self.grammars.acquire(key_of(constraint))
        if grammar is None:
            raise NotCompiled
        try:
            return self.states.enter(grammar, output_token_ids)
        except BaseException:
            self.grammars.release(grammar)
            raise

    def leave(self, cursor: Cursor) -> None:
        grammar = cursor.grammar
        cursor.leave()
        self.grammars.release(grammar)

    def counters(self, forced_tokens: int) -> wire.ConstraintCounters:
        """With so many tokens appended without a choice."""
        states, grammars = self.states, self.grammars
        return wire.ConstraintCounters(
            states.computed_masks,
            states.inherited_masks,
            forced_tokens,
            grammars.compiled,
            grammars.refused,
            states.rebuilt_grammars,
            len(grammars),
            len(states),
            states.used_bytes,
        )

    def forget_retired(self) -> None:
        """Free states of grammars that the cache has given up. Once a step: a client may never come to run."""
        for grammar in self.grammars.take_retired():
            self.states.forget(grammar)
        self.states.sweep(SWEPT_STATES)


def failure(fault: GrammarFailed) -> wire.Error:
    """In words for the client."""
    reason = "it is too complex for the server's limits" if isinstance(fault, LimitReached) else str(fault)
    return wire.Error(f"the constraint cannot go on: {reason}", "constraint_failed", "constraint")
