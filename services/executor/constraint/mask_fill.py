"""The masks of a step's constrained rows: inherited where they are known, the others computed together.

Knows rows of bits and where matchers write them. Does not know what is done with masks, or budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llguidance import LLExecutor, LLMatcher

from services.executor.constraint.cursor import Cursor
from services.executor.constraint.engine import GrammarFailed, guarded
from services.executor.constraint.masks import Words, only
from services.executor.constraint.state import State
from services.executor.constraint.trie import Ledger

TOGETHER = 32  # masks; for fewer, the other threads cost more than they save, since most of it they do one by one


class MaskFill:
    """Args:
    executor: computes several masks in parallel; None to compute one after the other.
    together: so many masks at least are computed in parallel.
    keep: is told of each computed mask.
    """

    def __init__(
        self,
        eos_token_ids: frozenset[int],
        executor: LLExecutor | None,
        together: int,
        keep: Callable[[State, Words], None],
        ledger: Ledger,
    ) -> None:
        self._eos_token_ids = eos_token_ids
        self._executor = executor
        self._together = together
        self._keep = keep
        self._ledger = ledger

    def fill(self, cursors: Sequence[Cursor], bitmask: Words) -> list[GrammarFailed | None]:
        """See `StateStore.fill`."""
        if len(bitmask) < len(cursors) or not bitmask.flags.c_contiguous:
            raise ValueError("the bitmask is not one block with a row for each cursor")
        unknown: dict[State, list[int]] = {}  # with the rows that want it
        for row, cursor in enumerate(cursors):
            if not self._inherit(cursor.state, bitmask[row]):
                unknown.setdefault(cursor.state, []).append(row)
        failures: list[GrammarFailed | None] = [None] * len(cursors)
        if unknown:
            self._compute(cursors, bitmask, unknown, failures)
        return failures

    def _inherit(self, state: State, words: Words) -> bool:
        """Whether the state's mask is known without a matcher."""
        if state.next_forced is not None:
            only((state.next_forced,), words)
        elif state.is_over:
            only(self._eos_token_ids, words)
        elif state.row is not None:
            words[:] = state.row.words
            self._ledger.inherited_masks += 1
        else:
            return False
        return True

    def _compute(
        self,
        cursors: Sequence[Cursor],
        bitmask: Words,
        unknown: dict[State, list[int]],
        failures: list[GrammarFailed | None],
    ) -> None:
        firsts = [rows[0] for rows in unknown.values()]
        done = (
            self._in_parallel(cursors, bitmask, firsts) if self._executor and len(firsts) >= self._together else set()
        )
        for state, rows in unknown.items():
            try:
                if rows[0] not in done:
                    self._alone(cursors[rows[0]], bitmask[rows[0]])
                if not bitmask[rows[0]].any():
                    raise GrammarFailed("no token may follow")
            except GrammarFailed as error:
                for row in rows:
                    bitmask[row], failures[row] = -1, error
            else:
                self._share(state, bitmask, rows)

    def _share(self, state: State, bitmask: Words, rows: list[int]) -> None:
        """A mask that was computed into the first of the rows."""
        bitmask[rows[1:]] = bitmask[rows[0]]
        self._ledger.computed_masks += 1
        self._ledger.inherited_masks += len(rows) - 1
        self._keep(state, bitmask[rows[0]])

    def _in_parallel(self, cursors: Sequence[Cursor], bitmask: Words, rows: list[int]) -> set[int]:
        """The rows that were computed without an error. What fails is tried alone once more."""
        assert self._executor is not None
        pairs: list[tuple[LLMatcher, int]] = []
        for row in rows:
            try:
                pairs.append((cursors[row].matcher(), row))
            except GrammarFailed:
                continue
        try:
            with guarded():
                self._executor.unsafe_compute_mask_ptr(pairs, bitmask.ctypes.data, bitmask.strides[0], len(bitmask))
                return {row for matcher, row in pairs if not matcher.is_error()}
        except GrammarFailed:  # of one of them
            return set()

    def _alone(self, cursor: Cursor, words: Words) -> None:
        address, size = words.ctypes.data, words.nbytes
        cursor.ask(lambda matcher: matcher.unsafe_compute_mask_ptr(address, size))
