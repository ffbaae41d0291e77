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
from shared import logging

Read = Callable[[bytes, Terms], Call]


class GenerationRoutes:
    def __init__(self, dispatcher: Dispatcher, limits: Limits) -> None:
        self._dispatcher = dispatcher
        self._limits = limits

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
        terms = Terms(self._limits, request[CALLER].tenant, secrets.randbits(63))
        call = read(await request.read(), terms)
        record.wants_stream = call.stream
        stream = record.stream = self._dispatcher.open(record.request_id, call.request)
        head = ReplyHead(record.request_id, self._limits.model_id, int(time.time()), record.elapsed_s)
        try:
            if call.stream:
                return await _send_events(request, stream, call.reply(head))
            return await _send_whole(record, stream, call.reply(head))
        except ApiError as error:
            raise _in_words_of(call, error) from None
        finally:
            stream.close()


async def _send_whole(record: RequestRecord, stream: Stream, reply: Reply) -> web.Response:
    deltas = []
    async for delta in stream:
        record.output(delta)
        deltas.append(delta)
    assert stream.ending is not None
    if stream.ending.error is not None:
        raise ApiError(stream.ending.error)
    return json_response(reply.whole(merge(deltas), stream.ending))


async def _send_events(request: web.Request, stream: Stream, reply: Reply) -> web.StreamResponse:
    events = EventStream(request)
    try:
        async for delta in stream:
            request[RECORD].output(delta)
            await events.send(reply.events(delta))
        assert stream.ending is not None
        if stream.ending.error is not None:
            raise ApiError(stream.ending.error)
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


def _in_words_of(call: Call, error: ApiError) -> ApiError:
    if error.error.param != "prompt":
        return error
    return ApiError(msgspec.structs.replace(error.error, param=call.prompt_param))
