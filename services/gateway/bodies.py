"""The bodies of requests, read within bounds: of size, of time, and of what all that are under way hold together.

Knows aiohttp's stream of a body. Does not know what is in it: `schemas` do.
"""

from __future__ import annotations

import asyncio

from aiohttp import HttpVersion11, hdrs, web

from services.gateway.errors import Unread
from shared import wire
from shared.config import GatewayConfig

CONTINUE = "100-continue"  # of the header Expect

TOO_LARGE = wire.Error("the body is too large", "request_too_large", status=413)
TOO_SLOW = wire.Error("the body did not come in time", "request_timeout", status=408)
ENCODED = wire.Error("bodies are read as they are: no Content-Encoding", "unsupported_encoding", status=415)
FULL = wire.Error("too many bodies are being read; try again later", "overloaded", status=503, retry_after_s=1.0)


class Bodies:
    def __init__(self, config: GatewayConfig) -> None:
        self._max_bytes = min(config.max_body_bytes, config.max_reading_bytes)
        self._max_reading_bytes = config.max_reading_bytes
        self._timeout_s = config.read_timeout_s
        self._held_bytes = 0  # of all bodies that are being read

    async def read(self, request: web.Request) -> bytes:
        """Raises ApiError, at once where the headers show already that the body will not do."""
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            raise Unread(ENCODED)
        if (request.content_length or 0) > self._max_bytes:
            raise Unread(TOO_LARGE)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._read(request)
        except TimeoutError:
            raise Unread(TOO_SLOW) from None

    async def _read(self, request: web.Request) -> bytes:
        await _encourage(request)
        body = bytearray()
        try:
            async for piece in request.content.iter_any():
                body += piece
                self._held_bytes += len(piece)
                self._check_room(len(body))
            return bytes(body)
        finally:
            self._held_bytes -= len(body)

    def _check_room(self, size: int) -> None:
        if size > self._max_bytes:
            raise Unread(TOO_LARGE)
        if self._held_bytes > self._max_reading_bytes:
            raise Unread(FULL)


BODIES = web.AppKey("bodies", Bodies)


async def read_body(request: web.Request) -> bytes:
    """Raises ApiError: 408, 413, 415, 503."""
    return await request.app[BODIES].read(request)


def add_bodies(app: web.Application, config: GatewayConfig) -> None:
    """After the routes: none of them asks for a body before it is clear that it will be read."""
    app[BODIES] = Bodies(config)
    for route in app.router.routes():
        route._expect_handler = _check_expectation


async def _check_expectation(request: web.Request) -> None:
    if request.headers[hdrs.EXPECT].lower() != CONTINUE:
        raise web.HTTPExpectationFailed


async def _encourage(request: web.Request) -> None:
    """A client that announced a body waits for this before it sends it."""
    if request.version >= HttpVersion11 and hdrs.EXPECT in request.headers and not request.content.is_eof():
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # nothing of the reply is sent yet
