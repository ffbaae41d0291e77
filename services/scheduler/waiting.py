"""The requests that no executor knows: by priority, then by arrival."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from services.scheduler.policy import SortKey, seniority
from services.scheduler.request import Request


class WaitingQueue:
    """Sorted at all times; adding and removing costs a search and a shift of memory."""

    def __init__(self) -> None:
        self._keys: list[SortKey] = []
        self._requests: list[Request] = []

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    def add(self, request: Request) -> None:
        key = seniority(request)
        at = bisect_left(self._keys, key)
        self._keys.insert(at, key)
        self._requests.insert(at, request)

    def remove(self, request: Request) -> None:
        """Raises KeyError if it is not there."""
        at = bisect_left(self._keys, seniority(request))
        if at == len(self._requests) or self._requests[at] is not request:
            raise KeyError(request.key)
        del self._keys[at], self._requests[at]

    def head(self, count: int) -> list[Request]:
        return list(islice(self._requests, count))
