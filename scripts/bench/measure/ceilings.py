"""What the machine can do at best, measured now: bytes read from memory and float32 multiplications, with all threads.

The best of several runs, since whatever disturbs a run makes it slower.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

READ_BYTES = 512 << 20  # far more than any cache holds
GEMM_SIZE = 1536
ROUNDS = 6


@dataclass(frozen=True)
class Ceilings:
    read_bytes_s: float
    gemm_flop_s: float

    def bound_s(self, *, read_bytes: float, flops: float) -> float:
        """No way of doing so much takes less than the longer of the two."""
        return max(read_bytes / self.read_bytes_s, flops / self.gemm_flop_s)

    def or_better(self, other: Ceilings) -> Ceilings:
        """Of two measurements of one machine: whatever disturbs one makes it lower."""
        read, gemm = (max(getattr(self, name), getattr(other, name)) for name in ("read_bytes_s", "gemm_flop_s"))
        return Ceilings(read, gemm)

    def in_words(self) -> str:
        return f"ceilings: read {self.read_bytes_s / 1e9:.1f} GB/s, float32 GEMM {self.gemm_flop_s / 1e9:.0f} GFLOP/s"


def measure(threads: int) -> Ceilings:
    return Ceilings(read_bytes_s(threads), gemm_flop_s(threads))


def read_bytes_s(threads: int) -> float:
    """Each thread takes the largest of its own part; the reduction is vectorised and leaves no trace in memory."""
    numbers = np.ones(READ_BYTES // 4, dtype=np.float32)
    parts = np.array_split(numbers, threads)
    with ThreadPoolExecutor(threads) as team:
        return READ_BYTES / _best_s(lambda: list(team.map(np.max, parts)))


def gemm_flop_s(threads: int) -> float:
    left, right = torch.rand(GEMM_SIZE, GEMM_SIZE), torch.rand(GEMM_SIZE, GEMM_SIZE)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return 2 * GEMM_SIZE**3 / _best_s(lambda: left @ right)
    finally:
        torch.set_num_threads(before)


def _best_s(work: Callable[[], object]) -> float:
    return min(_timed_s(work) for _ in range(ROUNDS))


def _timed_s(work: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    work()
    return time.perf_counter() - start_s
