"""What a handler reads of its request: pieces of output as they come, then the ending.

A slow reader holds nothing up: pieces that it has not taken yet reach it merged into one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from services.gateway.generation import Delta, Ending, merge


class Stream:
    """Args:
    on_close: told when the reader leaves before the end.
    """

    def __init__(self, on_close: Callable[[], None]) -> None:
        self.ending: Ending | None = None
        self._on_close = on_close
        self._pending: list[Delta] = []
        self._changed = asyncio.Event()

    def deliver(self, delta: Delta) -> None:
        self._pending.append(delta)
        self._changed.set()

    def finish(self, ending: Ending) -> None:
        self.ending = ending
        self._changed.set()

    def close(self) -> None:
        """The reader is done. Before the ending this abandons the request; `ending` is there afterwards."""
        if self.ending is None:
            self._on_close()

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Delta:
        while not self._pending and self.ending is None:
            self._changed.clear()
            await self._changed.wait()
        if not self._pending:
            raise StopAsyncIteration
        pending, self._pending = self._pending, []
        return merge(pending)
