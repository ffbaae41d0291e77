"""Few queries and a tile of tokens: keys and values are read where they are, all KV heads of a token together.

Knows tiles and the running softmax. Does not know where the pieces come from.

Memory sets the pace here: while the keys are read, the values of the same tile are asked for, and while the values
are read, the next tile's keys.
"""

from __future__ import annotations

from services.executor.kernels.kv_tile import Pool, Tile, padded
from services.executor.kernels.piece import LONG, Layout, Piece
from services.executor.kernels.scratch import ROW, Scratch, running
from services.executor.kernels.softmax import soften
from services.executor.kernels.stream import add_rows, score_rows
from services.executor.kernels.vector import LANES, compiled


@compiled
def attend_to_rows(layout: Layout, piece: Piece, places: Scratch, pool: Pool, tile: Tile, following: Tile) -> None:
    """All queries of a piece; FEW of each KV head at most."""
    group = layout.heads // layout.kv_heads
    queries = piece.rows * group
    seen = min(tile.tokens, piece.limit + (piece.rows - 1) * piece.step - tile.token)
    for token in range(0, seen, LANES):
        for kv_head in range(piece.kv_heads):
            _score(layout, places, pool, queries, kv_head, tile, token)
    for query in range(piece.kv_heads * queries):
        own = min(tile.tokens, piece.limit + query % queries // group * piece.step - tile.token)
        soften(places.scores + query * ROW, own, seen, running(layout, places, query))
    for token in range(0, seen, LANES):
        for kv_head in range(piece.kv_heads):
            _add_values(layout, places, pool, queries, kv_head, tile, following, token, min(LANES, seen - token))


@compiled
def _score(layout: Layout, places: Scratch, pool: Pool, queries: int, kv_head: int, tile: Tile, token: int) -> None:
    first, offset, size = kv_head * queries, kv_head * pool.head_bytes, 4 * layout.head_dim
    table = tile.slots + LONG * token
    score_rows(
        pool.kind,
        queries,
        LANES,
        layout.head_dim,
        table,
        pool.keys + offset,
        table,
        pool.values + offset,
        places.queries + first * size,
        size,
        places.scores + first * ROW + 4 * token,
        ROW,
    )


@compiled
def _add_values(
    layout: Layout,
    places: Scratch,
    pool: Pool,
    queries: int,
    kv_head: int,
    tile: Tile,
    following: Tile,
    token: int,
    tokens: int,
) -> None:
    first, offset, size = kv_head * queries, kv_head * pool.head_bytes, 4 * padded(layout.head_dim)
    add_rows(
        pool.kind,
        queries,
        tokens,
        layout.head_dim,
        tile.slots + LONG * token,
        pool.values + offset,
        (following.slots if token < following.tokens else tile.slots) + LONG * token,
        pool.keys + offset,
        places.scores + first * ROW + 4 * token,
        ROW,
        places.outputs + first * size,
        size,
    )
