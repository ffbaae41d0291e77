"""The one event loop on which all programs' requests run, in a thread of its own, started at the first use.

Knows nothing of what runs on it.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from sapwood.errors import ProgramError

T = TypeVar("T")

STOP_TIMEOUT_S = 5.0


class BackgroundLoop:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0  # threads do not live on in a forked child

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """In the order of the calls, as far as the work does not wait."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for it; an interrupt ends it."""
        if self._loop is not None and self._process == os.getpid() and threading.current_thread() is self._thread:
            work.close()
            raise ProgramError("this is where programs' requests run: nobody can wait here for a server")
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Cancels what is under way. A later use starts another loop."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._process == os.getpid():
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(STOP_TIMEOUT_S)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._process = os.getpid()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="sapwood", daemon=True)
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


BACKGROUND = BackgroundLoop()
atexit.register(BACKGROUND.stop)
