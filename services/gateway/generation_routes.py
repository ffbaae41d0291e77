"""The routes that generate: each reads a body in its own way. What follows is the same for all: see `serving`."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from services.gateway.bodies import read_body
from services.gateway.dispatch import Dispatcher
from services.gateway.middleware import CALLER
from services.gateway.schemas.abort import read_abort
from services.gateway.schemas.anthropic import read_anthropic
from services.gateway.schemas.call import Call, Terms
from services.gateway.schemas.chat import read_chat
from services.gateway.schemas.completions import read_completion
from services.gateway.schemas.native import read_native
from services.gateway.serving import Serving
from services.gateway.sse import json_response

Read = Callable[[bytes, Terms], Call]


class GenerationRoutes:
    def __init__(self, dispatcher: Dispatcher, serving: Serving) -> None:
        self._dispatcher = dispatcher
        self._serving = serving

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_post("/generate", self.generate)
        router.add_post("/abort_request", self.abort)
        router.add_post("/v1/chat/completions", self.chat)
        router.add_post("/v1/completions", self.completions)
        router.add_post("/v1/messages", self.messages)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, read_native)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, read_chat)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, read_completion)

    async def messages(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, read_anthropic)

    async def abort(self, request: web.Request) -> web.Response:
        """End the caller's requests of this `rid`. That there are none is no error: they may just have ended."""
        self._dispatcher.abort(request[CALLER].tenant, read_abort(await read_body(request)))
        return json_response({})

    async def _serve(self, request: web.Request, read: Read) -> web.StreamResponse:
        call = read(await read_body(request), self._serving.terms(request[CALLER].tenant))
        return await self._serving.answer(request, call)
