"""Greedy decoding on the model itself, without the executor: some sequences share a prefix, all stand in one batch.

Knows slots, rows and segments. Knows nothing of requests or of the tree that finds what is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from services.executor.attention.base import Segment, SlotRun
from services.executor.kv_pool import make_pool
from services.executor.model.forward import Batch, Model


@dataclass
class Row:
    """A sequence behind the shared prefix, if it has one: its own tokens lie in slots of its own."""

    token_ids: list[int]
    shared: int  # tokens of the prefix
    first_slot: int
    computed: int = 0  # of its own tokens
    logits: list[Tensor] = field(default_factory=list)  # of its own tokens, (tokens, vocab_size) each


class Decoder:
    """The sharers come first in the batch.

    Args:
        prefix: what the sharers have before their own prompts.
        room: own tokens that a sequence may have.
    """

    def __init__(
        self,
        model: Model[Any],
        prefix: Sequence[int],
        sharers: Sequence[Sequence[int]],
        others: Sequence[Sequence[int]],
        room: int,
    ) -> None:
        self._model = model
        self._prefix = list(prefix)
        prompts = [(prompt, len(prefix)) for prompt in sharers] + [(prompt, 0) for prompt in others]
        self.rows = [
            Row(list(prompt), shared, len(prefix) + index * room) for index, (prompt, shared) in enumerate(prompts)
        ]
        self._sharers = len(sharers)
        capacity = len(prefix) + len(prompts) * room
        self._pool = make_pool(model.shape, capacity, device=model.device, dtype=model.dtype)

    def run(self, new_tokens: int) -> None:
        """Append so many tokens to each row; the last one is not computed."""
        self._compute_prefix()
        for _ in range(new_tokens):
            self._step()
            for row in self.rows:
                row.token_ids.append(int(row.logits[-1][-1].argmax()))

    def before(self, row: Row) -> list[int]:
        return self._prefix[: row.shared]

    def _compute_prefix(self) -> None:
        end = len(self._prefix)
        self._forward(self._prefix, list(range(end)), list(range(end)), [_causal(0, end, 0, end)])

    def _step(self) -> None:
        token_ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        segments: list[Segment] = []
        for index, row in enumerate(self.rows):
            if index == self._sharers:
                segments.append(self._shared_segment(len(token_ids)))
            start, end = row.computed, len(row.token_ids)
            segments.append(_causal(len(token_ids), len(token_ids) + end - start, row.first_slot, end))
            token_ids += row.token_ids[start:end]
            positions += range(row.shared + start, row.shared + end)
            slots += range(row.first_slot + start, row.first_slot + end)
        logits = self._forward(token_ids, positions, slots, segments)
        for row, part in zip(self.rows, logits.split([len(r.token_ids) - r.computed for r in self.rows]), strict=True):
            row.logits.append(part)
            row.computed = len(row.token_ids)

    def _shared_segment(self, end: int) -> Segment:
        return Segment(0, end, (SlotRun(0, len(self._prefix)),), causal=False)

    def _forward(
        self, token_ids: list[int], positions: list[int], slots: list[int], segments: Sequence[Segment]
    ) -> Tensor:
        batch = make_batch(token_ids, positions, slots, segments, self._model.device)
        return self._model.forward(batch, self._pool.keys, self._pool.values)


def make_batch(
    token_ids: Sequence[int],
    positions: Sequence[int],
    slots: Sequence[int],
    segments: Sequence[Segment],
    device: torch.device,
) -> Batch:
    """With the logits of all rows."""
    return Batch(
        torch.tensor(token_ids, dtype=torch.int64, device=device),
        torch.tensor(positions, dtype=torch.int64, device=device),
        torch.tensor(slots, dtype=torch.int64, device=device),
        tuple(segments),
        logits_rows=torch.arange(len(token_ids), device=device),
    )


def _causal(row: int, row_end: int, first_slot: int, tokens: int) -> Segment:
    return Segment(row, row_end, (SlotRun(first_slot, tokens),), causal=True)
