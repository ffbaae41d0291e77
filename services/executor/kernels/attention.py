"""Attention of one piece: the exact softmax of some queries over some tokens, tile by tile, read once.

Knows tiles and the running softmax. Does not know where the pieces come from, or how their results are put together.

The queries of all heads that share a KV head stand one below the other. For each tile of tokens their keys are
transposed and their values copied into scratch memory (converted, if the pool holds halves); scores and outputs are
products of matrices. (Milakov, Gimelshein: Online normalizer calculation for softmax, 2018; Dao et al.:
FlashAttention, 2022.) Scores are in units of log 2, so that all powers are powers of two.
"""

from __future__ import annotations

import math

import numpy as np

from services.executor.kernels.few import attend_to_rows
from services.executor.kernels.kv_tile import TILE, Pool, Tile, fetch, find_tile, padded, read_keys, read_values, touch
from services.executor.kernels.piece import Layout, Piece, read_layout, read_piece
from services.executor.kernels.scratch import MAX_QUERIES, ROW, Scratch, divide, running, scratch_bytes
from services.executor.kernels.softmax import LOWEST, soften
from services.executor.kernels.stream import FEW
from services.executor.kernels.team import meet, take
from services.executor.kernels.tile import PANEL, TILE_ROWS, multiply
from services.executor.kernels.vector import (
    BYTES,
    compiled,
    get,
    load,
    mul,
    put,
    splat,
    store,
    total,
)

__all__ = ["MAX_QUERIES", "attend_all", "scratch_bytes"]

LOG2_E = math.log2(math.e)


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
    places = divide(scratch, layout.head_dim)
    _begin(layout, piece, queries, query_stride, places)
    pool = _pool(layout, piece, keys, values, kind)
    tile = find_tile(layout, kind, piece.token, piece.end, piece.run, places.slots)
    slots = places.more_slots
    few = piece.rows * (layout.heads // layout.kv_heads) <= FEW
    while tile.tokens > 0:
        following = find_tile(layout, kind, tile.token + tile.tokens, piece.end, tile.run, slots)
        if few:
            attend_to_rows(layout, piece, places, pool, tile, following)
        else:
            for kv_head in range(piece.kv_heads):
                read_keys(pool, kv_head, tile, layout.head_dim, places.keys)
                read_values(pool, kv_head, tile, layout.head_dim, places.values)
                _attend_to_tile(layout, piece, places, pool, kv_head, tile, following)
        tile, slots = following, tile.slots
    if piece.direct:
        _finish(layout, piece, places, output + piece.row * output_stride, output_stride)
    else:
        row_bytes = 4 * layout.heads * layout.head_dim
        _finish(layout, piece, places, layout.partials + piece.partial * row_bytes, row_bytes)
        _weigh(layout, piece, places)


@compiled
def attend_all(
    sync: int,
    threads: int,
    plan: int,
    pieces: int,
    queries: int,
    query_stride: int,
    output: int,
    output_stride: int,
    keys: int,
    values: int,
    kind: int,
    scratch: int,
) -> None:
    """All pieces of one layer, shared out among the members of a team."""
    number = take(sync)
    while number < pieces:
        attend(plan, number, queries, query_stride, output, output_stride, keys, values, kind, scratch)
        number = take(sync)
    meet(sync, threads)


@compiled
def _pool(layout: Layout, piece: Piece, keys: int, values: int, kind: int) -> Pool:
    size = layout.head_dim * (4 if kind == 0 else 2)
    return Pool(keys + piece.kv_head * size, values + piece.kv_head * size, kind, size, piece.kv_heads * size)


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
def _attend_to_tile(
    layout: Layout, piece: Piece, places: Scratch, pool: Pool, kv_head: int, tile: Tile, following: Tile
) -> None:
    """All queries of a KV head, in blocks of about the same number of rows. Meanwhile the next tile is on its way.

    Measured: it is best asked for a little at a time, beside the work; with a single block, loads are faster.
    """
    group = layout.heads // layout.kv_heads
    queries = piece.rows * group
    blocks = -(-queries // TILE_ROWS)
    if blocks == 1:
        touch(pool, following, kv_head, piece.kv_heads, places.scores)
    for block in range(blocks):
        first, end = queries * block // blocks, queries * (block + 1) // blocks
        seen = min(tile.tokens, piece.limit + (end - 1) // group * piece.step - tile.token)
        if seen > 0:
            query, share, shares = kv_head * queries + first, kv_head * blocks + block, piece.kv_heads * blocks
            _ask(pool, following, blocks, 2 * share, 2 * shares)
            _score(layout, places, query, end - first, seen)
            _ask(pool, following, blocks, 2 * share + 1, 2 * shares)
            for number in range(end - first):
                own = min(tile.tokens, piece.limit + (first + number) // group * piece.step - tile.token)
                soften(places.scores + number * ROW, own, seen, running(layout, places, query + number))
            _add_values(layout, places, query, end - first, seen)


@compiled
def _ask(pool: Pool, following: Tile, blocks: int, share: int, shares: int) -> None:
    if blocks > 1:
        fetch(pool, following, share, shares)


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
