"""The routes that generate: read a body, open the request, answer whole or as a stream of events.

Leaving the handler in any way (the client gone, an error, the end) closes the request's stream, and so frees its work.
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import Callable

import msgspec
from aiohttp import web

from services.gateway.dispatch import Dispatcher
from services.gateway.errors import ApiError
from services.gateway.generation import Delta, Ending, merge
from services.gateway.limits import Limits
from services.gateway.middleware import CALLER, INTERNAL, RECORD
from services.gateway.record import RequestRecord
from services.gateway.replies.reply import Output, Reply, ReplyHead
from services.gateway.schemas.abort import read_abort
from services.gateway.schemas.call import Call, Part, Terms
from services.gateway.schemas.chat import read_chat
from services.gateway.schemas.completions import read_completion
from services.gateway.schemas.native import read_native
from services.gateway.sse import EventStream, json_response
from services.gateway.stream import Stream
from shared import logging, wire
from shared.tool_format import ToolFormat

DETOKENIZE_TIMEOUT_S = 10.0

Read = Callable[[bytes, Terms], Call]


class GenerationRoutes:
    def __init__(self, dispatcher: Dispatcher, limits: Limits, tool_format: ToolFormat) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._tool_format = tool_format

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_post("/generate", self.generate)
        router.add_post("/abort_request", self.abort)
        router.add_post("/v1/chat/completions", self.chat)
        router.add_post("/v1/completions", self.completions)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, read_native)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, read_chat)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, read_completion)

    async def abort(self, request: web.Request) -> web.Response:
        """End the caller's requests of this `rid`. That there are none is no error: they may just have ended."""
        self._dispatcher.abort(request[CALLER].tenant, read_abort(await request.read()))
        return json_response({})

    async def _serve(self, request: web.Request, read: Read) -> web.StreamResponse:
        record = request[RECORD]
        terms = Terms(self._limits, self._tool_format, request[CALLER].tenant, lambda: secrets.randbits(63))
        call = read(await request.read(), terms)
        prompts = tuple([await self._text(part) for part in call.parts]) if call.echo else ()
        head = ReplyHead(record.request_id, self._limits.model_id, int(time.time()), record.elapsed_s, prompts)
        stream = self._dispatcher.open(record.request_id, call.requests)
        record.opened(call, stream)
        try:
            if call.stream:
                return await _send_events(request, stream, call, call.reply(head))
            return await _send_whole(record, stream, call, call.reply(head))
        finally:
            stream.close()

    async def _text(self, part: Part) -> str:
        if part.request.prompt is not None:
            return part.request.prompt
        return await self._dispatcher.detokenize(part.request.prompt_token_ids or (), DETOKENIZE_TIMEOUT_S)


async def _send_whole(record: RequestRecord, stream: Stream, call: Call, reply: Reply) -> web.Response:
    pieces: defaultdict[int, list[Delta]] = defaultdict(list)
    async for index, news in stream:
        match news:
            case Delta():
                record.output(index, news)
                pieces[index].append(news)
            case Ending():
                _check(call.part_of(index), news)
    outputs = [Output(merge(pieces[index]), stream.endings[index]) for index in sorted(stream.endings)]
    return json_response(reply.whole(outputs, record.usage))


async def _send_events(request: web.Request, stream: Stream, call: Call, reply: Reply) -> web.StreamResponse:
    record = request[RECORD]
    events = EventStream(request, named=reply.named_events)
    try:
        async for index, news in stream:
            match news:
                case Delta():
                    record.output(index, news)
                    await events.send(reply.events(index, news))
                case Ending():
                    _check(call.part_of(index), news)
                    await events.send(reply.ended(index, news))
        await events.send(reply.closing(record.usage))
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
        logging.get().exception("internal_error", request_id=record.request_id)
        return await events.fail(INTERNAL)


def _check(part: Part, ending: Ending) -> None:
    if ending.error is not None:
        raise _in_words_of(part, ending.error)


def _in_words_of(part: Part, error: wire.Error) -> ApiError:
    """Later stages say "prompt" and "constraint", and each client has names of its own."""
    if error.param is None:
        return ApiError(error)
    param, message = part.name_of(error.param), error.message
    if error.param.partition(".")[0] == "constraint":
        message = f"{param}: {message}"
    return ApiError(msgspec.structs.replace(error, param=param, message=message))
