"""Who works when: every side does the same work in every round, in an order that changes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    round: int
    workload: str
    side: str
    seed: int  # the same for all sides of a round, new in every round


def turns(sides: Sequence[str], workloads: Sequence[str], rounds: int, first_seed: int) -> Iterator[Turn]:
    for number in range(rounds):
        for workload in workloads:
            shift = number % len(sides)
            for side in (*sides[shift:], *sides[:shift]):
                yield Turn(number, workload, side, first_seed + number)
