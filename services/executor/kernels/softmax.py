"""The running softmax: scores become weights, relative to about the largest so far, and earlier sums follow suit.

Knows one row of scores at a time. Does not know whose they are. Scores are in units of log 2, weights powers of two.
(Milakov, Gimelshein: Online normalizer calculation for softmax, 2018)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from services.executor.kernels.vector import (
    BYTES,
    LANES,
    compiled,
    exceeds,
    exp2,
    get,
    larger,
    largest,
    load,
    mul,
    put,
    splat,
    store,
    sub,
)
from services.executor.kernels.vector import add as plus

LOWEST = -1e30  # where the running maximum starts
HIDDEN = -2e30  # the score of a token that is not seen
SLACK = 8  # so far a score may be above the maximum that is kept: weights up to 256 lose nothing, and few sums shrink


class Running(NamedTuple):
    """Addresses: what there is of one query so far."""

    maximum: int
    sums: int  # LANES of them, to be added up
    outputs: int
    output_bytes: int


@compiled
def soften(scores: int, own: int, tokens: int, running: Running) -> None:
    """A row's scores become its weights: zero for those tokens that it does not see, all but its `own` first ones.

    There is room for whole vectors.
    """
    if own > 0:
        whole = -(-own // LANES) * LANES
        _fill(scores, own, whole, np.float32(HIDDEN))
        before, highest = get(running.maximum), _highest(scores, whole)
        maximum = before
        if exceeds(highest, before + np.float32(SLACK)):
            maximum = largest(highest)
            put(running.maximum, maximum)
            _shrink(running, before - maximum)
        _weigh(scores, whole, maximum, running.sums)
    _fill(scores, max(own, 0), tokens, np.float32(0))


@compiled
def _highest(scores: int, tokens: int) -> Any:
    """The largest score of each lane."""
    highest = load(scores)
    for offset in range(BYTES, 4 * tokens, BYTES):
        highest = larger(highest, load(scores + offset))
    return highest


@compiled
def _weigh(scores: int, tokens: int, maximum: float, sums: int) -> None:
    highest, added = splat(maximum), load(sums)
    for offset in range(0, 4 * tokens, BYTES):
        weight = exp2(sub(load(scores + offset), highest))
        added = plus(added, weight)
        store(scores + offset, weight)
    store(sums, added)


@compiled
def _shrink(running: Running, power: float) -> None:
    """What was summed up so far, when there is a new maximum."""
    factor = exp2(splat(power))
    store(running.sums, mul(load(running.sums), factor))
    for offset in range(0, running.output_bytes, BYTES):
        store(running.outputs + offset, mul(load(running.outputs + offset), factor))


@compiled
def _fill(row: int, start: int, end: int, value: float) -> None:
    for column in range(start, end):
        put(row + 4 * column, value)
