"""Feeding a model by hand: sequences with their slots, cut into the flat batches that the forward pass takes."""

from __future__ import annotations

from collections.abc import Sequence as List
from typing import Any

import torch
from torch import Tensor

from services.executor.attention.base import Segment, SlotRun
from services.executor.model.forward import Batch, Model
from services.executor.slots import runs_of


class Sequence:
    """Token ids, the slots set aside for them, and how far they are computed."""

    def __init__(self, token_ids: List[int], slots: Tensor) -> None:
        self.token_ids = list(token_ids)
        self.slots = slots
        self.computed = 0

    @property
    def left(self) -> int:
        return len(self.token_ids) - self.computed

    def runs(self, end: int) -> tuple[SlotRun, ...]:
        return tuple(SlotRun(first, stop - first) for first, stop in runs_of(self.slots[:end].numpy()))


def empty_pool(model: Model[Any], slots: int) -> Tensor:
    """Keys and values, not numbers: what is read without having been written shows."""
    shape = model.shape
    return torch.full((2, shape.layers, slots, shape.kv_heads, shape.head_dim), torch.nan, dtype=model.dtype)


def step(model: Model[Any], pool: Tensor, chunks: List[tuple[Sequence, int]]) -> list[Tensor]:
    """Compute (sequence, tokens) chunks in one batch: the logits of all rows, by chunk."""
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    segments = []
    for sequence, tokens in chunks:
        start, end, row = sequence.computed, sequence.computed + tokens, len(token_ids)
        token_ids += sequence.token_ids[start:end]
        positions += range(start, end)
        slots += sequence.slots[start:end].tolist()
        segments.append(Segment(row, row + tokens, sequence.runs(end), causal=True))
        sequence.computed = end
    batch = Batch(
        torch.tensor(token_ids),
        torch.tensor(positions),
        torch.tensor(slots),
        tuple(segments),
        logits_rows=torch.arange(len(token_ids)),
    )
    logits = model.forward(batch, *pool).clone()  # the next call may write over it
    return list(logits.split([tokens for _, tokens in chunks]))
