"""Keys and values of a tile of tokens, from the pool into scratch memory, in the order in which they are multiplied.

Knows slots and the pool's element types. Knows nothing of attention.
"""

from __future__ import annotations

from services.executor.kernels.piece import LONG, Layout
from services.executor.kernels.tile import PANEL
from services.executor.kernels.transpose import transpose, transpose_bfloat, transpose_half
from services.executor.kernels.vector import (
    LANES,
    compiled,
    get_long,
    load,
    load_bfloat,
    load_half,
    put_long,
    store,
)

TILE = 64  # tokens


@compiled
def padded(head_dim: int) -> int:
    """In whole panels."""
    return -(-head_dim // PANEL) * PANEL


@compiled
def find_slots(layout: Layout, kind: int, token: int, tokens: int, run: int, slots: int) -> int:
    """Where the tokens [token, token + tokens) are, in bytes from the pool's start; the run of the last one.

    What is left of the last block of LANES repeats the last token.
    """
    size = layout.kv_heads * layout.head_dim * (4 if kind == 0 else 2)
    place = 0
    for number in range(tokens):
        while token + number >= get_long(layout.run_ends + run * LONG):
            run += 1
        place = (token + number + get_long(layout.run_shifts + run * LONG)) * size
        put_long(slots + number * LONG, place)
    for number in range(tokens, -(-tokens // LANES) * LANES):
        put_long(slots + number * LONG, place)
    return run


@compiled
def read_keys(keys: int, kind: int, slots: int, tokens: int, head_dim: int, target: int) -> None:
    """To (panels, head_dim, PANEL)."""
    for token in range(0, tokens, LANES):
        table = slots + token * LONG
        column = target + 4 * (token // PANEL * PANEL * head_dim + token % PANEL)
        for dim in range(0, head_dim, LANES):
            place = column + 4 * dim * PANEL
            if kind == 0:
                transpose(table, keys + 4 * dim, place, 4 * PANEL)
            elif kind == 1:
                transpose_half(table, keys + 2 * dim, place, 4 * PANEL)
            else:
                transpose_bfloat(table, keys + 2 * dim, place, 4 * PANEL)


@compiled
def read_values(values: int, kind: int, slots: int, tokens: int, head_dim: int, target: int) -> None:
    """To (panels of the head, TILE, PANEL)."""
    for token in range(tokens):
        source = values + get_long(slots + token * LONG)
        for dim in range(0, head_dim, LANES):
            place = target + 4 * (dim // PANEL * TILE * PANEL + token * PANEL + dim % PANEL)
            if kind == 0:
                store(place, load(source + 4 * dim))
            elif kind == 1:
                store(place, load_half(source + 2 * dim))
            else:
                store(place, load_bfloat(source + 2 * dim))
