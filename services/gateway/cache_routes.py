"""The routes about the prefix cache: its shape, and emptying it. Both need the admin key."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web

from services.gateway.cache_view import Ids, cache_body, heads_of, read_trees
from services.gateway.dispatch import TEXTS_AT_ONCE, Dispatcher
from services.gateway.errors import ApiError
from services.gateway.middleware import CALLER, QUERY
from services.gateway.sse import json_response

TREE_TIMEOUT_S = 5.0
TEXT_TIMEOUT_S = 2.0


class CacheRoutes:
    """Args:
    shows_text: the operator allows the first words of cached prefixes to be seen.
    """

    def __init__(self, dispatcher: Dispatcher, *, shows_text: bool) -> None:
        self._dispatcher = dispatcher
        self._shows_text = shows_text

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/cache", self.cache)
        router.add_get("/flush_cache", self.flush_cache, allow_head=False)
        router.add_post("/flush_cache", self.flush_cache)

    async def cache(self, request: web.Request) -> web.Response:
        """The shape of every executor's tree, with ?limit= of its largest nodes."""
        answer = await self._dispatcher.admin("tree", TREE_TIMEOUT_S, text=self._shows_text)
        trees = read_trees(answer["executors"], request[QUERY].limit)
        texts = await self._texts(heads_of(trees), request[CALLER].tenant) if self._shows_text else None
        return json_response(cache_body(trees, texts))

    async def flush_cache(self, request: web.Request) -> web.Response:
        """Waits for a moment of idleness, up to ?timeout= seconds, and says what was freed."""
        answer = await self._dispatcher.admin("flush", request[QUERY].timeout)
        freed_tokens = sum(executor["freed_tokens"] for executor in answer["executors"].values())
        return json_response({"status": "flushed", "freed_tokens": freed_tokens})

    async def _texts(self, heads: Sequence[Ids], tenant: str) -> dict[Ids, str]:
        """As many as tokenizers make in time: the shape is worth showing without them."""
        texts: dict[Ids, str] = {}
        for start in range(0, len(heads), TEXTS_AT_ONCE):
            some = heads[start : start + TEXTS_AT_ONCE]
            made = await asyncio.gather(*(self._text(head, tenant) for head in some))
            texts |= {head: text for head, text in zip(some, made, strict=True) if text is not None}
            if None in made:
                break
        return texts

    async def _text(self, token_ids: Ids, tenant: str) -> str | None:
        try:
            return await self._dispatcher.detokenize(token_ids, tenant, TEXT_TIMEOUT_S)
        except ApiError:
            return None
