"""Whose text is asked of the tokenizers next: a few at a time, and tenants take turns.

So that prompts beside them do not wait long, and a tenant's text not for all of another's. Does not know what is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from services.gateway.turns import Turns


class TextTurns:
    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._turns = Turns()
        self._waiting: dict[str, asyncio.Future[None]] = {}  # those of the turns, by name
        self._names = map(str, count())

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Begins when it is this tenant's turn."""
        await self._begin(tenant)
        try:
            yield
        finally:
            self._end()

    async def _begin(self, tenant: str) -> None:
        name, begun = next(self._names), asyncio.get_running_loop().create_future()
        self._turns.add(tenant, name)
        self._waiting[name] = begun
        self._call_next()
        try:
            await begun
        except asyncio.CancelledError:
            self._give_up(tenant, name, begun)
            raise

    def _give_up(self, tenant: str, name: str, begun: asyncio.Future[None]) -> None:
        if not begun.cancelled():  # it was called, and cancelled before it could begin
            self._end()
        self._turns.remove(tenant, name)
        self._waiting.pop(name, None)

    def _end(self) -> None:
        self._free += 1
        self._call_next()

    def _call_next(self) -> None:
        while self._free and self._turns:
            begun = self._waiting.pop(self._turns.take())
            if not begun.cancelled():
                begun.set_result(None)
                self._free -= 1
