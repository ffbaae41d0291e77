"""What an attention backend is given and what it promises.

Knows which batch rows attend to which slots of the KV pool. Knows nothing of requests, of the radix tree, of who owns a
slot, or of the model around the attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
class Segment:
    """Neighbouring rows of a batch, and tokens that all of them attend to.

        shared:  every row attends to all of its tokens.
        causal:  the rows are one sequence's, and the last tokens are the rows' own, one each: a row attends to the
                 tokens up to and including its own.

    Each row has one causal segment, the end of its sequence, and any number of shared ones before that: its context is
    all of them.
    """

    query_start: int
    query_end: int
    runs: tuple[SlotRun, ...]  # in the order of the tokens
    causal: bool

    @property
    def query_tokens(self) -> int:
        return self.query_end - self.query_start

    @property
    def tokens(self) -> int:
        return sum(run.length for run in self.runs)


def contexts(segments: Sequence[Segment]) -> Iterator[Segment]:
    """Each sequence's causal segment with its whole context as runs: the same attention with nothing shared."""
    shared = [segment for segment in segments if not segment.causal]
    for own in segments:
        if own.causal:
            above = [part for part in shared if part.query_start <= own.query_start < part.query_end]
            runs = tuple(run for part in [*above, own] for run in part.runs)
            yield Segment(own.query_start, own.query_end, runs, causal=True)


class HeadShape(Protocol):
    """What of a model's shape matters here."""

    @property
    def heads(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...


class AttentionBackend(Protocol[PlanT]):
    """Grouped-query attention of a flat batch over the pool. `plan` once a step, `run` once a layer."""

    def plan(self, segments: Sequence[Segment], device: torch.device) -> PlanT:
        """What all layers of the step share."""

    def run(self, plan: PlanT, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of one layer.

        Args:
            queries: (tokens, heads, head_dim).
            keys, values: (slots, kv_heads, head_dim), the layer's part of the pool, the step's tokens included.

        Returns:
            (tokens, heads, head_dim).
        """
