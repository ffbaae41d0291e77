"""One attempt at a request: how long it may take, and whether it may be made again. Knows what httpx tells of it.

A request is sent again only where nobody can have served it: nothing answers there, the server says that it did not, or
a connection that had been kept was closed before a word came.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx

from sapwood.errors import BackendError, ConnectionFailed, Overloaded, ServerError

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 8.0
LONGEST_WAIT_S = 60.0  # of a server that says when to come back; longer is for the caller to decide
JITTER_S = 0.5  # so that those who were refused together do not come back together
UNSERVED = (429, 502, 503, 504)


class Attempt:
    """Args:
    timeout_s: from when it is sent: the wait for a free connection is not counted.
    """

    def __init__(self, timeout_s: float) -> None:
        self.deadline = asyncio.timeout(None)
        self._timeout_s = timeout_s
        self._is_kept = True  # until a connection is made for it
        self._is_answered = False

    async def trace(self, event: str, _info: Any) -> None:
        """httpx's `trace` extension."""
        match event:
            case "connection.connect_tcp.complete":
                self._is_kept = False
            case "http11.send_request_headers.started":
                self.deadline.reschedule(asyncio.get_running_loop().time() + self._timeout_s)
            case "http11.receive_response_headers.complete":
                self._is_answered = True

    def pause_s(self, error: BackendError, failed: int) -> float | None:
        """Before the next attempt. None: it would fail again, or this one may have been served, or not for a long time.

        Args:
            failed: attempts before this one.
        """
        if not self._is_unserved(error):
            return None
        if isinstance(error, Overloaded) and error.retry_after_s is not None:
            return error.retry_after_s + random.uniform(0, JITTER_S) if error.retry_after_s <= LONGEST_WAIT_S else None
        return float(min(FIRST_PAUSE_S * 2**failed, LONGEST_PAUSE_S) * random.uniform(0.5, 1))

    def _is_unserved(self, error: BackendError) -> bool:
        match error:
            case ServerError(status=status):
                return status in UNSERVED
            case ConnectionFailed(__cause__=httpx.ConnectError()):
                return True
            case ConnectionFailed(__cause__=httpx.RemoteProtocolError()):
                return self._is_kept and not self._is_answered
            case _:
                return False
