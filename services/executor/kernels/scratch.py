"""A thread's own memory while it computes a piece of attention: what is where in it.

Knows sizes. Computes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from services.executor.kernels.kv_tile import TILE, padded
from services.executor.kernels.piece import LONG, Layout
from services.executor.kernels.softmax import Running
from services.executor.kernels.vector import BYTES, LANES, compiled

MAX_QUERIES = 192  # of a piece, all its KV heads together: their queries and outputs stay in the second-level cache
ROW = 4 * TILE  # bytes of scores


class Scratch(NamedTuple):
    """Addresses; a thread's own."""

    slots: int  # int64 (TILE): a tile's tokens, in bytes from the pool's start
    more_slots: int  # those of the next tile
    keys: int  # (TILE / PANEL, head_dim, PANEL)
    values: int  # (padded / PANEL, TILE, PANEL), `padded` being head_dim in whole panels
    scores: int  # (MAX_QUERIES, TILE)
    queries: int  # (MAX_QUERIES, head_dim)
    outputs: int  # (MAX_QUERIES, padded)
    sums: int  # (MAX_QUERIES, LANES): lane by lane
    maxima: int  # (MAX_QUERIES)


def scratch_bytes(head_dim: int) -> int:
    """What a thread needs; it starts at a cache line."""
    floats = TILE * head_dim + TILE * padded.py_func(head_dim) + MAX_QUERIES * TILE
    floats += MAX_QUERIES * (head_dim + padded.py_func(head_dim) + LANES + 1)
    return 2 * LONG * TILE + 4 * floats


@compiled
def divide(scratch: int, head_dim: int) -> Scratch:
    keys = scratch + 2 * LONG * TILE
    values = keys + 4 * TILE * head_dim
    scores = values + 4 * TILE * padded(head_dim)
    queries = scores + MAX_QUERIES * ROW
    outputs = queries + 4 * MAX_QUERIES * head_dim
    sums = outputs + 4 * MAX_QUERIES * padded(head_dim)
    maxima = sums + BYTES * MAX_QUERIES
    return Scratch(scratch, scratch + LONG * TILE, keys, values, scores, queries, outputs, sums, maxima)


@compiled
def running(layout: Layout, places: Scratch, query: int) -> Running:
    size = 4 * padded(layout.head_dim)
    return Running(places.maxima + 4 * query, places.sums + BYTES * query, places.outputs + query * size, size)
