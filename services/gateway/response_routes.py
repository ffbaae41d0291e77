"""OpenAI's /v1/responses: generate one, in the background too, and come back to it.

Responses are kept in the memory of this gateway: another one, or the same one started anew, does not know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from services.gateway.background import ROUTE, BackgroundResponse
from services.gateway.bodies import read_body
from services.gateway.errors import ApiError, InvalidRequest
from services.gateway.middleware import CALLER, QUERY, RECORD
from services.gateway.record import RequestRecord
from services.gateway.replies.reply import Json
from services.gateway.replies.responses import response_id
from services.gateway.response_history import StoredHistory
from services.gateway.response_store import KeptResponse, ResponseStore
from services.gateway.schemas.responses import ResponseCall, read_response
from services.gateway.serving import Serving
from services.gateway.sse import EventStream, json_response
from shared import wire

PATH = "/v1/responses"


class NumberedEvents(EventStream):
    """Here an error is an event like others: its parts stand where OpenAI documents them, and where clients look."""

    def failure(self, error: Json) -> Json:
        return {**error["error"], **error, "type": "error", "sequence_number": self.sent_events}


class ResponseRoutes:
    def __init__(self, serving: Serving, store: ResponseStore) -> None:
        self._serving = serving
        self._store = store
        self._running: dict[tuple[str, str], BackgroundResponse] = {}  # by tenant and id

    def add_to(self, app: web.Application) -> None:
        one = PATH + "/{response_id}"
        app.router.add_post(PATH, self.create)
        app.router.add_get(one, self.retrieve)
        app.router.add_delete(one, self.delete)
        app.router.add_post(f"{one}/cancel", self.cancel)
        app.router.add_get(f"{one}/input_items", self.input_items)
        app.on_shutdown.append(self.stop)

    async def create(self, request: web.Request) -> web.StreamResponse:
        tenant = request[CALLER].tenant
        history = StoredHistory(self._store, self._running, tenant)
        asked = read_response(await read_body(request), self._serving.terms(tenant), history)
        if asked.is_background:
            return json_response(self._start(tenant, request[RECORD], asked).response())
        call = asked.call
        if asked.is_kept:
            call = replace(call, reply=partial(asked.reply, on_end=partial(self._keep, tenant, asked.items)))
        return await self._serving.answer(request, call, NumberedEvents)

    async def retrieve(self, request: web.Request) -> web.Response:
        if request[QUERY].stream:
            raise InvalidRequest("not supported (only false)", "stream", "unsupported_parameter")
        running = self._running.get(_key(request))
        return json_response(running.response()) if running is not None else _sent(self._kept(request))

    async def delete(self, request: web.Request) -> web.Response:
        tenant, name = _key(request)
        await self._end(tenant, name)
        self._kept(request)
        self._store.delete(tenant, name)
        return json_response({"id": name, "object": "response", "deleted": True})

    async def cancel(self, request: web.Request) -> web.Response:
        await self._end(*_key(request))
        kept = self._kept(request)
        if not msgspec.json.decode(kept.body)["background"]:
            raise InvalidRequest("only a response in the background can be cancelled", "response_id")
        return _sent(kept)

    async def input_items(self, request: web.Request) -> web.Response:
        running = self._running.get(_key(request))
        items = running.items if running is not None else msgspec.json.decode(self._kept(request).items)
        return json_response(_page(items, request[QUERY]))

    async def stop(self, _app: web.Application) -> None:
        for running in list(self._running.values()):
            await running.cancel()

    def _start(self, tenant: str, asking: RequestRecord, asked: ResponseCall) -> BackgroundResponse:
        record = RequestRecord(asking.request_id, ROUTE, asking.metrics, tenant, trace=asking.trace.later(ROUTE))
        reply = asked.reply(self._serving.head(record))
        stream = self._serving.open(record, asked.call)
        record.permit, asking.permit = asking.permit, None
        key = tenant, response_id(record.request_id)
        ended = partial(self._ended, key)
        running = self._running[key] = BackgroundResponse(record, stream, asked.call, reply, asked.items, ended)
        return running

    def _ended(self, key: tuple[str, str]) -> None:
        running = self._running.pop(key)
        self._keep(key[0], running.items, running.response())

    async def _end(self, tenant: str, name: str) -> None:
        """If it still runs."""
        running = self._running.get((tenant, name))
        if running is not None:
            await running.cancel()

    def _keep(self, tenant: str, items: Sequence[Json], response: Json) -> None:
        self._store.keep(tenant, response, items)

    def _kept(self, request: web.Request) -> KeptResponse:
        tenant, name = _key(request)
        kept = self._store.get(tenant, name)
        if kept is None:
            message = f"there is no response {name[:128]!r}; it may be too long ago"
            raise ApiError(wire.Error(message, "not_found", "response_id", 404))
        return kept


def _key(request: web.Request) -> tuple[str, str]:
    return request[CALLER].tenant, request.match_info["response_id"]


def _sent(kept: KeptResponse) -> web.Response:
    return json_response(msgspec.Raw(kept.body))


def _page(items: Sequence[Json], query: Any) -> Json:
    """The newest first, if the client does not want it otherwise."""
    ordered = list(items) if query.order == "asc" else list(reversed(items))
    if query.after is not None:
        place = next((place for place, item in enumerate(ordered) if item["id"] == query.after), None)
        if place is None:
            raise InvalidRequest(f"there is no item {query.after[:128]!r}", "after")
        ordered = ordered[place + 1 :]
    page = ordered[: query.limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(ordered) > len(page),
    }
