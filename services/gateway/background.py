"""Responses that are generated without their clients: a task each, until it ends, is cancelled, or the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from services.gateway.errors import CLIENT_CLOSED_STATUS, ApiError
from services.gateway.middleware import INTERNAL
from services.gateway.record import RequestRecord
from services.gateway.replies.reply import Json
from services.gateway.replies.responses import ResponseReply
from services.gateway.schemas.call import Call
from services.gateway.serving import events_of
from services.gateway.stream import Stream
from shared import logging, wire

ROUTE = "background"  # in logs and metrics: the route that started it has been answered by then


class BackgroundResponse:
    """Closes its stream. `on_end` is called once, when the response changes no more.

    Args:
        items: what the model goes on from.
    """

    def __init__(
        self,
        record: RequestRecord,
        stream: Stream,
        call: Call,
        reply: ResponseReply,
        items: Sequence[Json],
        on_end: Callable[[], None],
    ) -> None:
        self.items = items
        self._record = record
        self._stream = stream
        self._call = call
        self._reply = reply
        self._on_end = on_end
        self._status = CLIENT_CLOSED_STATUS  # as a client's would be that goes away, if it comes to no end
        self._task = asyncio.create_task(self._generate())
        self._task.add_done_callback(self._ended)

    def response(self) -> Json:
        return self._reply.response()

    async def cancel(self) -> None:
        """Returns once it has ended. That may have been by itself."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _generate(self) -> None:
        try:
            async for _ in events_of(self._record, self._stream, self._call, self._reply):
                pass
            self._status = 200
        except ApiError as error:
            self._fail(error.error)
        except Exception:
            logging.get().exception("internal_error", request_id=self._record.request_id)
            self._fail(INTERNAL)

    def _fail(self, error: wire.Error) -> None:
        self._reply.fail(error)
        self._status = error.status

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._reply.cancel()
        self._stream.close()
        self._record.end_permit()
        logging.get().info("request", **self._record.close(self._status))
        self._on_end()
