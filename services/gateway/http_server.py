"""aiohttp's server, but for two things. Its own refusals (what is no HTTP, lines too long, unknown expectations) have
the shape of all others here. And connections are bounded: in number, in the time that a request's headers may take, and
in the time for which a client may take nothing of what is sent to it.

Knows no route: what is refused here never reaches one.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, TypeAlias

import msgspec
from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError, InvalidURLError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from services.gateway.errors import error_body
from services.gateway.middleware import INTERNAL, SERVER, new_request_id
from services.gateway.sse import json_response, retry_headers
from shared import wire
from shared.config import GatewayConfig

Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

MAX_HEAD_BYTES = 64 * 1024  # of a request line and headers that are not complete yet
READ_BUFFER_BYTES = 64 * 1024
LINGER_S = 2.0  # for a client to read why its body is not wanted, before the connection ends
SPARE_FILES = 256  # open files that are no connections
LONGEST_REASON = 100  # characters of the parser's
OTHER_VERSION_MARKS = (
    "Pause on PRI/Upgrade",
    "Invalid HTTP version",
)  # the parser's words: of HTTP/2's first line; 3.0

NO_HTTP = wire.Error("this is not HTTP/1.1 that can be read", "invalid_http")
OTHER_VERSION = wire.Error("only HTTP/1.1 and HTTP/1.0 are spoken here", "http_version", status=505)
TOO_LONG = wire.Error("the request line or a header is too long", "headers_too_large", status=431)
TOO_MANY = wire.Error("too many headers", "headers_too_large", status=431)
TOO_SLOW = wire.Error("the headers did not come in time", "request_timeout", status=408)
FULL = wire.Error("too many connections; try again later", "overloaded", status=503, retry_after_s=1.0)


class Runner(web.AppRunner):
    def __init__(self, app: web.Application, config: GatewayConfig, **options: Any) -> None:
        super().__init__(app, **options)
        self._config = config

    async def _make_server(self) -> web.Server:
        """The one place where aiohttp lets the protocol be chosen."""
        plain = await super()._make_server()
        return _Server(
            self._config,
            _in_our_words(plain.request_handler),
            request_factory=plain.request_factory,
            handler_cancellation=plain.handler_cancellation,
        )


class _Server(web.Server):
    def __init__(self, config: GatewayConfig, handler: Handler, **options: Any) -> None:
        super().__init__(handler, **options)
        self._max_connections = connection_limit(config.max_connections)
        self._config = config

    def __call__(self) -> RequestHandler:
        return _Protocol(self, self._config)

    def make_room(self) -> bool:
        """Whether one more connection may be served. One that is idle gives way, the oldest first."""
        if len(self._connections) < self._max_connections:
            return True
        idle = next((one for one in self._connections if isinstance(one, _Protocol) and one.is_idle), None)
        if idle is None:
            return False
        idle.force_close()
        return True


class _Protocol(RequestHandler):
    __slots__ = ("_head_bytes", "_head_timer", "_read_timeout_s", "_server", "_slow_reader_timeout_s")

    def __init__(self, server: _Server, config: GatewayConfig) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # allowed: no log
            keepalive_timeout=config.keepalive_timeout_s,
            lingering_time=LINGER_S,
            read_bufsize=READ_BUFFER_BYTES,
            auto_decompress=False,  # a small body could be a huge one
        )
        self._server = server
        self._read_timeout_s = config.read_timeout_s
        self._slow_reader_timeout_s = config.slow_reader_timeout_s
        self._head_bytes = 0  # of a request whose headers are not complete
        self._head_timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """No request is complete: nobody works for this connection."""
        return self._waiter is not None and not self._waiter.done()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._server.make_room():
            _cut_off_after(transport, self._slow_reader_timeout_s)
            super().connection_made(transport)
        else:
            self.transport = transport  # type: ignore[assignment]  # a TCP connection's
            self._turn_away(FULL)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.is_idle or not data:
            self._head_bytes = 0
            self._stop_timer()
            return
        self._head_bytes += len(data)
        if self._head_timer is None:
            self._head_timer = self._loop.call_later(self._read_timeout_s, self._turn_away, TOO_SLOW)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._turn_away(TOO_LONG)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """With status 500 the application failed, and with all others there was none to ask."""
        if status >= 500:
            self.log_exception("unhandled", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the reply is sent already")
        return _refusal(INTERNAL if status >= 500 else _unreadable(exc))

    def _turn_away(self, error: wire.Error) -> None:
        """Of a connection without a request there is nobody to answer through aiohttp."""
        if self.transport is not None:
            self.transport.write(_raw(error))
        self.force_close()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _cut_off_after(transport: asyncio.BaseTransport, seconds: float) -> None:
    """The kernel ends the connection when the other side has taken nothing for so long, be it gone or not reading."""
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, round(seconds * 1000)))


def connection_limit(wanted: int) -> int:
    """As many of the wanted connections as this process may have files open. It takes all that it may."""
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
        return max(1, min(wanted, allowed - SPARE_FILES))
    return wanted


def _in_our_words(handler: Handler) -> Handler:
    """Some refusals are raised before any middleware runs."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.version not in (HttpVersion10, HttpVersion11):
            return _refusal(OTHER_VERSION if request.version > HttpVersion11 else NO_HTTP)
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _refusal(wire.Error(error.reason, "http_error", status=error.status))

    return answer


def _unreadable(exc: BaseException | None) -> wire.Error:
    words = str(exc)
    if isinstance(exc, LineTooLong):
        return TOO_LONG
    if any(mark in words for mark in OTHER_VERSION_MARKS):
        return OTHER_VERSION
    return TOO_MANY if "Too many headers" in words else _no_http(exc)


def _no_http(exc: BaseException | None) -> wire.Error:
    reason = _reason(exc)
    return msgspec.structs.replace(NO_HTTP, message=f"{NO_HTTP.message}: {reason}") if reason else NO_HTTP


def _reason(exc: BaseException | None) -> str:
    """The parser's, if it has one. Its excerpt, which stands behind an empty line, is left out."""
    match exc:
        case InvalidURLError():
            return "the path is not one"
        case HttpProcessingError(message=message):
            words = message.partition("\n\n")[0].rpartition("\n")[2].strip(" :.")[:LONGEST_REASON]
            return words[:1].lower() + words[1:]
        case _:
            return ""


def _refusal(error: wire.Error) -> web.Response:
    """The connection ends with it."""
    response = json_response(error_body(error), error.status, _headers(error))
    response.force_close()
    return response


def _headers(error: wire.Error) -> dict[str, str]:
    return {"Server": SERVER, "x-request-id": new_request_id(), **retry_headers(error)}


def _raw(error: wire.Error) -> bytes:
    body = msgspec.json.encode(error_body(error))
    more = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
    head = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"]
    head += [f"{name}: {value}" for name, value in (more | _headers(error)).items()]
    return "\r\n".join([*head, "", ""]).encode() + body
