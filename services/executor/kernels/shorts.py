"""Linear layers in 16-bit integers: twice the multiplications of float32 in the same time, where processors have them.

Knows block fixed point: 32 neighbouring numbers of a row share a scale, their largest divided by 32767, and each is
rounded to a whole multiple of it. The weights of Q4 and Q8 are small integers anyway and stay exact; sums within a
group are exact too. What comes out for a row does not depend on the other rows.

A group of a row takes less than its floats did, and is written in their place:

    [16] pairs of int16, k and k + 16        float32 scale        float32 scale * sum of the int16
"""

from __future__ import annotations

from services.executor.kernels.linear import (
    BIAS,
    DATA,
    GROUP,
    INPUTS,
    KIND,
    PANEL_BYTES,
    add_bias,
)
from services.executor.kernels.pairs import paired, rounded, store_pairs
from services.executor.kernels.short_tile import (
    ROW_GROUP_BYTES,
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
    mul,
    put,
    splat,
    sub,
    total,
)

PAIR_BYTES = 2 * GROUP
LARGEST = 32767.0
SMALLEST = 1e-30  # what is all below it counts as zero: the quotient would leave float32's range


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
def linear_of_shorts(
    panel: int, entry: int, x: int, x_stride: int, rows: int, y: int, y_stride: int, adds: int
) -> None:
    """What `linear` computes, of rows in block fixed point and a matrix of kind Q4 or Q8."""
    kind, inputs, bias = get_long(entry + KIND), get_long(entry + INPUTS), get_long(entry + BIAS)
    data = get_long(entry + DATA) + panel * get_long(entry + PANEL_BYTES)
    y += panel * PANEL * 4
    _tiles(kind, x, x_stride, data, inputs // GROUP, y, y_stride, rows, adds)
    if bias != 0:
        add_bias(bias + panel * PANEL * 4, y, y_stride, rows)


@compiled
def _tiles(
    kind: int, x: int, x_stride: int, panel: int, groups: int, y: int, y_stride: int, rows: int, adds: int
) -> None:
    """Tiles of nearly the same height."""
    tiles = (rows + SHORT_ROWS - 1) // SHORT_ROWS
    done = 0
    for tile in range(tiles):
        count = (rows - done + tiles - tile - 1) // (tiles - tile)
        multiply_pairs(kind, x + done * x_stride, x_stride, panel, groups, y + done * y_stride, y_stride, count, adds)
        done += count
