"""Random numbers that are counted, not drawn: one for each (seed, position), the same on every machine and device.

SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_GOLDEN_GAMMA = 0x9E3779B97F4A7C15


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1), of 53 bits. The seed, scrambled, starts a stream; `position` is the place in it."""
    start = splitmix64(seed)
    return (splitmix64(start + position * _GOLDEN_GAMMA) >> 11) * 2.0**-53


def splitmix64(state: int) -> int:
    """The 64-bit number that the generator gives next in this state; its state after that is _GOLDEN_GAMMA more."""
    value = (state + _GOLDEN_GAMMA) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
