"""Promised prefixes: who waits for what a running request is about to compute, so that it is computed once.

Nothing is stored of a promise itself: it follows from which requests run and how far they have come. A request is held
back while a running one will compute more of its prompt than can be found by then. The running one never waits, those
held back hold nothing, and it has the priority of the highest of them. When it ends, gives way or is not served for a
while, it promises nothing any more: they wait for their turn as before, and the first to start promises in its stead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sortedcontainers import SortedKeyList

from services.scheduler.lane import Lane
from services.scheduler.request import Request
from shared.tokens import common_tokens, pages_down

LEAST_PROMISE_TOKENS = 16  # fewer are computed again rather than waited for
PATIENCE_DECLINES = 4


class Promise(NamedTuple):
    lane: Lane
    until_tokens: int  # what they have in common, in whole pages


class Prospect(NamedTuple):
    """Of a request, if it would start in the plan that is being made."""

    found_tokens: int  # what it would find in the cache
    promise: Promise | None  # what it should wait for instead


class Held(NamedTuple):
    until_tokens: int
    order: int
    request: Request


class Waiters:
    """Those that one lane's promise holds back. They lend it their priority."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._held = SortedKeyList(key=lambda held: (held.until_tokens, held.order))
        self._priorities: Counter[int] = Counter()

    def __bool__(self) -> bool:
        return bool(self._held)

    @property
    def least_tokens(self) -> int:
        """What the first of them waits for."""
        until_tokens: int = self._held[0].until_tokens
        return until_tokens

    def add(self, held: Held) -> None:
        self._held.add(held)
        self._count(held.request.priority, 1)

    def remove(self, held: Held) -> None:
        self._held.remove(held)
        self._count(held.request.priority, -1)

    def pop(self) -> Request:
        held: Held = self._held.pop(0)
        self._count(held.request.priority, -1)
        return held.request

    def _count(self, priority: int, change: int) -> None:
        self._priorities[priority] += change
        if not self._priorities[priority]:
            del self._priorities[priority]
        self._lane.lent_priority = max(self._priorities, default=None)


class Promises:
    """Of one executor.

    Args:
        patience_s: a lane that was not served for so long promises nothing, nor does one that is always declined.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._promises: dict[Request, Promise] = {}
        self._waiters: dict[Lane, Waiters] = {}

    def __len__(self) -> int:
        return len(self._promises)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._promises)

    def __contains__(self, request: Request) -> bool:
        return request in self._promises

    def prospect(self, request: Request, lanes: Iterable[Lane], seq: int, now_s: float) -> Prospect:
        """What the request would find if it started in plan seq, and what the most promising of the lanes will add."""
        found_tokens, promise = request.hint_tokens, None
        for lane in lanes:
            if not lane.is_filling or lane.request.namespace != request.namespace:
                continue
            shared_tokens = _shared_tokens(request, lane)
            found_tokens = max(found_tokens, min(shared_tokens, lane.shared_before(seq)))
            if not self._is_stuck(lane, now_s) and (promise is None or shared_tokens > promise.until_tokens):
                promise = Promise(lane, shared_tokens)
        if promise is not None and promise.until_tokens - found_tokens < LEAST_PROMISE_TOKENS:
            promise = None
        return Prospect(found_tokens, promise)

    def hold(self, request: Request, promise: Promise) -> None:
        self._promises[request] = promise
        waiters = self._waiters.get(promise.lane)
        if waiters is None:
            waiters = self._waiters[promise.lane] = Waiters(promise.lane)
        waiters.add(Held(promise.until_tokens, request.order, request))

    def remove(self, request: Request) -> None:
        """Raises KeyError if it is not held back."""
        lane, until_tokens = self._promises.pop(request)
        self._waiters[lane].remove(Held(until_tokens, request.order, request))
        if not self._waiters[lane]:
            del self._waiters[lane]

    def release(self, seq: int, now_s: float) -> list[Request]:
        """Those that need not be held back any longer if they start in plan seq."""
        free = []
        for lane, waiters in list(self._waiters.items()):
            is_over = lane.ended or self._is_stuck(lane, now_s)
            found = lane.shared_before(seq)
            while waiters and (is_over or waiters.least_tokens - found < LEAST_PROMISE_TOKENS):
                free.append(waiters.pop())
            if not waiters:
                del self._waiters[lane]
        for request in free:
            del self._promises[request]
        return free

    def _is_stuck(self, lane: Lane, now_s: float) -> bool:
        is_starved = not lane.in_flight and now_s - lane.served_s > self._patience_s
        return is_starved or lane.declines >= PATIENCE_DECLINES


def _shared_tokens(request: Request, lane: Lane) -> int:
    """One token of the request is always left to compute."""
    return pages_down(common_tokens(request.tokens[:-1], lane.request.tokens), lane.page_size)
