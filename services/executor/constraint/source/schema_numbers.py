"""Numbers of a JSON schema, for the engine. Knows nothing of other types.

Every number is written without an exponent, is at most 10^18, and has at most 10 digits behind the point. Bounds are
moved inwards to a double: whatever is written between two doubles is read as one of them, or as one between them. So
what is written is within the bounds for whoever reads it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from services.executor.constraint.source.schema_parts import Context, Emitted, Part, each

LIMIT = 10**18
FINEST = 1e-10  # of what numbers are multiples: the finest that the engine can keep
LARGEST_STEP = 10_000  # of multipleOf, in units of its last digit: the engine has a state for each remainder
EXACT = 2**53
FORMATS = frozenset({"int32", "int64", "float", "double"})

_UNIT = Fraction(1, 10**10)
INT32 = (Fraction(-(2**31)), Fraction(2**31 - 1))

Bound = tuple[Fraction, bool]  # the second is whether the bound itself is excluded


def number(parts: Sequence[Part], context: Context, *, fractions: bool) -> Emitted:
    """Args:
    fractions: whether numbers that are not integers are allowed.
    """
    low, high = _low(parts), _high(parts)
    step, largest = _step(parts, context, fractions=fractions)
    low, high = max(low, (-largest, False)), min(high, (largest, False), key=_tightness)
    path = parts[0].path if parts else ()
    if low[0] > high[0]:
        return context.never("no number is within the bounds", path)
    if step.denominator == 1:
        return _integer(low, high, int(step)) or context.never("no integer is within the bounds", path)
    return _fraction(low, high, step) or context.never("no number that can be written is within the bounds", path)


def writable(value: float) -> bool:
    """Whether the engine writes exactly this number."""
    if isinstance(value, int):
        return abs(value) <= EXACT
    return value == 0 or 1e-15 <= abs(value) <= EXACT


def _integer(low: Bound, high: Bound, step: int) -> Emitted:
    first = math.floor(low[0]) + 1 if low[1] else math.ceil(low[0])
    last = math.ceil(high[0]) - 1 if high[1] else math.floor(high[0])
    first, last = -(-first // step) * step, last // step * step
    first, last = int(_inside((Fraction(first), False), math.inf)), int(_inside((Fraction(last), False), -math.inf))
    if not -(-first // step) * step <= last:
        return None
    result: dict[str, Any] = {"type": "integer", "minimum": first, "maximum": last}
    return result if step == 1 else {**result, "multipleOf": step}


def _fraction(low: Bound, high: Bound, step: Fraction) -> Emitted:
    least, most = _written(_inside(low, math.inf)), _written(_inside(high, -math.inf))
    first = float(math.ceil(least / _unit(least, step)) * _unit(least, step))
    last = float(math.floor(most / _unit(most, step)) * _unit(most, step))
    if math.ceil(_written(first) / step) * step > _written(last):
        return None
    lowest = {"exclusiveMinimum": _plain(float(low[0]))} if _stays_out(low, -1) else {"minimum": _plain(first)}
    highest = {"exclusiveMaximum": _plain(float(high[0]))} if _stays_out(high, 1) else {"maximum": _plain(last)}
    return {"type": "number", **lowest, **highest, "multipleOf": float(step)}


def _stays_out(bound: Bound, away: int) -> bool:
    """Whether the engine keeps out the bound itself. It does where the bound is away from zero, and few digits tell
    what is written next to it from it. (0.9 can then be written below an excluded 1; below 0.9999999999 it cannot.)
    """
    value, excluded = bound
    return excluded and 0 < value * away <= 10**5 and (_written(float(value)) / _UNIT).denominator == 1


def _unit(bound: Fraction, step: Fraction) -> Fraction:
    """What the bound is rounded to: the engine misreads numbers whose digits make an integer beyond 2^53."""
    unit = _UNIT
    while unit < 1 and abs(bound) / unit > EXACT / 10:
        unit *= 10
    return _common([step, unit])


def _inside(bound: Bound, towards: float) -> float:
    """The double next to the bound: all that is written at it or towards there is within the bound.

    What is written without a fraction is not read as a double. So beyond 2^53, where doubles have gaps, it is also
    looked at how the engine writes this one.
    """
    value, excluded = bound
    result = float(value)

    def is_within(read: Fraction) -> bool:
        return (read > value if towards > 0 else read < value) or (read == value and not excluded)

    while not is_within(Fraction(result)) or (abs(result) > EXACT and not is_within(_written(result))):
        result = math.nextafter(result, towards)
    return result


def _written(value: float) -> Fraction:
    """As the engine writes it: with as few digits as tell it from other doubles."""
    return Fraction(repr(value))


def _plain(value: float) -> float:
    return int(value) if value.is_integer() else value


def _low(parts: Sequence[Part]) -> Bound:
    bounds = [(Fraction(value), False) for value, _ in each(parts, "minimum")]
    bounds += [(Fraction(value), True) for value, _ in each(parts, "exclusiveMinimum")]
    if any(value == "int32" for value, _ in each(parts, "format")):
        bounds.append((INT32[0], False))
    return max([*bounds, (Fraction(-LIMIT), False)])


def _high(parts: Sequence[Part]) -> Bound:
    bounds = [(Fraction(value), False) for value, _ in each(parts, "maximum")]
    bounds += [(Fraction(value), True) for value, _ in each(parts, "exclusiveMaximum")]
    if any(value == "int32" for value, _ in each(parts, "format")):
        bounds.append((INT32[1], False))
    return min([*bounds, (Fraction(LIMIT), False)], key=_tightness)


def _tightness(high: Bound) -> tuple[Fraction, bool]:
    return high[0], not high[1]


def _step(parts: Sequence[Part], context: Context, *, fractions: bool) -> tuple[Fraction, Fraction]:
    """What all numbers are multiples of, and how large they may be.

    A validator divides by a float as doubles do. That is exact for halves, quarters and so on, as long as a double can
    hold the number and the quotient; but 0.07 is no multiple of 0.01 to it.
    """
    steps, largest = [] if fractions else [Fraction(1)], Fraction(LIMIT)
    for value, path in each(parts, "multipleOf"):
        together = _common([*steps, Fraction(value)])
        if together * _tenfold(together) > LARGEST_STEP:
            context.unenforced(
                f"multipleOf is kept for integers, halves, quarters and so on, up to {LARGEST_STEP}", path
            )
            continue
        steps = [together]
        if isinstance(value, float):
            largest = min(largest, EXACT * min(Fraction(1), Fraction(value)))
    return (steps[0] if steps else _UNIT), largest


def _common(steps: Sequence[Fraction]) -> Fraction:
    """The least number that is a multiple of all."""
    shared = math.lcm(*(step.denominator for step in steps))
    return Fraction(math.lcm(*(int(step * shared) for step in steps)), shared)


def _tenfold(step: Fraction) -> int:
    """The power of ten that makes a whole number of it; its denominator is a power of two."""
    return int(10 ** (step.denominator.bit_length() - 1))
