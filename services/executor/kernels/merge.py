"""Partial results of attention made one: each counts by the sum of powers that it was divided by.

The order is the plan's, so the result does not depend on which thread computed what when. Sums are kept as their
logarithms to base 2. (Milakov, Gimelshein: Online normalizer calculation for softmax, 2018)
"""

from __future__ import annotations

import numpy as np

from services.executor.kernels.piece import LONG, Layout, read_layout
from services.executor.kernels.vector import BYTES, compiled, exp2, fma, get, get_long, largest, load, mul, splat, store

LOWEST = -3e38
MERGED_ROWS = 16  # that a thread takes at a time


@compiled
def merge(plan: int, first: int, end: int, output: int, output_stride: int) -> None:
    """The rows [first, end), but for those of which a piece wrote the whole result.

    Args:
        plan: the address of a Layout.
        output: address of (rows, heads, head_dim) float32.
        output_stride: bytes from row to row.
    """
    layout = read_layout(plan)
    for row in range(first, end):
        begin, stop = get_long(layout.row_ends + row * LONG), get_long(layout.row_ends + (row + 1) * LONG)
        if begin < stop:
            for head in range(layout.heads):
                place = output + row * output_stride + 4 * head * layout.head_dim
                _merge_head(layout, begin, stop, head, place)


@compiled
def _merge_head(layout: Layout, begin: int, stop: int, head: int, place: int) -> None:
    highest = np.float32(LOWEST)
    for number in range(begin, stop):
        highest = max(highest, _weight(layout, number, head))
    added = np.float32(0)
    for offset in range(0, 4 * layout.head_dim, BYTES):
        store(place + offset, splat(np.float32(0)))
    for number in range(begin, stop):
        factor = exp2(splat(_weight(layout, number, head) - highest))
        added += largest(factor)
        source = layout.partials + 4 * (_index(layout, number, head) * layout.head_dim)
        for offset in range(0, 4 * layout.head_dim, BYTES):
            store(place + offset, fma(load(source + offset), factor, load(place + offset)))
    whole = splat(np.float32(1) / added)
    for offset in range(0, 4 * layout.head_dim, BYTES):
        store(place + offset, mul(load(place + offset), whole))


@compiled
def _weight(layout: Layout, number: int, head: int) -> float:
    return get(layout.weights + 4 * _index(layout, number, head))


@compiled
def _index(layout: Layout, number: int, head: int) -> int:
    return get_long(layout.row_partials + number * LONG) * layout.heads + head
