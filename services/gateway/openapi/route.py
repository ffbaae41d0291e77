"""GET /openapi.json. Made once, of the routes that are there."""

from __future__ import annotations

import msgspec
from aiohttp import web

from sapwood import __version__
from services.gateway.openapi.document import document
from services.gateway.schemas.openai import ANY_MODEL

PATH = "/openapi.json"


def add_to(router: web.UrlDispatcher, model_id: str) -> None:
    """After all other routes."""
    paths = [resource.canonical for resource in router.resources()]
    body = msgspec.json.encode(document(__version__, [*paths, PATH], [ANY_MODEL, model_id]))

    async def openapi(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    router.add_get(PATH, openapi)
