"""What is done to each row of a batch between the linear layers and attention: norms, rotary embedding, gates.

Knows addresses of float32 rows. All lengths are multiples of LANES.
"""

from __future__ import annotations

import math

from services.executor.kernels.linear import BFLOAT16, FLOAT16
from services.executor.kernels.vector import (
    BYTES,
    LANES,
    add,
    compiled,
    div,
    exp,
    fma,
    get,
    load,
    mul,
    put,
    splat,
    store,
    store_bfloat,
    store_half,
    sub,
    total,
)


@compiled
def norm(source: int, weight: int, target: int, length: int, epsilon: float) -> None:
    """Root mean square normalisation. (https://arxiv.org/abs/1910.07467)"""
    squares = splat(0.0)
    for at in range(0, length * 4, BYTES):
        part = load(source + at)
        squares = fma(part, part, squares)
    scale = splat(1.0 / math.sqrt(total(squares) / length + epsilon))
    for at in range(0, length * 4, BYTES):
        store(target + at, mul(mul(load(source + at), scale), load(weight + at)))


@compiled
def rotate(head: int, cosines: int, sines: int, half: int) -> None:
    """Rotary embedding in place: the first `half` numbers are real parts, the others imaginary ones."""
    whole = half // LANES * LANES
    for at in range(0, whole * 4, BYTES):
        real, imaginary, cosine, sine = (
            load(head + at),
            load(head + half * 4 + at),
            load(cosines + at),
            load(sines + at),
        )
        store(head + at, sub(mul(real, cosine), mul(imaginary, sine)))
        store(head + half * 4 + at, fma(imaginary, cosine, mul(real, sine)))
    for at in range(whole * 4, half * 4, 4):
        x, y, c, s = get(head + at), get(head + half * 4 + at), get(cosines + at), get(sines + at)
        put(head + at, x * c - y * s)
        put(head + half * 4 + at, y * c + x * s)


@compiled
def keep(source: int, target: int, length: int, kind: int) -> None:
    """Write a row into the KV pool, in the pool's own type."""
    if kind == FLOAT16:
        for at in range(0, length * 4, BYTES):
            store_half(target + at // 2, load(source + at))
    elif kind == BFLOAT16:
        for at in range(0, length * 4, BYTES):
            store_bfloat(target + at // 2, load(source + at))
    else:
        for at in range(0, length * 4, BYTES):
            store(target + at, load(source + at))


@compiled
def gate(gates: int, ups: int, length: int) -> None:
    """SiLU of the gates times the ups, in the gates' place. (https://arxiv.org/abs/2002.05202)"""
    one, zero = splat(1.0), splat(0.0)
    for at in range(0, length * 4, BYTES):
        x = load(gates + at)
        store(gates + at, mul(div(x, add(one, exp(sub(zero, x)))), load(ups + at)))
