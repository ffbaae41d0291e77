"""Who goes first, who gives way: small named functions over a read-only view. They keep no state.

A sort key: the smallest goes first. The keys say who is preferred among requests of one tenant and one priority; who
has waited too long goes before all of them, whatever the policy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias


class Senior(Protocol):
    """A request, or its lane."""

    @property
    def priority(self) -> int: ...  # larger goes first
    @property
    def order(self) -> int: ...  # of arrival


class Candidate(Senior, Protocol):
    """A request that wants to run."""

    @property
    def max_new_tokens(self) -> int: ...
    @property
    def hint_tokens(self) -> int: ...  # what the cache would give it


SortKey: TypeAlias = tuple[int, ...]

GAIN_TOKENS = 16  # of a prefix: fewer more are no reason to go first, since any two prompts may begin with one word


def arrival(candidate: Candidate) -> SortKey:
    """First come, first served."""
    return (candidate.order,)


def longest_prefix(candidate: Candidate) -> SortKey:
    """Who has most in the cache first, before it is evicted; by arrival among those that have about as much."""
    return (-(candidate.hint_tokens // GAIN_TOKENS), candidate.order)


def longest_output(candidate: Candidate) -> SortKey:
    return (-candidate.max_new_tokens, candidate.order)


@dataclass(frozen=True, slots=True)
class Policy:
    key: Callable[[Candidate], SortKey]
    ranked: bool = True  # the higher priority first
    depth_first: bool = False  # through the tree, where most wait first; the key decides where there is no tree


POLICIES: dict[str, Policy] = {
    "lpm": Policy(longest_prefix),
    "fcfs": Policy(arrival, ranked=False),
    "priority": Policy(arrival),
    "lof": Policy(longest_output),
    "dfs-weight": Policy(arrival, depth_first=True),
}


def seniority(senior: Senior) -> SortKey:
    """The highest priority, then the oldest. Of those that run, the most junior gives way when room is short."""
    return (-senior.priority, senior.order)
