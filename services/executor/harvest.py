"""Frees cached tokens of several tenants, the leaf of the lowest rank first, within what may be taken of each.

Knows the order. Does not know how a leaf is shortened.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import TypeAlias

from services.executor.eviction import Rank, least_recently_used
from services.executor.nodes import Node
from services.executor.quota import Account

Order: TypeAlias = list[tuple[Rank, int, Account]]  # a heap: of each account, the leaf that goes first, by its age


def harvest(
    tokens: int, limits: Mapping[Account, int], shorten: Callable[[Node, int], int], below: Rank | None = None
) -> int:
    """Free `tokens` tokens, or all that the limits allow. Returns how many.

    Args:
        shorten: frees so many tokens at the end of a leaf, and says how many.
        below: of lower ranks only.
    """
    left = dict(limits)
    order: Order = []
    for number, account in enumerate(left):
        _line_up(order, number, account, left[account])
    freed = 0
    while freed < tokens and order and (below is None or order[0][0] < below):
        _, number, account = heapq.heappop(order)
        leaf = account.leaves.pop()
        assert leaf is not None
        count = shorten(leaf, min(tokens - freed, left[account], len(leaf.tokens)))
        freed += count
        left[account] -= count
        _line_up(order, number, account, left[account])
    return freed


def _line_up(order: Order, number: int, account: Account, limit: int) -> None:
    leaf = account.leaves.first() if limit else None
    if leaf is not None:
        heapq.heappush(order, (least_recently_used(leaf), number, account))
