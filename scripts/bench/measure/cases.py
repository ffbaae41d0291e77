"""Batches for the attention backends: who attends to which slots, and what that costs at least. Pure.

Knows segments. Does not know backends, tensors or time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.executor.attention.base import Segment, SlotRun, contexts


@dataclass(frozen=True)
class Case:
    name: str
    segments: tuple[Segment, ...]
    rows: int
    slots: int

    @property
    def unshared(self) -> tuple[Segment, ...]:
        """The same attention, each sequence for itself."""
        return tuple(contexts(self.segments))

    @property
    def shares(self) -> bool:
        return any(not segment.causal for segment in self.segments)


def shared(batch: int, prefix_tokens: int, own_tokens: int) -> Case:
    """Decoding: so many sequences share a prefix, and each has tokens of its own behind it."""
    prefix = Segment(0, batch, (SlotRun(0, prefix_tokens),), causal=False)
    own = [
        Segment(row, row + 1, (SlotRun(prefix_tokens + row * own_tokens, own_tokens),), causal=True)
        for row in range(batch)
    ]
    name = f"{batch} sharing {prefix_tokens}, {own_tokens} of their own"
    return Case(name, (prefix, *own), batch, prefix_tokens + batch * own_tokens)


def distinct(batch: int, context_tokens: int) -> Case:
    """Decoding: nothing in common."""
    own = [Segment(row, row + 1, (SlotRun(row * context_tokens, context_tokens),), causal=True) for row in range(batch)]
    return Case(f"{batch} of {context_tokens}, nothing shared", tuple(own), batch, batch * context_tokens)


def chunk(new_tokens: int, cached_tokens: int) -> Case:
    """A part of a prompt behind what is computed already."""
    context = cached_tokens + new_tokens
    segment = Segment(0, new_tokens, (SlotRun(0, context),), causal=True)
    return Case(f"{new_tokens} of a prompt behind {cached_tokens}", (segment,), new_tokens, context)


def sharing_chunks(batch: int, prefix_tokens: int, new_tokens: int) -> Case:
    """Prompts that begin alike, each with its own end to compute."""
    prefix = Segment(0, batch * new_tokens, (SlotRun(0, prefix_tokens),), causal=False)
    own = [
        Segment(
            number * new_tokens,
            (number + 1) * new_tokens,
            (SlotRun(prefix_tokens + number * new_tokens, new_tokens),),
            causal=True,
        )
        for number in range(batch)
    ]
    rows = batch * new_tokens
    return Case(
        f"{batch} prompts: {new_tokens} each behind {prefix_tokens}", (prefix, *own), rows, prefix_tokens + rows
    )


def read_bytes(segments: Sequence[Segment], *, token_bytes: int) -> int:
    """Of keys and values, if each segment's are read once."""
    return token_bytes * sum(segment.tokens for segment in segments)


def flops(segments: Sequence[Segment], *, heads: int, head_dim: int) -> int:
    """Two products of a multiplication and an addition for each pair of a row and a token that it sees."""
    return 4 * heads * head_dim * sum(map(_pairs, segments))


def _pairs(segment: Segment) -> int:
    rows = segment.query_tokens
    unseen = rows * (rows - 1) // 2 if segment.causal else 0
    return rows * segment.tokens - unseen
