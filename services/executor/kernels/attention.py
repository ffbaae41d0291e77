"""Attention of one piece: the exact softmax of some queries over some tokens, tile by tile, read once.

Knows tiles and the running softmax. Does not know where the pieces come from, or how their results are put together.

The queries of all heads that share a KV head stand one below the other. For each tile of tokens their keys are
transposed and their values copied into scratch memory (converted, if the pool holds halves); scores and outputs are
products of matrices. (Milakov, Gimelshein: Online normalizer calculation for softmax, 2018; Dao et al.:
FlashAttention, 2022.) Scores are in units of log 2, so that all powers are powers of two.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from services.executor.kernels.kv_tile import TILE, find_slots, padded, read_keys, read_values
from services.executor.kernels.piece import LONG, Layout, Piece, read_layout, read_piece
from services.executor.kernels.tile import PANEL, TILE_ROWS, multiply
from services.executor.kernels.vector import (
    BYTES,
    LANES,
    compiled,
    exp2,
    get,
    larger,
    largest,
    load,
    mul,
    put,
    splat,
    store,
    sub,
    total,
)
from services.executor.kernels.vector import add as plus

MAX_QUERIES = 192  # of a piece, all its KV heads together: their queries and outputs stay in the second-level cache
LOWEST = -1e30  # where the running maximum starts
HIDDEN = -2e30  # the score of a token that is not seen
LOG2_E = math.log2(math.e)
ROW = 4 * TILE  # bytes of scores


class Scratch(NamedTuple):
    """Addresses; a thread's own."""

    slots: int  # int64 (TILE): in bytes from the pool's start
    keys: int  # (TILE / PANEL, head_dim, PANEL)
    values: int  # (padded / PANEL, TILE, PANEL), `padded` being head_dim in whole panels
    scores: int  # (TILE_ROWS, TILE)
    queries: int  # (MAX_QUERIES, head_dim)
    outputs: int  # (MAX_QUERIES, padded)
    sums: int  # (MAX_QUERIES, LANES): lane by lane
    maxima: int  # (MAX_QUERIES)


def scratch_bytes(head_dim: int) -> int:
    """What a thread needs; it starts at a cache line."""
    floats = TILE * head_dim + TILE * padded.py_func(head_dim) + TILE_ROWS * TILE
    floats += MAX_QUERIES * (head_dim + padded.py_func(head_dim) + LANES + 1)
    return LONG * TILE + 4 * floats


@compiled
def attend(
    plan: int,
    number: int,
    queries: int,
    query_stride: int,
    output: int,
    output_stride: int,
    keys: int,
    values: int,
    kind: int,
    scratch: int,
) -> None:
    """One piece of one layer.

    Args:
        plan: the address of a Layout.
        number: which piece.
        queries, output: addresses of (rows, heads, head_dim) float32, each row contiguous.
        query_stride, output_stride: bytes from row to row.
        keys, values: addresses of (slots, kv_heads, head_dim).
        kind: of the keys and values, a PackedKind: float32, float16 or bfloat16.
        scratch: the address of `scratch_bytes`.
    """
    layout = read_layout(plan)
    piece = read_piece(layout, number)
    places = _divide(scratch, layout.head_dim)
    _begin(layout, piece, queries, query_stride, places)
    token, run = piece.token, piece.run
    while token < piece.end:
        tokens = min(TILE, piece.end - token)
        run = find_slots(layout, kind, token, tokens, run, places.slots)
        for kv_head in range(piece.kv_heads):
            offset = (piece.kv_head + kv_head) * layout.head_dim * (4 if kind == 0 else 2)
            read_keys(keys + offset, kind, places.slots, tokens, layout.head_dim, places.keys)
            read_values(values + offset, kind, places.slots, tokens, layout.head_dim, places.values)
            _attend_to_tile(layout, piece, places, kv_head, token, tokens)
        token += tokens
    if piece.direct:
        _finish(layout, piece, places, output + piece.row * output_stride, output_stride)
    else:
        row_bytes = 4 * layout.heads * layout.head_dim
        _finish(layout, piece, places, layout.partials + piece.partial * row_bytes, row_bytes)
        _weigh(layout, piece, places)


@compiled
def _divide(scratch: int, head_dim: int) -> Scratch:
    keys = scratch + LONG * TILE
    values = keys + 4 * TILE * head_dim
    scores = values + 4 * TILE * padded(head_dim)
    queries = scores + TILE_ROWS * ROW
    outputs = queries + 4 * MAX_QUERIES * head_dim
    sums = outputs + 4 * MAX_QUERIES * padded(head_dim)
    return Scratch(scratch, keys, values, scores, queries, outputs, sums, sums + BYTES * MAX_QUERIES)


@compiled
def _begin(layout: Layout, piece: Piece, queries: int, stride: int, places: Scratch) -> None:
    """Scaled queries, empty results: KV head by KV head, row by row, head by head."""
    size, group = 4 * layout.head_dim, layout.heads // layout.kv_heads
    scale = splat(np.float32(LOG2_E / math.sqrt(layout.head_dim)))
    target = places.queries
    for kv_head in range(piece.kv_head, piece.kv_head + piece.kv_heads):
        for row in range(piece.row, piece.row + piece.rows):
            source = queries + row * stride + kv_head * group * size
            for offset in range(0, group * size, BYTES):
                store(target + offset, mul(load(source + offset), scale))
            target += group * size
    for query in range(piece.kv_heads * piece.rows * group):
        put(places.maxima + 4 * query, np.float32(LOWEST))
        store(places.sums + BYTES * query, splat(np.float32(0)))
        outputs = places.outputs + 4 * query * padded(layout.head_dim)
        for offset in range(0, 4 * padded(layout.head_dim), BYTES):
            store(outputs + offset, splat(np.float32(0)))


@compiled
def _attend_to_tile(layout: Layout, piece: Piece, places: Scratch, kv_head: int, token: int, tokens: int) -> None:
    """All queries of a KV head, in blocks of about the same number of rows."""
    group = layout.heads // layout.kv_heads
    queries = piece.rows * group
    blocks = -(-queries // TILE_ROWS)
    for block in range(blocks):
        first, end = queries * block // blocks, queries * (block + 1) // blocks
        seen = min(tokens, piece.limit + (end - 1) // group * piece.step - token)
        if seen > 0:
            query = kv_head * queries + first
            _score(layout, places, query, end - first, seen)
            for number in range(end - first):
                own = min(tokens, piece.limit + (first + number) // group * piece.step - token)
                _soften(layout, places, query + number, places.scores + number * ROW, own, seen)
            _add_values(layout, places, query, end - first, seen)


@compiled
def _score(layout: Layout, places: Scratch, query: int, rows: int, tokens: int) -> None:
    size = 4 * layout.head_dim
    for panel in range(-(-tokens // PANEL)):
        panel_keys = places.keys + panel * PANEL * size
        target = places.scores + 4 * panel * PANEL
        source = places.queries + query * size
        multiply(source, size, panel_keys, 4 * PANEL, layout.head_dim, target, ROW, rows, 0)


@compiled
def _add_values(layout: Layout, places: Scratch, query: int, rows: int, tokens: int) -> None:
    size = 4 * padded(layout.head_dim)
    for panel in range(padded(layout.head_dim) // PANEL):
        panel_values = places.values + panel * TILE * 4 * PANEL
        target = places.outputs + query * size + 4 * panel * PANEL
        multiply(places.scores, ROW, panel_values, 4 * PANEL, tokens, target, size, rows, 1)


@compiled
def _soften(layout: Layout, places: Scratch, query: int, scores: int, own: int, tokens: int) -> None:
    """A row's scores become its weights, zero for those tokens that it does not see: all but its `own` first ones."""
    if own > 0:
        whole = -(-own // LANES) * LANES
        _fill(scores, own, whole, np.float32(HIDDEN))
        before = get(places.maxima + 4 * query)
        highest = splat(before)
        for offset in range(0, 4 * whole, BYTES):
            highest = larger(highest, load(scores + offset))
        maximum = largest(highest)
        if maximum > before:
            put(places.maxima + 4 * query, maximum)
            _shrink(layout, places, query, before - maximum)
        _weights(scores, whole, maximum, places.sums + BYTES * query)
    _fill(scores, max(own, 0), tokens, np.float32(0))


@compiled
def _weights(scores: int, tokens: int, maximum: float, sums: int) -> None:
    highest, added = splat(maximum), load(sums)
    for offset in range(0, 4 * tokens, BYTES):
        weight = exp2(sub(load(scores + offset), highest))
        added = plus(added, weight)
        store(scores + offset, weight)
    store(sums, added)


@compiled
def _shrink(layout: Layout, places: Scratch, query: int, power: float) -> None:
    """What was summed up so far, when a new maximum is found."""
    factor = exp2(splat(power))
    sums = places.sums + BYTES * query
    store(sums, mul(load(sums), factor))
    size = 4 * padded(layout.head_dim)
    outputs = places.outputs + query * size
    for offset in range(0, size, BYTES):
        store(outputs + offset, mul(load(outputs + offset), factor))


@compiled
def _fill(row: int, start: int, end: int, value: float) -> None:
    for column in range(start, end):
        put(row + 4 * column, value)


@compiled
def _finish(layout: Layout, piece: Piece, places: Scratch, target: int, stride: int) -> None:
    """Outputs divided by their sums, to where the rows' results go."""
    size, group = 4 * layout.head_dim, layout.heads // layout.kv_heads
    for query in range(piece.kv_heads * piece.rows * group):
        kv_head, number = query // (piece.rows * group), query % (piece.rows * group)
        head = (piece.kv_head + kv_head) * group + number % group
        place = target + number // group * stride + head * size
        added = total(load(places.sums + BYTES * query))
        factor = splat(np.float32(1) / added if added > 0 else np.float32(0))
        source = places.outputs + 4 * query * padded(layout.head_dim)
        for offset in range(0, size, BYTES):
            store(place + offset, mul(load(source + offset), factor))


@compiled
def _weigh(layout: Layout, piece: Piece, places: Scratch) -> None:
    """How much the piece's results count beside those of other pieces."""
    group = layout.heads // layout.kv_heads
    for query in range(piece.kv_heads * piece.rows * group):
        kv_head, number = query // (piece.rows * group), query % (piece.rows * group)
        head = (piece.kv_head + kv_head) * group + number % group
        place = layout.weights + 4 * ((piece.partial + number // group) * layout.heads + head)
        added = total(load(places.sums + BYTES * query))
        log = np.float32(math.log2(added)) if added > 0 else np.float32(LOWEST)
        put(place, get(places.maxima + 4 * query) + log)
