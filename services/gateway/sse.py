"""Replies as bytes: JSON bodies, and server-sent events with back-pressure. Knows aiohttp, no API."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from services.gateway.errors import ErrorForm, may_pass
from shared import wire

FORM: web.RequestKey[ErrorForm] = web.RequestKey("error_form")  # how the request's client wants its errors

DONE = b"data: [DONE]\n\n"

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would collect the events
}

LONGEST_RETRY_AFTER_S = 60  # what is longer, clients of OpenAI's do not heed

_encoder = msgspec.json.Encoder()


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=_encoder.encode(body), status=status, headers=headers, content_type="application/json")


def error_response(request: web.Request, error: wire.Error, headers: Mapping[str, str] | None = None) -> web.Response:
    return json_response(request[FORM](error), error.status, {**(headers or {}), **retry_headers(error)})


def retry_headers(error: wire.Error) -> dict[str, str]:
    """Clients of OpenAI's and Anthropic's try again on 429 and on all from 500 on, unless they are told not to."""
    if not may_pass(error):
        return {"x-should-retry": "false"}
    if error.retry_after_s is None:
        return {}
    return {"Retry-After": str(min(math.ceil(error.retry_after_s), LONGEST_RETRY_AFTER_S))}


class EventStream:
    """One reply as events. The headers leave with the first one, so that before it a refusal keeps its own status.

    Args:
        named: each event has its `type` as its name too, and the last one says itself that it is the last.
    """

    def __init__(self, request: web.Request, *, named: bool = False) -> None:
        self._request = request
        self._named = named
        self._response = web.StreamResponse(headers=HEADERS)
        self.sent_events = 0

    @property
    def has_begun(self) -> bool:
        return self._response.prepared

    async def send(self, events: Sequence[Any]) -> None:
        """Waits while the client does not read. Raises ConnectionError when it is gone."""
        if events:
            self.sent_events += len(events)
            await self._write(b"".join(map(self._frame, events)))

    async def done(self) -> web.StreamResponse:
        if not self._named:
            await self._write(DONE)
        await self._response.write_eof()
        return self._response

    async def fail(self, error: wire.Error) -> web.StreamResponse:
        """One frame with the error is the last. The body ends well: browsers drop the end of what is cut off."""
        await self._write(self._frame(self.failure(self._request[FORM](error))))
        await self._response.write_eof()
        return self._response

    def failure(self, error: dict[str, Any]) -> dict[str, Any]:
        """The last event, of an error's body."""
        return error

    async def _write(self, frames: bytes) -> None:
        if not self._response.prepared:
            await self._response.prepare(self._request)
        await self._response.write(frames)

    def _frame(self, body: Any) -> bytes:
        name = b"event: " + body.get("type", "error").encode() + b"\n" if self._named else b""
        return name + b"data: " + _encoder.encode(body) + b"\n\n"
