"""What a handler reads of its request: pieces of output as they come, then the ending of each generation.

A slow reader holds nothing up: pieces that it has not taken yet reach it merged into one. They are merged while they
wait, too, so that what is kept for it is hardly more than the output itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from services.gateway.generation import Delta, Ending, merge

MOST_PIECES = 64  # of one generation, before they are merged

News: TypeAlias = tuple[int, Delta | Ending]  # of which generation


class Stream:
    """Args:
    size: how many generations the request has; they are numbered from 0.
    on_close: told the number of each one that the reader leaves before its end.
    """

    def __init__(self, size: int, on_close: Callable[[int], None]) -> None:
        self.endings: dict[int, Ending] = {}
        self.size = size
        self._on_close = on_close
        self._news: dict[int, list[Delta]] = {}  # not read yet; without a piece it is the ending's turn
        self._unread = size  # endings
        self._changed = asyncio.Event()

    def deliver(self, index: int, delta: Delta) -> None:
        pieces = self._news.setdefault(index, [])
        pieces.append(delta)
        if len(pieces) == MOST_PIECES:
            pieces[:] = [merge(pieces)]
        self._changed.set()

    def finish(self, index: int, ending: Ending) -> None:
        self.endings[index] = ending
        self._news.setdefault(index, [])
        self._changed.set()

    def close(self) -> None:
        """The reader is done. This abandons what has not ended; all endings are there afterwards."""
        for index in range(self.size):
            if index not in self.endings:
                self._on_close(index)

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> News:
        if not self._unread:
            raise StopAsyncIteration
        while not self._news:
            self._changed.clear()
            await self._changed.wait()
        index = next(iter(self._news))
        pieces = self._news.pop(index)
        if not pieces:
            self._unread -= 1
            return index, self.endings[index]
        if index in self.endings:
            self._news[index] = []
        return index, merge(pieces)
