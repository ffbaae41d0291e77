"""The CUDA backend: a step's plan on the device, and the kernels' launches.

Knows tensors, devices and launch parameters. Does not know how a step is cut (`plan`) or computed (`kernels`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from services.executor.attention.base import HeadShape, Segment
from services.executor.attention.cuda.kernels import attend, merge
from services.executor.attention.cuda.plan import Cut, Table, pieces_of

SMALL_TILE = 16  # the fewest rows of a matrix product
LARGE_TILE = 64
TILE_NUMBERS = 8_192  # of the queries that a program holds, at most
BLOCK_BYTES = 16_384  # of keys, and of values, that a program holds at a time
WAVES = 2  # pieces for each multiprocessor: two run side by side there
SHORTEST = 256  # tokens of a piece; for fewer, the merge costs more than the second program saves
ALIGNED = 4  # int32 in 16 bytes: kernels are compiled anew for pointers that are less aligned


@dataclass(frozen=True, slots=True)
class CudaPlan:
    """Views of one tensor on the device, and the scratch buffer, which the next step's plan uses again."""

    small: Tensor
    large: Tensor
    parts: Tensor
    merged_rows: Tensor
    firsts: Tensor
    sources: Tensor
    partial: Tensor  # (scratch rows, heads, head_dim) float32
    log_sums: Tensor  # (scratch rows, heads) float32


class CudaAttention:
    """An `AttentionBackend`. Keys, values and each token's queries are contiguous; all steps run in one stream.

    Args:
        large_tile: queries times heads of a group in a tile, a power of two.
        pieces: how many a step is cut into if it is long enough; by default as many as the device runs at once.
        shortest: tokens of a piece, at least.
    """

    def __init__(
        self, shape: HeadShape, *, large_tile: int | None = None, pieces: int | None = None, shortest: int = SHORTEST
    ) -> None:
        self._heads = shape.heads
        self._kv_heads = shape.kv_heads
        self._head_dim = shape.head_dim
        self._group = shape.heads // shape.kv_heads
        self._small_tile = max(SMALL_TILE, _power_of_two(self._group))
        self._large_tile = max(large_tile or default_tile(self._padded_dim), self._small_tile)
        self._pieces = pieces
        self._shortest = shortest
        self._scratch: tuple[Tensor, Tensor] | None = None

    def plan(self, segments: Sequence[Segment], device: torch.device) -> CudaPlan:
        cut = Cut(
            small_rows=self._small_tile // self._group,
            large_rows=self._large_tile // self._group,
            pieces=self._wanted_pieces(device),
            shortest=self._shortest,
        )
        pieces = pieces_of(segments, cut)
        small, large, parts, merged_rows, firsts, sources = _on_device(pieces.tables, device)
        partial, log_sums = self._scratch_of(pieces.scratch_rows, device)
        return CudaPlan(small, large, parts, merged_rows, firsts, sources, partial, log_sums)

    def run(self, plan: CudaPlan, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        if not (queries[0].is_contiguous() and keys.is_contiguous() and values.is_contiguous()):
            raise ValueError("keys, values and each token's queries must be contiguous")
        output = queries.new_empty(queries.shape)
        self._attend(plan, plan.small, self._small_tile, queries, keys, values, output)
        self._attend(plan, plan.large, self._large_tile, queries, keys, values, output)
        if len(plan.merged_rows):
            merge[len(plan.merged_rows), self._heads](
                plan.partial,
                plan.log_sums,
                output,
                plan.merged_rows,
                plan.firsts,
                plan.sources,
                HEADS=self._heads,
                HEAD_DIM=self._head_dim,
                D=self._padded_dim,
                num_warps=1,
            )
        return output

    def _attend(
        self, plan: CudaPlan, pieces: Tensor, tile: int, queries: Tensor, keys: Tensor, values: Tensor, output: Tensor
    ) -> None:
        if len(pieces):
            attend[len(pieces), self._kv_heads](
                queries,
                keys,
                values,
                output,
                plan.partial,
                plan.log_sums,
                pieces,
                plan.parts,
                queries.stride(0),
                math.log2(math.e) / math.sqrt(self._head_dim),
                HEADS=self._heads,
                KV_HEADS=self._kv_heads,
                HEAD_DIM=self._head_dim,
                M=tile,
                N=tokens_at_a_time(self._padded_dim, queries.dtype),
                D=self._padded_dim,
                num_warps=4,
                num_stages=2,
            )

    @property
    def _padded_dim(self) -> int:
        return max(16, _power_of_two(self._head_dim))

    def _wanted_pieces(self, device: torch.device) -> int:
        if self._pieces is not None:
            return self._pieces
        multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
        return max(1, WAVES * multiprocessors // self._kv_heads)

    def _scratch_of(self, rows: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Partial results and their log-sums, at least for `rows`; grown by doubling, kept from step to step."""
        if self._scratch is None or len(self._scratch[0]) < rows:
            size = (_power_of_two(max(rows, 1)), self._heads)
            partial = torch.empty((*size, self._head_dim), dtype=torch.float32, device=device)
            self._scratch = partial, torch.empty(size, dtype=torch.float32, device=device)
        return self._scratch


def default_tile(padded_dim: int) -> int:
    return min(LARGE_TILE, TILE_NUMBERS // padded_dim)


def tokens_at_a_time(padded_dim: int, dtype: torch.dtype) -> int:
    return min(128, max(16, BLOCK_BYTES // (padded_dim * dtype.itemsize)))


def _on_device(tables: Sequence[Table], device: torch.device) -> list[Tensor]:
    """All in one copy, each from an aligned place on."""
    padded = [np.pad(table.reshape(-1), (0, -table.size % ALIGNED)) for table in tables]
    packed = torch.from_numpy(np.concatenate(padded))
    if device.type == "cuda":
        packed = packed.pin_memory().to(device, non_blocking=True)
    parts = packed.split_with_sizes([len(table) for table in padded])
    return [part[: table.size].view(table.shape) for part, table in zip(parts, tables, strict=True)]


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
