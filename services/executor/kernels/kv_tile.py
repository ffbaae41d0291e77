"""Keys and values of a tile of tokens, from the pool into scratch memory, in the order in which they are multiplied.

Knows slots and the pool's element types. Knows nothing of attention.
"""

from __future__ import annotations

from typing import NamedTuple

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
    prefetch,
    put_long,
    store,
)

TILE = 64  # tokens
LINE = 64  # bytes


class Pool(NamedTuple):
    """One layer's keys and values, from the first KV head that is wanted: addresses of (slots, kv_heads, head_dim)."""

    keys: int
    values: int
    kind: int  # a PackedKind: float32, float16 or bfloat16
    head_bytes: int
    token_bytes: int  # of the KV heads that are wanted


class Tile(NamedTuple):
    token: int  # the number of the first
    tokens: int
    run: int  # that of the last
    slots: int  # address of int64 (TILE): where each token is, in bytes from the pool's start


@compiled
def padded(head_dim: int) -> int:
    """In whole panels."""
    return -(-head_dim // PANEL) * PANEL


@compiled
def find_tile(layout: Layout, kind: int, token: int, end: int, run: int, slots: int) -> Tile:
    """The tile that begins with a token, up to another one at most; `run` is where to look for the token.

    What is left of the last block of LANES repeats the last token.
    """
    size = layout.kv_heads * layout.head_dim * (4 if kind == 0 else 2)
    tokens, place = min(TILE, end - token), 0
    for number in range(tokens):
        while token + number >= get_long(layout.run_ends + run * LONG):
            run += 1
        place = (token + number + get_long(layout.run_shifts + run * LONG)) * size
        put_long(slots + number * LONG, place)
    for number in range(tokens, -(-tokens // LANES) * LANES):
        put_long(slots + number * LONG, place)
    return Tile(token, tokens, run, slots)


@compiled
def fetch(pool: Pool, tile: Tile, share: int, shares: int) -> None:
    """Ask for a share of a tile that is read later, beside other work."""
    for number in range(tile.tokens * share // shares, tile.tokens * (share + 1) // shares):
        place = get_long(tile.slots + number * LONG)
        for offset in range(0, pool.token_bytes, LINE):
            prefetch(pool.keys + place + offset)
            prefetch(pool.values + place + offset)


@compiled
def touch(pool: Pool, tile: Tile, share: int, shares: int, target: int) -> None:
    """Load from a share of a tile that is read later, line by line: that starts the processor's own prefetching.

    `target` is where something of it is stored, so that it is not left out as useless.
    """
    seen = 0
    for base in (pool.keys, pool.values):
        for number in range(tile.tokens * share // shares, tile.tokens * (share + 1) // shares):
            place = base + get_long(tile.slots + number * LONG)
            for offset in range(0, pool.token_bytes, LINE):
                seen ^= get_long(place + offset)
    put_long(target, seen)


@compiled
def read_keys(pool: Pool, kv_head: int, tile: Tile, head_dim: int, target: int) -> None:
    """To (panels, head_dim, PANEL)."""
    keys = pool.keys + kv_head * pool.head_bytes
    for token in range(0, tile.tokens, LANES):
        table = tile.slots + token * LONG
        column = target + 4 * (token // PANEL * PANEL * head_dim + token % PANEL)
        for dim in range(0, head_dim, LANES):
            place = column + 4 * dim * PANEL
            if pool.kind == 0:
                transpose(table, keys + 4 * dim, place, 4 * PANEL)
            elif pool.kind == 1:
                transpose_half(table, keys + 2 * dim, place, 4 * PANEL)
            else:
                transpose_bfloat(table, keys + 2 * dim, place, 4 * PANEL)


@compiled
def read_values(pool: Pool, kv_head: int, tile: Tile, head_dim: int, target: int) -> None:
    """To (panels of the head, TILE, PANEL)."""
    values = pool.values + kv_head * pool.head_bytes
    for token in range(tile.tokens):
        source = values + get_long(tile.slots + token * LONG)
        for dim in range(0, head_dim, LANES):
            place = target + 4 * (dim // PANEL * TILE * PANEL + token * PANEL + dim % PANEL)
            if pool.kind == 0:
                store(place, load(source + 4 * dim))
            elif pool.kind == 1:
                store(place, load_half(source + 2 * dim))
            else:
                store(place, load_bfloat(source + 2 * dim))
