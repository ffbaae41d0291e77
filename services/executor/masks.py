"""Which tokens the constrained rows of a step may choose: filled while the model computes, applied to its logits.

Knows the rows of a batch and the places of their requests in their grammars. Does not choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from services.executor.chunk import Chunk
from services.executor.constraint.apply import apply_masks
from services.executor.constraint.engine import GrammarFailed
from services.executor.constraint.masks import Words, allow, forbid, words_for
from shared import wire

if TYPE_CHECKING:
    from services.executor.constraint.cursor import Cursor
    from services.executor.constraint.states import StateStore

FIRST_ROWS = 16


class Place(NamedTuple):
    row: int  # among those that are sampled
    cursor: Cursor
    sampling: wire.Sampling


@dataclass(slots=True)
class Masks:
    """Of one step. The bits of a row that failed mean nothing."""

    rows: Sequence[int]
    bits: Tensor  # (constrained rows, vocab_size / 32) int32, on the CPU
    failures: dict[int, GrammarFailed]  # by row
    clock: Callable[[], float]
    seconds: float = 0.0  # that applying them took

    def apply(self, logits: Tensor) -> None:
        """(rows, vocab_size) float32: minus infinity for what is not allowed, in place."""
        start = self.clock()
        apply_masks(logits, self.rows, self.bits)
        self.seconds += self.clock() - start


class MaskFiller:
    """Owns the bits, which are good until the next step."""

    def __init__(self, states: StateStore, vocab_size: int, clock: Callable[[], float]) -> None:
        self._states = states
        self._clock = clock
        self._bits = torch.empty((FIRST_ROWS, words_for(vocab_size)), dtype=torch.int32)

    def fill(self, chunks: Iterable[Chunk]) -> Masks | None:
        """None if no row has a constraint: then this costs nothing."""
        with ExitStack() as copies:
            places = list(_places(chunks, copies))
            return self._filled(places) if places else None

    def _filled(self, places: Sequence[Place]) -> Masks:
        bits = self._room(len(places))
        faults = self._states.fill([place.cursor for place in places], bits.numpy())
        failures = {place.row: fault for place, fault in zip(places, faults, strict=True) if fault is not None}
        for place, words in zip(places, bits.numpy(), strict=True):
            if not self._adapt(place, words):
                failures[place.row] = GrammarFailed("only tokens that stop the request could follow")
        return Masks([place.row for place in places], bits, failures, self._clock)

    def _room(self, rows: int) -> Tensor:
        if rows > len(self._bits):
            self._bits = torch.empty((2 * rows, self._bits.shape[1]), dtype=torch.int32)
        return self._bits[:rows]

    def _adapt(self, place: Place, words: Words) -> bool:
        """A token that stops the request may come exactly where its output is complete. Whether any may come."""
        if not place.sampling.stop_token_ids and not place.sampling.ignore_eos:
            return True
        change = allow if place.cursor.is_accepting else forbid
        for token_id in place.sampling.stop_token_ids:
            change(words, token_id)
        if place.sampling.ignore_eos:
            for token_id in self._states.eos_token_ids:
                forbid(words, token_id)
        return bool(words.any())


def _places(chunks: Iterable[Chunk], copies: ExitStack) -> Iterator[Place]:
    """Of the last own row of each constrained chunk, and of those of its drafts, as if they were right.

    Args:
        copies: leaves the cursors of the drafts, also where a later one fails.
    """
    row = 0
    for chunk in chunks:
        lane = chunk.lane
        if not chunk.samples:
            continue
        if lane.cursor is not None:
            yield Place(row, lane.cursor, lane.sampling)
            cursor = lane.cursor
            for number, token_id in enumerate(chunk.drafts.tolist(), 1):
                cursor = cursor.copy()
                copies.callback(cursor.leave)
                cursor.advance(token_id)
                yield Place(row + number, cursor, lane.sampling)
        row += 1 + len(chunk.drafts)
