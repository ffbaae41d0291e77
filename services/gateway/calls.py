"""Questions to another stage on the side of the requests, and who waits for which answer.

Knows futures and peers by name. Does not know what is asked, or how it is sent.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from services.gateway.errors import ApiError
from shared import wire

Reply = TypeVar("Reply")


class Calls(Generic[Reply]):
    """Args:
    stage: whom it asks, for the words of a failure.
    """

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._waiting: dict[str, tuple[str, asyncio.Future[Reply]]] = {}  # by call_id: who was asked

    def __len__(self) -> int:
        return len(self._waiting)

    async def ask(self, peers: Iterable[str], send: Callable[[str, str], bool], timeout_s: float) -> Reply:
        """Ask the peer with the fewest open questions. Raises ApiError if there is none, if it leaves or is too late.

        Args:
            send: given the peer and the call_id, whether the question is on its way.
        """
        call_id = secrets.token_hex(8)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        peer = next((peer for peer in sorted(peers, key=self._open_questions) if send(peer, call_id)), None)
        if peer is None:
            raise ApiError(self._nobody())
        self._waiting[call_id] = (peer, future)
        try:
            return await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            message = f"the {self._stage} did not answer within {timeout_s:g} s"
            raise ApiError(wire.Error(message, "timeout", status=504)) from None
        finally:
            del self._waiting[call_id]

    def answered(self, call_id: str, reply: Reply) -> None:
        """An answer that nobody waits for any more is ignored."""
        _, future = self._waiting.get(call_id, ("", None))
        if future is not None and not future.done():
            future.set_result(reply)

    def left(self, peer: str) -> None:
        for asked, future in self._waiting.values():
            if asked == peer and not future.done():
                future.set_exception(ApiError(self._nobody()))

    def _open_questions(self, peer: str) -> int:
        return sum(asked == peer for asked, _ in self._waiting.values())

    def _nobody(self) -> wire.Error:
        return wire.Error(f"no {self._stage} is connected", "unavailable", status=503, retry_after_s=1.0)
