"""The routes that generate: read a body, open the request, answer whole or as a stream of events.

Leaving the handler in any way (the client gone, an error, the end) closes the request's stream, and so frees its work.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import msgspec
from aiohttp import web

from services.gateway.dispatch import Dispatcher
from services.gateway.errors import ApiError
from services.gateway.generation import merge
from services.gateway.limits import Limits
from services.gateway.middleware import CALLER, INTERNAL, RECORD
from services.gateway.record import RequestRecord
from services.gateway.replies.reply import Reply, ReplyHead
from services.gateway.schemas.call import Call, Terms
from services.gateway.schemas.chat import read_chat
from services.gateway.schemas.completions import read_completion
from services.gateway.schemas.native import read_native
from services.gateway.sse import EventStream, json_response
from services.gateway.stream import Stream
from shared import logging, wire
from shared.tool_format import ToolFormat

Read = Callable[[bytes, Terms], Call]


class GenerationRoutes:
    def __init__(self, dispatcher: Dispatcher, limits: Limits, tool_format: ToolFormat) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._tool_format = tool_format

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_post("/generate", self.generate)
        router.add_post("/v1/chat/completions", self.chat)
        router.add_post("/v1/completions", self.completions)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, read_native)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, read_chat)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, read_completion)

    async def _serve(self, request: web.Request, read: Read) -> web.StreamResponse:
        record = request[RECORD]
        terms = Terms(self._limits, self._tool_format, request[CALLER].tenant, secrets.randbits(63))
        call = read(await request.read(), terms)
        record.wants_stream = call.stream
        record.constraint = call.request.constraint.kind if call.request.constraint is not None else None
        stream = record.stream = self._dispatcher.open(record.request_id, call.request)
        head = ReplyHead(record.request_id, self._limits.model_id, int(time.time()), record.elapsed_s)
        try:
            if call.stream:
                return await _send_events(request, stream, call, call.reply(head))
            return await _send_whole(record, stream, call, call.reply(head))
        finally:
            stream.close()


async def _send_whole(record: RequestRecord, stream: Stream, call: Call, reply: Reply) -> web.Response:
    deltas = []
    async for delta in stream:
        record.output(delta)
        deltas.append(delta)
    assert stream.ending is not None
    if stream.ending.error is not None:
        raise _in_words_of(call, stream.ending.error)
    return json_response(reply.whole(merge(deltas), stream.ending))


async def _send_events(request: web.Request, stream: Stream, call: Call, reply: Reply) -> web.StreamResponse:
    events = EventStream(request)
    try:
        async for delta in stream:
            request[RECORD].output(delta)
            await events.send(reply.events(delta))
        assert stream.ending is not None
        if stream.ending.error is not None:
            raise _in_words_of(call, stream.ending.error)
        await events.send(reply.closing(stream.ending))
        return await events.done()
    except ApiError as error:
        if not events.has_begun:
            raise
        return await events.fail(error.error)
    except ConnectionError:
        raise
    except Exception:
        if not events.has_begun:
            raise
        logging.get().exception("internal_error", request_id=request[RECORD].request_id)
        return await events.fail(INTERNAL)


def _in_words_of(call: Call, error: wire.Error) -> ApiError:
    """Later stages say "prompt" and "constraint", and each client has names of its own."""
    if error.param is None:
        return ApiError(error)
    param, message = call.name_of(error.param), error.message
    if error.param.partition(".")[0] == "constraint":
        message = f"{param}: {message}"
    return ApiError(msgspec.structs.replace(error, param=param, message=message))
