"""What waits, iterated for code that must not: in a thread of its own. Knows nothing of what it iterates.

Not in the loop's pool of threads: a loop that closes waits for those, and an item may come late or never.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TypeVar

T = TypeVar("T")


class End(Exception):
    """There are no more items."""


async def aside(items: Iterator[T]) -> AsyncIterator[T]:
    """Raises what the iterator raises. Nobody waits for the thread, which ends at the next item if none is wanted."""
    loop = asyncio.get_running_loop()
    found: asyncio.Queue[T | Exception] = asyncio.Queue()
    is_wanted = True

    def tell(item: T | Exception) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(found.put_nowait, item)

    def pump() -> None:
        try:
            for item in items:
                if not is_wanted:
                    return
                tell(item)
            tell(End())
        except Exception as error:
            tell(error)

    threading.Thread(target=contextvars.copy_context().run, args=(pump,), name="sapwood aside", daemon=True).start()
    try:
        while not isinstance(item := await found.get(), Exception):
            yield item
        if not isinstance(item, End):
            raise item
    finally:
        is_wanted = False
