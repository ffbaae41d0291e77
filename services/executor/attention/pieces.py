"""Cuts a step's attention into pieces of similar cost, and says whose results are put together: the plan of the CPU.

Knows segments and the layout that the kernels read. Does not compute.

    segment   ->  blocks   of rows: as many queries as stay in the cache beside a tile of keys and values
    block     ->  splits   along the tokens, where it is a large part of all work
    split     ->  pieces   of KV heads, as many at a time as the queries leave room for

Each split of a block gives each of its rows a partial result. A row with one in all gets it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.executor.attention.base import Segment
from services.executor.kernels.attention import MAX_QUERIES
from services.executor.kernels.kv_tile import TILE
from services.executor.kernels.piece import Layout, Piece

Longs = NDArray[np.int64]

SHARE = 8  # pieces for each thread, if they do not get too small
SHORTEST = 2 * TILE  # tokens in a split
READING = 24  # what a key and its value cost before the first query, in queries


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    address: int  # of a Layout
    pieces: int
    rows: int
    memory: tuple[NDArray[Any], ...]  # what the addresses in it point to

    @property
    def partials(self) -> bool:
        """Whether there is anything to merge."""
        return len(self.memory[-1]) > 0


class Workspace:
    """Memory for partial results, used again by each plan: one plan's kernels run before the next one's."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.float32)

    def floats(self, count: int) -> NDArray[np.float32]:
        if len(self._memory) < count:
            self._memory = np.empty(count + count // 4, np.float32)
        return self._memory


class _Rows(NamedTuple):
    """Segments, as columns."""

    row: Longs
    rows: Longs
    causal: Longs
    token: Longs  # the number of the first token; tokens of all segments are numbered through
    tokens: Longs


class _Blocks(NamedTuple):
    """As columns; and how each is cut further."""

    row: Longs
    rows: Longs
    token: Longs
    tokens: Longs  # up to the last one that the last row sees
    limit: Longs
    step: Longs
    parts: Longs  # of the KV heads
    cost: Longs  # of one part


def plan_attention(
    segments: Sequence[Segment],
    heads: int,
    kv_heads: int,
    head_dim: int,
    threads: int,
    workspace: Workspace | None = None,
) -> AttentionPlan:
    """Args:
    workspace: memory to use again; else the plan has its own.
    """
    columns, run_ends, run_shifts = _columns(segments)
    blocks = _blocks(columns, heads, kv_heads)
    splits = _splits(blocks, threads)
    rows = int((columns.row + columns.rows).max(initial=0))
    shared = _sharing(blocks, splits, rows)
    pieces, of_rows = _pieces(blocks, splits, shared, kv_heads, run_ends)
    order = np.argsort(of_rows, kind="stable")
    row_ends = np.concatenate(([0], np.cumsum(np.bincount(of_rows, minlength=rows))))
    partials = (workspace or Workspace()).floats(len(order) * heads * (head_dim + 1))
    weights = partials[len(order) * heads * head_dim :]
    arrays = (pieces, run_ends, run_shifts, partials, weights, row_ends, order)
    layout = np.array(Layout(heads, kv_heads, head_dim, *(array.ctypes.data for array in arrays)), np.int64)
    return AttentionPlan(layout.ctypes.data, len(pieces), rows, (layout, *arrays))


def _columns(segments: Sequence[Segment]) -> tuple[_Rows, Longs, Longs]:
    """The segments, and all their runs: ends by token, shifts from token to slot."""
    lengths = np.array([run.length for segment in segments for run in segment.runs], np.int64)
    slots = np.array([run.start for segment in segments for run in segment.runs], np.int64)
    table = np.array(
        [(part.query_start, part.query_end, part.causal, len(part.runs)) for part in segments], np.int64
    ).reshape(-1, 4)
    ends = np.cumsum(lengths)
    token_ends = np.concatenate(([0], ends))[np.cumsum(table[:, 3])]
    tokens = np.diff(token_ends, prepend=0)
    row, row_end, causal = table[:, 0], table[:, 1], table[:, 2]
    return _Rows(row, row_end - row, causal, token_ends - tokens, tokens), ends, slots - (ends - lengths)


def _blocks(segments: _Rows, heads: int, kv_heads: int) -> _Blocks:
    group = heads // kv_heads
    counts = -(-segments.rows // max(1, MAX_QUERIES // group))
    owner, number = _expanded(counts)
    row, rows, causal, token, tokens = (column[owner] for column in segments)
    first, end = rows * number // counts[owner], rows * (number + 1) // counts[owner]
    hidden = causal * (rows - end)
    limit = token + tokens - causal * (rows - first - 1)
    parts = -(-kv_heads // np.maximum(1, MAX_QUERIES // ((end - first) * group)))
    cost = (tokens - hidden) * ((end - first) * heads + READING * kv_heads) // parts
    return _Blocks(row + first, end - first, token, tokens - hidden, limit, causal, parts, cost)


def _splits(blocks: _Blocks, threads: int) -> Longs:
    """How often each block is split along its tokens."""
    piece = int((blocks.cost * blocks.parts).sum()) // (SHARE * threads) + 1
    return np.clip(blocks.cost // piece, 1, -(-blocks.tokens // SHORTEST))


def _sharing(blocks: _Blocks, splits: Longs, rows: int) -> NDArray[np.bool_]:
    """Which blocks' rows have more than one partial result."""
    changes = np.bincount(blocks.row, splits, rows + 1) - np.bincount(blocks.row + blocks.rows, splits, rows + 1)
    shared: NDArray[np.bool_] = np.cumsum(changes)[blocks.row] > 1
    return shared


def _pieces(
    blocks: _Blocks, splits: Longs, shared: NDArray[np.bool_], kv_heads: int, run_ends: Longs
) -> tuple[Longs, Longs]:
    """The pieces, the costliest first: who comes late finds small ones. And the row of each partial result."""
    owner, number = _expanded(splits)
    kept = blocks.rows[owner] * shared[owner]
    partial = np.cumsum(kept) - kept
    of_rows = np.repeat(blocks.row[owner], kept) + _expanded(kept)[1]
    tiles, split = -(-blocks.tokens // TILE)[owner], splits[owner]
    first = tiles * number // split * TILE
    end = np.minimum(tiles * (number + 1) // split * TILE, blocks.tokens[owner])
    cost = blocks.cost[owner] // split

    split_of, part = _expanded(blocks.parts[owner])
    block, parts = owner[split_of], blocks.parts[owner][split_of]
    kv_head, kv_end = kv_heads * part // parts, kv_heads * (part + 1) // parts
    token = blocks.token[block]
    columns: dict[str, NDArray[Any]] = {
        "row": blocks.row[block],
        "rows": blocks.rows[block],
        "kv_head": kv_head,
        "kv_heads": kv_end - kv_head,
        "token": token + first[split_of],
        "end": token + end[split_of],
        "run": np.searchsorted(run_ends, token + first[split_of], "right"),
        "limit": blocks.limit[block],
        "step": blocks.step[block],
        "direct": ~shared[block],
        "partial": partial[split_of],
    }
    order = np.argsort(-cost[split_of], kind="stable")
    return np.stack([columns[name] for name in Piece._fields], axis=1, dtype=np.int64)[order], of_rows


def _expanded(counts: Longs) -> tuple[Longs, Longs]:
    """For each of so many of each: whose it is, and its number there."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
