"""Linear layers in 16-bit integers: twice the multiplications of float32 in the same time, where processors have them.

Knows block fixed point: 32 neighbouring numbers of a row share a scale, their largest divided by 32767, and each is
rounded to a whole multiple of it. The weights of Q4 and Q8 are small integers anyway and stay exact; sums within a
group are exact too.

A group of a row takes less than its floats did, and is written in their place:

    [16] pairs of int16, k and k + 16        float32 scale        float32 scale * sum of the int16

A group of a panel of weights is unpacked into:

    [16][PANEL] pairs        [PANEL] float32 scales        [PANEL] float32 minima
"""

from __future__ import annotations

from services.executor.kernels.linear import (
    BIAS,
    BLOCK,
    DATA,
    FEW_ROWS,
    GROUP,
    INPUTS,
    KIND,
    PANEL_BYTES,
    Q4,
    TAKES_SHORTS,
    add_bias,
)
from services.executor.kernels.pairs import int8_pairs, nibble_pairs, paired, rounded, store_pairs
from services.executor.kernels.short_tile import (
    GROUP_BYTES,
    MINIMA,
    ROW_GROUP_BYTES,
    SCALES,
    SHORT_ROWS,
    multiply_pairs,
)
from services.executor.kernels.tile import PANEL
from services.executor.kernels.vector import (
    BYTES,
    add,
    compiled,
    get_long,
    larger,
    largest,
    load,
    load_half,
    mul,
    put,
    splat,
    store,
    sub,
    total,
)

PAIR_BYTES = 2 * GROUP
LARGEST = 32767.0
SMALLEST = 1e-30  # what is all below it counts as zero: the quotient would leave float32's range
LEAST_ROWS = 2  # fewer are faster as they are


@compiled
def shorten(row: int, length: int) -> None:
    """A row of float32 becomes block fixed point, in place."""
    zero = splat(0.0)
    for group in range(row, row + 4 * length, ROW_GROUP_BYTES):
        low, high = load(group), load(group + BYTES)
        peak = largest(larger(larger(low, sub(zero, low)), larger(high, sub(zero, high))))
        factor = splat(LARGEST / peak if peak > SMALLEST else 0.0)
        low, high = rounded(mul(low, factor)), rounded(mul(high, factor))
        store_pairs(group, paired(low, high))
        scale = peak / LARGEST if peak > SMALLEST else 0.0
        put(group + PAIR_BYTES, scale)
        put(group + PAIR_BYTES + 4, scale * total(add(low, high)))


@compiled
def takes_shorts(entry: int, rows: int) -> int:
    """Whether so many inputs of a matrix are to be shortened before it is multiplied with them."""
    return 1 if get_long(entry + TAKES_SHORTS) != 0 and rows >= LEAST_ROWS else 0


@compiled
def linear_of_shorts(
    panel: int, entry: int, x: int, x_stride: int, rows: int, y: int, y_stride: int, adds: int, scratch: int
) -> None:
    """What `linear` computes, of rows in block fixed point and a matrix of kind Q4 or Q8."""
    kind, inputs, bias = get_long(entry + KIND), get_long(entry + INPUTS), get_long(entry + BIAS)
    data = get_long(entry + DATA) + panel * get_long(entry + PANEL_BYTES)
    y += panel * PANEL * 4
    block = BLOCK if rows <= FEW_ROWS else inputs
    for start in range(0, inputs, block):
        groups = min(block, inputs - start) // GROUP
        data = unpack_pairs(kind, data, groups, scratch)
        source = x + start // GROUP * ROW_GROUP_BYTES
        _tiles(source, x_stride, scratch, groups, y, y_stride, rows, 1 if start > 0 else adds)
    if bias != 0:
        add_bias(bias + panel * PANEL * 4, y, y_stride, rows)


@compiled
def _tiles(x: int, x_stride: int, panel: int, groups: int, y: int, y_stride: int, rows: int, adds: int) -> None:
    """Tiles of nearly the same height."""
    tiles = (rows + SHORT_ROWS - 1) // SHORT_ROWS
    done = 0
    for tile in range(tiles):
        count = (rows - done + tiles - tile - 1) // (tiles - tile)
        multiply_pairs(x + done * x_stride, x_stride, panel, groups, y + done * y_stride, y_stride, count, adds)
        done += count


@compiled
def unpack_pairs(kind: int, data: int, groups: int, panel: int) -> int:
    """Some groups of a packed panel; the address of those that follow."""
    for _ in range(groups):
        _unpack_scales(data, panel + SCALES)
        data += PANEL * 2
        if kind == Q4:
            _unpack_scales(data, panel + MINIMA)
            _unpack_q4(data + PANEL * 2, panel)
            data += PANEL * (2 + GROUP // 2)
        else:
            store(panel + MINIMA, splat(0.0))
            store(panel + MINIMA + BYTES, splat(0.0))
            _unpack_q8(data, panel)
            data += PANEL * GROUP
        panel += GROUP_BYTES
    return data


@compiled
def _unpack_scales(halves: int, floats: int) -> None:
    store(floats, load_half(halves))
    store(floats + BYTES, load_half(halves + BYTES // 2))


@compiled
def _unpack_q4(numbers: int, panel: int) -> None:
    for part in range(2 * GROUP // 2):
        store_pairs(panel + part * BYTES, nibble_pairs(numbers + part * (BYTES // 4)))


@compiled
def _unpack_q8(numbers: int, panel: int) -> None:
    for part in range(2 * GROUP // 2):
        low = numbers + part * (BYTES // 4)
        store_pairs(panel + part * BYTES, int8_pairs(low, low + GROUP // 2 * PANEL))
