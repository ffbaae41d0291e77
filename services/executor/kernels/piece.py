"""One piece of a step's attention, as it is planned and as the kernels read it: some rows, some heads, some tokens.

Knows the layout of a plan in memory. Knows neither how work is cut into pieces nor how a piece is computed.
"""

from __future__ import annotations

from typing import NamedTuple

from services.executor.kernels.vector import compiled, get_long

LONG = 8  # bytes


class Layout(NamedTuple):
    """A plan in memory: int64 shapes, and addresses of arrays."""

    heads: int
    kv_heads: int
    head_dim: int
    pieces: int  # int64 (pieces, fields of a Piece)
    run_ends: int  # int64 (runs): the token behind each run; tokens of all segments are numbered through
    run_shifts: int  # int64 (runs): from a token's number to its slot
    partials: int  # float32 (partials, heads, head_dim)
    weights: int  # float32 (partials, heads): log2 of the sum that each partial was divided by
    row_ends: int  # int64 (rows + 1): where each row's partials begin and end in the next array
    row_partials: int  # int64


class Piece(NamedTuple):
    """Rows [row, row + rows), heads that belong to the KV heads [kv_head, kv_head + kv_heads), tokens [token, end)."""

    row: int
    rows: int
    kv_head: int
    kv_heads: int
    token: int
    end: int
    run: int  # that of the first token
    limit: int  # the first row sees the tokens before this one ...
    step: int  # ... and each further row so many more
    direct: int  # whether this is all that its rows attend to
    partial: int  # else, where the first row's partial result goes


@compiled
def read_layout(plan: int) -> Layout:
    return Layout(
        get_long(plan),
        get_long(plan + LONG),
        get_long(plan + 2 * LONG),
        get_long(plan + 3 * LONG),
        get_long(plan + 4 * LONG),
        get_long(plan + 5 * LONG),
        get_long(plan + 6 * LONG),
        get_long(plan + 7 * LONG),
        get_long(plan + 8 * LONG),
        get_long(plan + 9 * LONG),
    )


@compiled
def read_piece(layout: Layout, number: int) -> Piece:
    piece = layout.pieces + number * 11 * LONG
    return Piece(
        get_long(piece),
        get_long(piece + LONG),
        get_long(piece + 2 * LONG),
        get_long(piece + 3 * LONG),
        get_long(piece + 4 * LONG),
        get_long(piece + 5 * LONG),
        get_long(piece + 6 * LONG),
        get_long(piece + 7 * LONG),
        get_long(piece + 8 * LONG),
        get_long(piece + 9 * LONG),
        get_long(piece + 10 * LONG),
    )
