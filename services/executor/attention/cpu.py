"""Attention on the CPU: kernels that numba compiles, run by a team of threads.

Knows how work is handed to the threads. The forward pass of the CPU calls the same kernels from its own loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from services.executor.attention.base import Segment
from services.executor.attention.pieces import AttentionPlan, Workspace, plan_attention
from services.executor.kernels.attention import attend_all, scratch_bytes
from services.executor.kernels.merge import MERGED_ROWS, merge
from services.executor.kernels.team import Team, meet, take
from services.executor.kernels.vector import compiled
from services.executor.model.packing import ALIGNMENT, PackedKind, aligned

POOL_KINDS = {
    torch.float32: PackedKind.FLOAT32,
    torch.float16: PackedKind.FLOAT16,
    torch.bfloat16: PackedKind.BFLOAT16,
}


class CpuAttention:
    """An `AttentionBackend` for one model's shape."""

    def __init__(self, heads: int, kv_heads: int, head_dim: int, team: Team) -> None:
        self._shape = heads, kv_heads, head_dim
        self._team = team
        self._workspace = Workspace()
        self._thread_bytes = -(-scratch_bytes(head_dim) // ALIGNMENT) * ALIGNMENT
        self._memory = aligned(team.threads * self._thread_bytes)

    def plan(self, segments: Sequence[Segment], device: torch.device) -> AttentionPlan:
        return plan_attention(segments, *self._shape, self._team.threads, self._workspace)

    def run(self, plan: AttentionPlan, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        queries, output = queries.contiguous(), torch.empty_like(queries, memory_format=torch.contiguous_format)
        pool = keys.data_ptr(), values.data_ptr(), POOL_KINDS[keys.dtype]
        stride = 4 * queries[0].numel()
        arrays = queries.data_ptr(), output.data_ptr(), stride
        work = plan.address, plan.pieces, plan.rows
        self._team.run(_attend_all, *work, *arrays, *pool, self._memory.ctypes.data, self._thread_bytes)
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
    own = scratch + member * scratch_bytes
    attend_all(sync, threads, plan, pieces, queries, stride, output, stride, keys, values, kind, own)
    first = take(sync) * MERGED_ROWS
    while first < rows:
        merge(plan, first, min(first + MERGED_ROWS, rows), output, stride)
        first = take(sync) * MERGED_ROWS
    meet(sync, threads)
