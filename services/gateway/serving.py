"""Answers a request from its call: whole, or as a stream of events. Knows no route and no API.

Leaving in any way (the client gone, an error, the end) closes the request's stream, and so frees its work.
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from aiohttp import web

from services.gateway.dispatch import Dispatcher
from services.gateway.errors import ApiError
from services.gateway.generation import Delta, Ending, merge
from services.gateway.limits import Limits
from services.gateway.middleware import INTERNAL, RECORD
from services.gateway.record import RequestRecord
from services.gateway.replies.reply import Json, Output, Reply, ReplyHead
from services.gateway.schemas.call import Call, Part, Terms
from services.gateway.sse import EventStream, json_response
from services.gateway.stream import Stream
from shared import logging, wire
from shared.namespaces import tenant_of
from shared.reasoning_format import ReasoningFormat
from shared.tool_format import ToolFormat

DETOKENIZE_TIMEOUT_S = 10.0


class Serving:
    def __init__(
        self, dispatcher: Dispatcher, limits: Limits, tool_format: ToolFormat, reasoning: ReasoningFormat | None
    ) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._tool_format = tool_format
        self._reasoning = reasoning

    def terms(self, tenant: str) -> Terms:
        return Terms(self._limits, self._tool_format, tenant, lambda: secrets.randbits(63), self._reasoning)

    def head(self, record: RequestRecord, prompts: tuple[str, ...] = ()) -> ReplyHead:
        return ReplyHead(record.request_id, self._limits.model_id, int(time.time()), record.elapsed_s, prompts)

    def open(self, record: RequestRecord, call: Call) -> Stream:
        """Whoever opens it closes it. Raises ApiError (429, 503) when there is no room."""
        stream = self._dispatcher.open(record.request_id, call.requests, record.trace.trace_id)
        record.opened(call, stream)
        logging.get().info("received", **record.arrival())
        return stream

    async def answer(
        self, request: web.Request, call: Call, event_stream: type[EventStream] = EventStream
    ) -> web.StreamResponse:
        record = request[RECORD]
        prompts = tuple([await self._text(part) for part in call.parts]) if call.echo else ()
        reply = call.reply(self.head(record, prompts))
        stream = self.open(record, call)
        try:
            if call.stream:
                events = event_stream(request, named=reply.named_events)
                return await _send_events(record, stream, call, reply, events)
            return await _send_whole(record, stream, call, reply)
        finally:
            stream.close()

    async def _text(self, part: Part) -> str:
        if part.request.prompt is not None:
            return part.request.prompt
        token_ids, tenant = part.request.prompt_token_ids or (), tenant_of(part.request.namespace)
        return await self._dispatcher.detokenize(token_ids, tenant, DETOKENIZE_TIMEOUT_S)


async def events_of(record: RequestRecord, stream: Stream, call: Call, reply: Reply) -> AsyncGenerator[list[Json]]:
    """The reply's events as they come. Raises ApiError where a generation fails."""
    async for index, news in stream:
        match news:
            case Delta():
                record.output(index, news)
                yield reply.events(index, news)
            case Ending():
                _check(call.part_of(index), news)
                yield reply.ended(index, news)
    yield reply.closing(record.usage)


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


async def _send_events(
    record: RequestRecord, stream: Stream, call: Call, reply: Reply, events: EventStream
) -> web.StreamResponse:
    try:
        async with aclosing(events_of(record, stream, call, reply)) as batches:
            async for batch in batches:
                await events.send(batch)
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
