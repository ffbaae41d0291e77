"""Attention in plain torch, on any device: one SDPA call for each sequence, over its whole context.

The call reads keys and values in place when the context is one run of slots, and from a copy when it is several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from services.executor.attention.base import Segment, SlotRun, contexts


@dataclass(frozen=True, slots=True)
class _Part:
    rows: slice
    runs: tuple[SlotRun, ...]
    causal: bool  # the queries are the whole context: SDPA's own causal mask fits
    mask: Tensor | None  # (query_tokens, context_tokens) bool, for a chunk behind a cached context


@dataclass(frozen=True, slots=True)
class ReferencePlan:
    parts: tuple[_Part, ...]


class ReferenceAttention:
    """An `AttentionBackend`; the one that others are held against."""

    def plan(self, segments: Sequence[Segment], device: torch.device) -> ReferencePlan:
        return ReferencePlan(tuple(_part(context, device) for context in contexts(segments)))

    def run(self, plan: ReferencePlan, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        output = torch.empty_like(queries)
        for part in plan.parts:
            part_keys, part_values = _read(keys, part.runs), _read(values, part.runs)
            output[part.rows] = _attend(
                part, queries[part.rows], part_keys.to(queries.dtype), part_values.to(queries.dtype)
            )
        return output


def _part(context: Segment, device: torch.device) -> _Part:
    rows = slice(context.query_start, context.query_end)
    cached = context.tokens - context.query_tokens
    if context.query_tokens == 1:  # a single query sees everything
        return _Part(rows, context.runs, causal=False, mask=None)
    if cached == 0:
        return _Part(rows, context.runs, causal=True, mask=None)
    every = torch.ones(context.query_tokens, context.tokens, dtype=torch.bool, device=device)
    return _Part(rows, context.runs, causal=False, mask=every.tril(cached))


def _read(pool: Tensor, runs: tuple[SlotRun, ...]) -> Tensor:
    """(slots, kv_heads, head_dim) -> (context_tokens, kv_heads, head_dim)"""
    parts = [pool[run.start : run.start + run.length] for run in runs]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _attend(part: _Part, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """(query_tokens, heads, head_dim); SDPA itself wants (batch, heads, tokens, head_dim)."""
    output = scaled_dot_product_attention(
        queries.transpose(0, 1)[None],
        keys.to(queries.dtype).transpose(0, 1)[None],
        values.to(queries.dtype).transpose(0, 1)[None],
        attn_mask=part.mask,
        is_causal=part.causal,
        enable_gqa=True,
    )
    return output[0].transpose(0, 1)
