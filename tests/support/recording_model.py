"""A model without weights: it writes tokens and positions into the KV pool and reads its context back from there.

Its next token depends on the whole context as the pool holds it: a slot that was mixed up, freed too early or written
by somebody else changes the output, or is found out at once by its position. Its rule says what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from services.executor.attention.base import contexts
from services.executor.model.forward import Batch


@dataclass(frozen=True)
class RecordingShape:
    vocab_size: int = 64
    layers: int = 1
    kv_heads: int = 1
    head_dim: int = 2  # the token, its position


def next_token(context: Sequence[int], vocab_size: int = 64) -> int:
    return crc32(np.array(context, np.int64).tobytes()) % vocab_size


def continuation(prompt: Sequence[int], count: int, vocab_size: int = 64) -> list[int]:
    """The `count` tokens that follow the prompt."""
    context = list(prompt)
    for _ in range(count):
        context.append(next_token(context, vocab_size))
    return context[len(prompt) :]


@dataclass
class RecordingModel:
    shape: RecordingShape = RecordingShape()
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32
    rule: Callable[[Sequence[int], int], int] = next_token  # from the context and the vocabulary's size
    poison: int | None = None  # a batch with this token raises
    batches: list[list[int]] = field(default_factory=list)  # the query tokens of each sequence, batch by batch

    def forward(self, batch: Batch, keys: Tensor, values: Tensor) -> Tensor:
        self.batches.append([segment.query_tokens for segment in batch.segments if segment.causal])
        if self.poison in batch.token_ids.tolist():
            raise RuntimeError("poisoned")
        keys[0, batch.slots, 0, 0] = batch.token_ids.to(torch.float32)
        keys[0, batch.slots, 0, 1] = batch.positions.to(torch.float32)
        logits = torch.zeros(len(batch.token_ids), self.shape.vocab_size)
        wanted = set(batch.logits_rows.tolist())
        for context in contexts(batch.segments):
            place = torch.cat([torch.arange(run.start, run.start + run.length) for run in context.runs])
            tokens, positions = keys[0, place, 0].to(torch.int64).unbind(-1)
            assert positions.tolist() == list(range(context.tokens)), "the context's slots hold something else"
            for row in wanted.intersection(range(context.query_start, context.query_end)):
                end = context.tokens - context.query_end + row + 1
                logits[row, self.rule(tokens[:end].tolist(), self.shape.vocab_size)] = 10.0
        return logits[batch.logits_rows]
