"""Who goes first, who gives way, who takes the work: small named functions over a read-only view. They keep no state.

An order is a sort key: the smallest goes first. Priorities are strict; within a priority nobody starves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias, TypeVar


class Candidate(Protocol):
    """A request that wants to run, or runs."""

    @property
    def priority(self) -> int: ...  # larger goes first
    @property
    def order(self) -> int: ...  # of arrival
    @property
    def arrived_s(self) -> float: ...
    @property
    def hint_tokens(self) -> int: ...  # what the cache would give it


class Worker(Protocol):
    """An executor."""

    @property
    def running_requests(self) -> int: ...


SortKey: TypeAlias = tuple[int, ...]
Order: TypeAlias = Callable[[Candidate, float, float], SortKey]  # candidate, now_s, max_wait_s

W = TypeVar("W", bound=Worker)


def fcfs(candidate: Candidate, now_s: float, max_wait_s: float) -> SortKey:
    """First come, first served."""
    return seniority(candidate)


def lpm(candidate: Candidate, now_s: float, max_wait_s: float) -> SortKey:
    """Longest cached prefix first; but who has waited for max_wait_s goes before those that have not, oldest first."""
    hint = candidate.hint_tokens if now_s - candidate.arrived_s < max_wait_s else None
    return (-candidate.priority, hint is not None, -(hint or 0), candidate.order)


ORDERS: dict[str, Order] = {"fcfs": fcfs, "lpm": lpm}
WITH_HINTS = frozenset({"lpm"})  # worth telling an executor of requests before their turn


def seniority(candidate: Candidate) -> SortKey:
    """The highest priority, then the oldest. Of those that run, the most junior gives way when room is short."""
    return (-candidate.priority, candidate.order)


def by_load(workers: Iterable[W]) -> list[W]:
    """Who is asked first to take work: the least loaded."""
    return sorted(workers, key=lambda worker: worker.running_requests)
