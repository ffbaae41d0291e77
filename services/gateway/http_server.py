"""aiohttp's server, but for its own refusals (what is no HTTP, lines too long, unknown expectations), which have the
shape of all others here. Knows no route: these never reach one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler

from services.gateway.errors import error_body
from services.gateway.middleware import INTERNAL, new_request_id
from services.gateway.sse import json_response
from shared import wire

Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

NO_HTTP = wire.Error("this is not HTTP/1.1 that can be read", "invalid_http")
TOO_LONG = wire.Error("the request line or a header is too long", "headers_too_large", status=431)


class Runner(web.AppRunner):
    async def _make_server(self) -> web.Server:
        """The one place where aiohttp lets the protocol be chosen."""
        plain = await super()._make_server()
        return _Server(
            _in_our_words(plain.request_handler),
            request_factory=plain.request_factory,
            handler_cancellation=plain.handler_cancellation,
        )


class _Server(web.Server):
    def __call__(self) -> RequestHandler:
        return _Protocol(self, loop=asyncio.get_running_loop(), access_log=None)  # type: ignore[arg-type]  # None is allowed: no log


class _Protocol(RequestHandler):
    __slots__ = ()

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
        refused = TOO_LONG if isinstance(exc, LineTooLong) else NO_HTTP
        response = _refusal(INTERNAL if status >= 500 else refused)
        response.force_close()
        return response


def _in_our_words(handler: Handler) -> Handler:
    """Some refusals are raised before any middleware runs."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _refusal(wire.Error(error.reason, "http_error", status=error.status))

    return answer


def _refusal(error: wire.Error) -> web.Response:
    headers = {"x-request-id": new_request_id(), "x-should-retry": "false"}
    return json_response(error_body(error), error.status, headers)
