"""What an attention backend is given and what it promises.

Knows which batch rows belong to which sequence and in which slots of the KV pool that sequence's context lies. Knows
nothing of requests, of who owns a slot, or of the model around the attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

PlanT = TypeVar("PlanT")


@dataclass(frozen=True, slots=True)
class SlotRun:
    """The contiguous slots [start, start + length)."""

    start: int
    length: int


@dataclass(frozen=True, slots=True)
class SequenceSpan:
    """One sequence of a batch.

        context:  [0 ...... cached_tokens) [cached_tokens ............ context_tokens)
        KV:       in the pool before        written in this step
        queries:                            batch rows [query_start, query_end)

    A query attends to the context up to and including its own token.
    """

    query_start: int
    query_end: int
    cached_tokens: int
    slots: SlotRun | Tensor  # of the whole context, in order; a tensor is (context_tokens,) int64 on the pool's device

    @property
    def query_tokens(self) -> int:
        return self.query_end - self.query_start

    @property
    def context_tokens(self) -> int:
        return self.cached_tokens + self.query_tokens


class AttentionBackend(Protocol[PlanT]):
    """Causal grouped-query attention of a flat batch over the pool. `plan` once a step, `run` once a layer."""

    def plan(self, spans: Sequence[SequenceSpan], device: torch.device) -> PlanT:
        """What all layers of the step share. The spans' rows do not overlap and cover the batch."""

    def run(self, plan: PlanT, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of one layer.

        Args:
            queries: (tokens, heads, head_dim).
            keys, values: (slots, kv_heads, head_dim), the layer's part of the pool, the step's tokens included.

        Returns:
            (tokens, heads, head_dim).
        """
