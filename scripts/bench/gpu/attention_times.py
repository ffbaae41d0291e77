"""Tree attention against attention request by request: the same kernel, once with what is shared and once without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from scripts.bench.gpu.backends import make_backend
from scripts.bench.gpu.timing import Times, in_turns, timed
from services.executor.attention.base import Segment, SlotRun, contexts

TOLERANCES = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 2e-2}


@dataclass(frozen=True)
class Heads:
    heads: int
    kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class Sharing:
    sharers: int
    prefix: int  # tokens
    private: int  # tokens of each

    def segments(self) -> tuple[Segment, ...]:
        """One row for each sharer."""
        shared = Segment(0, self.sharers, (SlotRun(0, self.prefix),), causal=False)
        own = [
            Segment(row, row + 1, (SlotRun(self.prefix + row * self.private, self.private),), causal=True)
            for row in range(self.sharers)
        ]
        return (shared, *own)

    @property
    def slots(self) -> int:
        return self.prefix + self.sharers * self.private


@dataclass(frozen=True)
class AttentionTimes:
    heads: Heads
    sharing: Sharing
    dtype: str
    tree: Times
    alone: Times
    difference: float  # between the two results, the largest
    is_good: bool

    @property
    def ratio(self) -> float:
        return self.alone.median_s / self.tree.median_s

    @property
    def alone_gb_s(self) -> float:
        """What request by request has read: everybody's whole context."""
        size = 4 if self.dtype == "float32" else 2
        tokens = self.sharing.sharers * (self.sharing.prefix + self.sharing.private)
        return 2 * tokens * self.heads.kv_heads * self.heads.head_dim * size / self.alone.median_s / 1e9

    def line(self) -> str:
        heads, sharing = self.heads, self.sharing
        return (
            f"{heads.heads}/{heads.kv_heads} x {heads.head_dim} {self.dtype:8} {sharing.sharers:3} sharing "
            f"{sharing.prefix:5}, {sharing.private} each: tree {self.tree.median_s * 1e6:8.1f} us, alone "
            f"{self.alone.median_s * 1e6:8.1f} us ({self.alone_gb_s:.0f} GB/s), ratio {self.ratio:5.2f}, "
            f"difference {self.difference:.1g} {'good' if self.is_good else 'BAD'}"
        )


def measure_attention(
    shapes: Sequence[Heads], sharings: Sequence[Sharing], dtype: torch.dtype, device: torch.device, rounds: int
) -> Iterator[AttentionTimes]:
    for heads in shapes:
        for sharing in sharings:
            yield _measure(heads, sharing, dtype, device, rounds)


def copy_gb_s(device: torch.device, num_bytes: int, rounds: int) -> float:
    """Bytes read and written by a plain copy: the ceiling beside the kernels' figures."""
    source = torch.zeros(num_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = in_turns({"copy": timed(lambda: target.copy_(source), device, repeats=5)}, rounds)
    return 2 * num_bytes / times["copy"].median_s / 1e9


def _measure(heads: Heads, sharing: Sharing, dtype: torch.dtype, device: torch.device, rounds: int) -> AttentionTimes:
    generator = torch.Generator(device).manual_seed(0)
    pool = torch.randn(
        2, sharing.slots, heads.kv_heads, heads.head_dim, generator=generator, device=device, dtype=dtype
    )
    queries = torch.randn(sharing.sharers, heads.heads, heads.head_dim, generator=generator, device=device, dtype=dtype)
    tree, alone = make_backend(heads, device), make_backend(heads, device)  # a scratch buffer each
    segments = sharing.segments()
    tree_plan, alone_plan = tree.plan(segments, device), alone.plan(list(contexts(segments)), device)
    difference = (tree.run(tree_plan, queries, *pool) - alone.run(alone_plan, queries, *pool)).abs().max()
    times = in_turns(
        {
            "tree": timed(lambda: tree.run(tree_plan, queries, *pool), device, repeats=30),
            "alone": timed(lambda: alone.run(alone_plan, queries, *pool), device, repeats=30),
        },
        rounds,
    )
    name = str(dtype).removeprefix("torch.")
    return AttentionTimes(
        heads,
        sharing,
        name,
        times["tree"],
        times["alone"],
        float(difference),
        is_good=float(difference) < TOLERANCES[dtype],
    )
