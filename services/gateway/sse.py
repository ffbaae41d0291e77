"""Replies as bytes: JSON bodies, and server-sent events with back-pressure. Knows aiohttp, no API."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from services.gateway.errors import error_body
from shared import wire

DONE = b"data: [DONE]\n\n"

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would collect the events
}

_encoder = msgspec.json.Encoder()


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=_encoder.encode(body), status=status, headers=headers, content_type="application/json")


def error_response(error: wire.Error, headers: Mapping[str, str] | None = None) -> web.Response:
    retry = {} if error.retry_after_s is None else {"Retry-After": str(math.ceil(error.retry_after_s))}
    return json_response(error_body(error), error.status, {**(headers or {}), **retry})


class EventStream:
    """One reply as events. The headers leave with the first one, so that before it a refusal keeps its own status."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._response = web.StreamResponse(headers=HEADERS)

    @property
    def has_begun(self) -> bool:
        return self._response.prepared

    async def send(self, events: Sequence[Any]) -> None:
        """Waits while the client does not read. Raises ConnectionError when it is gone."""
        if events:
            await self._write(b"".join(_event(event) for event in events))

    async def done(self) -> web.StreamResponse:
        await self._write(DONE)
        await self._response.write_eof()
        return self._response

    async def fail(self, error: wire.Error) -> web.StreamResponse:
        """One frame with the error, then the end of the connection: nothing that looks like a whole reply."""
        await self._write(_event(error_body(error)))
        self._response.force_close()
        return self._response

    async def _write(self, frames: bytes) -> None:
        if not self._response.prepared:
            await self._response.prepare(self._request)
        await self._response.write(frames)


def _event(body: Any) -> bytes:
    return b"data: " + _encoder.encode(body) + b"\n\n"
