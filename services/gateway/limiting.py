"""Around the routes that give work to model or tokenizer: what the caller's key may have. Knows aiohttp and routes."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from services.gateway.key_limits import Allowances, LimitReached
from services.gateway.middleware import ADMIN_ROUTES, CALLER, RECORD, UNKNOWN

FREE_POSTS = frozenset({"/abort_request", "/v1/responses/{response_id}/cancel", UNKNOWN}) | ADMIN_ROUTES
LIMITED_GETS = frozenset({"/health_generate"})


def limiting(allowances: Allowances) -> Middleware:
    """Before the body is read. What goes on in the background takes its permit along (see `RequestRecord`)."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        record = request[RECORD]
        if not _is_limited(request.method, record.route):
            return await handler(request)
        try:
            record.permit = await allowances.admit(request[CALLER])
        except LimitReached as refusal:
            record.limit_headers = refusal.headers
            raise
        record.limit_headers = record.permit.headers
        try:
            return await handler(request)
        finally:
            record.end_permit()

    return middleware


def _is_limited(method: str, route: str) -> bool:
    return route not in FREE_POSTS if method == "POST" else route in LIMITED_GETS
