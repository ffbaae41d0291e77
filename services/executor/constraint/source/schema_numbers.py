"""Numbers of a JSON schema, for the engine. Knows nothing of other types.

Every number is written without an exponent and is at most 10^18, so that any JSON parser reads the value that is meant.
Bounds are moved inwards to what a double holds exactly, since the engine reads them as doubles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from services.executor.constraint.source.schema_parts import Context, Emitted, Part, each

LIMIT = 10**18
FINEST = Fraction(1, 10**15)  # a bound nearer to zero is not kept
NEXT = Fraction(1, 10**6)  # to an excluded bound that the engine does not exclude
LARGEST_STEP = 10_000  # of multipleOf: the engine has a state for each remainder
EXACT = 2**53
FORMATS = frozenset({"int32", "int64", "float", "double"})

Bound = tuple[Fraction, bool]  # the second is whether the bound itself is excluded


def number(parts: Sequence[Part], context: Context, *, fractions: bool) -> Emitted:
    """Args:
    fractions: whether numbers that are not integers are allowed.
    """
    low, high = _low(parts, context), _high(parts, context)
    step = _step(parts, context)
    if step is not None or not fractions:
        return _integer(low, high, step or 1, parts, context)
    if low[0] < high[0]:
        low, high = _kept_apart(low, high)
    elif low[0] > high[0] or low[1] or high[1]:
        return context.never("no number is within the bounds", parts[0].path if parts else ())
    return {
        "type": "number",
        "exclusiveMinimum" if low[1] else "minimum": _double(low[0], math.inf),
        "exclusiveMaximum" if high[1] else "maximum": _double(high[0], -math.inf),
    }


def _kept_apart(low: Bound, high: Bound) -> tuple[Bound, Bound]:
    """The engine takes in an excluded whole number if the rest of the range is within one of it: there it is moved."""
    by = min(NEXT, (high[0] - low[0]) / 2)
    if low[1] and low[0] >= 0 and low[0].denominator == 1 and high[0] < low[0] + 1:
        low = (low[0] + by, False)
    if high[1] and high[0] <= 0 and high[0].denominator == 1 and low[0] > high[0] - 1:
        high = (high[0] - by, False)
    return low, high


def writable(value: float) -> bool:
    """Whether the engine writes exactly this number."""
    if isinstance(value, int):
        return abs(value) <= EXACT
    return value == 0 or FINEST <= abs(Fraction(value)) <= EXACT


def _integer(low: Bound, high: Bound, step: int, parts: Sequence[Part], context: Context) -> Emitted:
    first = math.floor(low[0]) + 1 if low[1] else math.ceil(low[0])
    last = math.ceil(high[0]) - 1 if high[1] else math.floor(high[0])
    first, last = -(-first // step) * step, last // step * step
    first, last = int(_double(Fraction(first), math.inf)), int(_double(Fraction(last), -math.inf))
    if first > last or not first // -step * -step <= last // step * step:
        return context.never("no integer is within the bounds", parts[0].path if parts else ())
    result: dict[str, Any] = {"type": "integer", "minimum": first, "maximum": last}
    return result if step == 1 else {**result, "multipleOf": step}


def _double(value: Fraction, towards: float) -> float:
    """The nearest double that is not on the outer side."""
    result = float(value)
    outside = Fraction(result) < value if towards > 0 else Fraction(result) > value
    result = math.nextafter(result, towards) if outside else result
    return int(result) if result.is_integer() else result


def _low(parts: Sequence[Part], context: Context) -> Bound:
    bounds = [(value, False) for value in _bounds(parts, "minimum", context)]
    bounds += [(value, True) for value in _bounds(parts, "exclusiveMinimum", context)]
    if any(value == "int32" for value, _ in each(parts, "format")):
        bounds.append((Fraction(-(2**31)), False))
    return max([*bounds, (Fraction(-LIMIT), False)])


def _high(parts: Sequence[Part], context: Context) -> Bound:
    bounds = [(value, False) for value in _bounds(parts, "maximum", context)]
    bounds += [(value, True) for value in _bounds(parts, "exclusiveMaximum", context)]
    if any(value == "int32" for value, _ in each(parts, "format")):
        bounds.append((Fraction(2**31 - 1), False))
    return min([*bounds, (Fraction(LIMIT), False)], key=lambda bound: (bound[0], not bound[1]))


def _bounds(parts: Sequence[Part], keyword: str, context: Context) -> list[Fraction]:
    kept = []
    for value, path in each(parts, keyword):
        if 0 < abs(Fraction(value)) < FINEST:
            context.unenforced(f"{keyword} is nearer to zero than 1e-15", path)
            continue
        kept.append(Fraction(value))
    return kept


def _step(parts: Sequence[Part], context: Context) -> int | None:
    step: int | None = None
    for value, path in each(parts, "multipleOf"):
        together = math.lcm(step or 1, int(value))
        if value != int(value) or together > LARGEST_STEP:
            context.unenforced(f"multipleOf is kept for integers up to {LARGEST_STEP}", path)
            continue
        step = together
    return step
