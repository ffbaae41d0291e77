"""Random attention problems: trees of shared segments over a scattered pool, and their answers from the formula."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from services.executor.attention.base import Segment, SlotRun, contexts


@dataclass(frozen=True)
class Case:
    segments: tuple[Segment, ...]
    queries: Tensor  # (tokens, heads, head_dim)
    keys: Tensor  # (slots, kv_heads, head_dim)
    values: Tensor


def expected(case: Case) -> Tensor:
    """Query by query, head by head, as the formula says; in float64."""
    keys, values = case.keys.to(torch.float64), case.values.to(torch.float64)
    output = torch.empty(case.queries.shape, dtype=torch.float64)
    heads, head_dim = case.queries.shape[1:]
    for context in contexts(case.segments):
        slots = torch.cat([torch.arange(run.start, run.start + run.length) for run in context.runs])
        for row in range(context.query_start, context.query_end):
            seen = slots[: len(slots) - (context.query_end - 1 - row)]
            for head in range(heads):
                kv_head = head // (heads // keys.shape[1])
                scores = keys[seen, kv_head] @ case.queries[row, head].to(torch.float64) / math.sqrt(head_dim)
                output[row, head] = scores.softmax(0) @ values[seen, kv_head]
    return output.to(case.queries.dtype)


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    shape: tuple[int, int, int] = (4, 2, 8),
    kv_dtype: torch.dtype = torch.float32,
    longest: int = 20,
) -> Case:
    """Args:
    shape: heads, kv_heads, head_dim.
    longest: tokens in one run, at most.
    """
    heads, kv_heads, head_dim = shape
    layout = _Layout(draw, longest)
    layout.tree(draw(st.integers(1, 4)), depth=draw(st.integers(0, 3)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    pool = (layout.slots, kv_heads, head_dim)
    return Case(
        (*layout.shared, *layout.own),
        torch.randn(layout.rows, heads, head_dim, generator=generator),
        torch.randn(pool, generator=generator).to(kv_dtype),
        torch.randn(pool, generator=generator).to(kv_dtype),
    )


class _Layout:
    """Rows in tree order; runs one behind the other in the pool with gaps between them."""

    def __init__(self, draw: Any, longest: int) -> None:
        self._draw = draw
        self._longest = longest
        self.rows = 0
        self.slots = 0
        self.shared: list[Segment] = []
        self.own: list[Segment] = []

    def tree(self, sequences: int, depth: int) -> None:
        """Some sequences below one node, perhaps with nodes below that one."""
        first = self.rows
        for _ in range(sequences):
            if depth and self._draw(st.booleans()):
                self.tree(self._draw(st.integers(1, 3)), depth - 1)
            else:
                self._sequence()
        if depth:
            runs = self._runs(self._draw(st.integers(1, self._longest)))
            self.shared.append(Segment(first, self.rows, runs, causal=False))

    def _sequence(self) -> None:
        queries, cached = self._draw(st.integers(1, 12)), self._draw(st.integers(0, self._longest))
        runs = self._runs(queries + cached)
        self.own.append(Segment(self.rows, self.rows + queries, runs, causal=True))
        self.rows += queries

    def _runs(self, tokens: int) -> tuple[SlotRun, ...]:
        runs = []
        while tokens:
            length = self._draw(st.integers(1, tokens))
            self.slots += self._draw(st.integers(0, 3))
            runs.append(SlotRun(self.slots, length))
            self.slots += length
            tokens -= length
        return tuple(runs)
