"""Attention on the CPU: kernels that numba compiles, run by a team of threads.

Knows how work is handed to the threads. The forward pass of the CPU calls the same kernels from its own loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from services.executor.attention.base import Segment
from services.executor.attention.pieces import AttentionPlan, Workspace, plan_attention
from services.executor.kernels.attention import attend, scratch_bytes
from services.executor.kernels.merge import merge
from services.executor.kernels.team import Team, meet, take
from services.executor.kernels.vector import compiled

MERGED_ROWS = 16  # at a time
KINDS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
ALIGNMENT = 64


class CpuAttention:
    """An `AttentionBackend` for one model's shape."""

    def __init__(self, heads: int, kv_heads: int, head_dim: int, team: Team) -> None:
        self._shape = heads, kv_heads, head_dim
        self._team = team
        self._workspace = Workspace()
        self._thread_bytes = -(-scratch_bytes(head_dim) // ALIGNMENT) * ALIGNMENT
        self._memory = torch.zeros(team.threads * self._thread_bytes + ALIGNMENT, dtype=torch.uint8)
        self._scratch = -(-self._memory.data_ptr() // ALIGNMENT) * ALIGNMENT

    def plan(self, segments: Sequence[Segment], device: torch.device) -> AttentionPlan:
        return plan_attention(segments, *self._shape, self._team.threads, self._workspace)

    def run(self, plan: AttentionPlan, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        queries, output = queries.contiguous(), torch.empty_like(queries, memory_format=torch.contiguous_format)
        pool = keys.data_ptr(), values.data_ptr(), KINDS[keys.dtype]
        stride = 4 * queries[0].numel()
        arrays = queries.data_ptr(), output.data_ptr(), stride
        work = plan.address, plan.pieces, plan.rows
        self._team.run(_attend_all, *work, *arrays, *pool, self._scratch, self._thread_bytes)
        return output


@compiled
def _attend_all(
    member: int,
    threads: int,
    sync: int,
    plan: int,
    pieces: int,
    rows: int,
    queries: int,
    output: int,
    stride: int,
    keys: int,
    values: int,
    kind: int,
    scratch: int,
    scratch_bytes: int,
) -> None:
    number = take(sync)
    while number < pieces:
        attend(plan, number, queries, stride, output, stride, keys, values, kind, scratch + member * scratch_bytes)
        number = take(sync)
    meet(sync, threads)
    first = take(sync) * MERGED_ROWS
    while first < rows:
        merge(plan, first, min(first + MERGED_ROWS, rows), output, stride)
        first = take(sync) * MERGED_ROWS
    meet(sync, threads)
