"""Times of things that are compared: in turns, so that a slow second of the machine hits all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Times:
    median_s: float
    least_s: float
    most_s: float


def in_turns(sides: Mapping[str, Callable[[], float]], rounds: int, warmups: int = 2) -> dict[str, Times]:
    """Each side's own figure in seconds, `rounds` times; every round starts with another side."""
    names = list(sides)
    for name in names * warmups:
        sides[name]()
    found: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(rounds):
        first = round_number % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(sides[name]())
    return {name: Times(statistics.median(times), min(times), max(times)) for name, times in found.items()}


def timed(work: Callable[[], object], device: torch.device, repeats: int = 1) -> Callable[[], float]:
    """Seconds for one of `repeats` runs, until the device has finished."""

    def measure() -> float:
        synchronize(device)
        started_s = time.perf_counter()
        for _ in range(repeats):
            work()
        synchronize(device)
        return (time.perf_counter() - started_s) / repeats

    return measure


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
