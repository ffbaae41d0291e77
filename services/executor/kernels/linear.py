"""Linear layers over packed weights: a panel of output columns at a time, whatever form the weights are stored in.

Knows the packed forms. Does not know which layer it computes.

One row is bound by the bytes of the weights and takes the numbers as it reads them. For more rows a panel is unpacked
once into scratch memory, which stays in the cache while all rows are multiplied with it.
"""

from __future__ import annotations

from services.executor.kernels.tile import PANEL, TILE_ROWS, multiply
from services.executor.kernels.vector import (
    BYTES,
    add,
    compiled,
    fma,
    get_long,
    high_bits,
    load,
    load_bfloat,
    load_bytes,
    load_half,
    load_int8,
    low_bits,
    splat,
    splat_at,
    store,
    total,
)

FLOAT32, FLOAT16, BFLOAT16, Q8, Q4 = range(5)
GROUP = 32  # weights along the inputs that share a scale
FEW_ROWS = 16  # up to so many, it is unpacked ...
BLOCK = 192  # ... so many inputs at a time, which stay in the first-level cache

# A table entry describes a packed matrix, in int64 words. TAKES_SHORTS: whether its inputs may become 16-bit integers.
KIND, DATA, PANEL_BYTES, INPUTS, BIAS, PANELS, TAKES_SHORTS = range(0, 56, 8)
ENTRY_BYTES = 56


@compiled
def linear(
    panel: int, entry: int, x: int, x_stride: int, rows: int, y: int, y_stride: int, adds: int, scratch: int
) -> None:
    """One panel of y = x W^T + bias, for all rows.

    Args:
        entry: address of the matrix's table entry.
        x, y: addresses of float32 rows; strides in bytes.
        adds: 1 to add to what y holds.
        scratch: address of inputs * PANEL float32 that only this thread uses.
    """
    kind, inputs, bias = get_long(entry + KIND), get_long(entry + INPUTS), get_long(entry + BIAS)
    data = get_long(entry + DATA) + panel * get_long(entry + PANEL_BYTES)
    y += panel * PANEL * 4
    if rows == 1 and kind == Q4:
        _one_row_q4(data, x, inputs, y, adds)
    elif rows == 1 and kind == Q8:
        _one_row_q8(data, x, inputs, y, adds)
    elif kind == FLOAT32:
        _tiles(x, x_stride, data, inputs, y, y_stride, rows, adds)
    else:
        block = BLOCK if rows <= FEW_ROWS else inputs
        block_bytes = get_long(entry + PANEL_BYTES) * block // inputs
        for start in range(0, inputs, block):
            count = min(block, inputs - start)
            unpack(kind, data, count, scratch)
            _tiles(x + start * 4, x_stride, scratch, count, y, y_stride, rows, 1 if start > 0 else adds)
            data += block_bytes
    if bias != 0:
        add_bias(bias + panel * PANEL * 4, y, y_stride, rows)


@compiled
def _tiles(x: int, x_stride: int, panel: int, inputs: int, y: int, y_stride: int, rows: int, adds: int) -> None:
    """Tiles of nearly the same height: a low one at the end would leave registers unused."""
    tiles = (rows + TILE_ROWS - 1) // TILE_ROWS
    done = 0
    for tile in range(tiles):
        count = (rows - done + tiles - tile - 1) // (tiles - tile)
        multiply(x + done * x_stride, x_stride, panel, PANEL * 4, inputs, y + done * y_stride, y_stride, count, adds)
        done += count


@compiled
def add_bias(bias: int, y: int, y_stride: int, rows: int) -> None:
    left, right = load(bias), load(bias + BYTES)
    for row in range(rows):
        at = y + row * y_stride
        store(at, add(load(at), left))
        store(at + BYTES, add(load(at + BYTES), right))


# --- the stored forms ------------------------------------------------------------------------------------------------


@compiled
def unpack(kind: int, data: int, inputs: int, panel: int) -> None:
    """A packed panel as float32, [inputs][PANEL]."""
    if kind == Q4:
        for group in range(inputs // GROUP):
            _unpack_q4(data + group * (PANEL * 20), panel + group * (GROUP * PANEL * 4))
    elif kind == Q8:
        for group in range(inputs // GROUP):
            _unpack_q8(data + group * (PANEL * 34), panel + group * (GROUP * PANEL * 4))
    elif kind == FLOAT16:
        for at in range(2 * inputs):
            store(panel + at * BYTES, load_half(data + at * (BYTES // 2)))
    else:
        for at in range(2 * inputs):
            store(panel + at * BYTES, load_bfloat(data + at * (BYTES // 2)))


@compiled
def _unpack_q4(group: int, panel: int) -> None:
    """Scales, minima, then for each k of 16 the numbers of k (low bits) and of k + 16 (high bits)."""
    for half in range(2):
        scale, least = load_half(group + half * (BYTES // 2)), load_half(group + PANEL * 2 + half * (BYTES // 2))
        numbers, column = group + PANEL * 4 + half * (BYTES // 4), panel + half * BYTES
        for k in range(16):
            pairs = load_bytes(numbers + k * PANEL)
            store(column + k * (PANEL * 4), fma(low_bits(pairs), scale, least))
            store(column + (k + 16) * (PANEL * 4), fma(high_bits(pairs), scale, least))


@compiled
def _unpack_q8(group: int, panel: int) -> None:
    """Scales, then the numbers of each k."""
    zero = splat(0.0)
    for half in range(2):
        scale, column = load_half(group + half * (BYTES // 2)), panel + half * BYTES
        numbers = group + PANEL * 2 + half * (BYTES // 4)
        for k in range(GROUP):
            store(column + k * (PANEL * 4), fma(load_int8(numbers + k * PANEL), scale, zero))


@compiled
def _one_row_q4(data: int, x: int, inputs: int, y: int, adds: int) -> None:
    """The sum over a group is of the bare numbers; the scale comes once, and the minimum times the sum of x."""
    left, right = splat(0.0), splat(0.0)
    if adds != 0:
        left, right = load(y), load(y + BYTES)
    for _ in range(inputs // GROUP):
        low_left, low_right, high_left, high_right = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        numbers = data + PANEL * 4
        for k in range(16):
            low_x, high_x = splat_at(x + k * 4), splat_at(x + k * 4 + 64)
            pairs = load_bytes(numbers + k * PANEL)
            low_left = fma(low_bits(pairs), low_x, low_left)
            high_left = fma(high_bits(pairs), high_x, high_left)
            pairs = load_bytes(numbers + k * PANEL + BYTES // 4)
            low_right = fma(low_bits(pairs), low_x, low_right)
            high_right = fma(high_bits(pairs), high_x, high_right)
        sum_x = splat(_sum_of_group(x))
        left = fma(add(low_left, high_left), load_half(data), left)
        right = fma(add(low_right, high_right), load_half(data + BYTES // 2), right)
        left = fma(sum_x, load_half(data + PANEL * 2), left)
        right = fma(sum_x, load_half(data + PANEL * 2 + BYTES // 2), right)
        data += PANEL * 20
        x += GROUP * 4
    store(y, left)
    store(y + BYTES, right)


@compiled
def _one_row_q8(data: int, x: int, inputs: int, y: int, adds: int) -> None:
    left, right = splat(0.0), splat(0.0)
    if adds != 0:
        left, right = load(y), load(y + BYTES)
    for _ in range(inputs // GROUP):
        even_left, even_right, odd_left, odd_right = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        numbers = data + PANEL * 2
        for k in range(0, GROUP, 2):
            even_x, odd_x = splat_at(x + k * 4), splat_at(x + k * 4 + 4)
            even_left = fma(load_int8(numbers), even_x, even_left)
            even_right = fma(load_int8(numbers + BYTES // 4), even_x, even_right)
            odd_left = fma(load_int8(numbers + PANEL), odd_x, odd_left)
            odd_right = fma(load_int8(numbers + PANEL + BYTES // 4), odd_x, odd_right)
            numbers += 2 * PANEL
        left = fma(add(even_left, odd_left), load_half(data), left)
        right = fma(add(even_right, odd_right), load_half(data + BYTES // 2), right)
        data += PANEL * 34
        x += GROUP * 4
    store(y, left)
    store(y + BYTES, right)


@compiled
def _sum_of_group(x: int) -> float:
    sum_x = load(x)
    for at in range(BYTES, GROUP * 4, BYTES):
        sum_x = add(sum_x, load(x + at))
    return total(sum_x)
