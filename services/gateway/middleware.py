"""Around every handler: the request's id and record, who calls, and an answer in OpenAI's shape whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from services.gateway.errors import CLIENT_CLOSED_STATUS, ApiError
from services.gateway.limits import Caller, Keyring
from services.gateway.metrics import Metrics
from services.gateway.record import RequestRecord
from services.gateway.sse import error_response
from shared import logging, wire

RECORD = web.RequestKey("record", RequestRecord)
CALLER = web.RequestKey("caller", Caller)

PROBES = frozenset({"/health", "/ready", "/metrics"})  # open to all, and not worth a log line
ADMIN_ROUTES = frozenset({"/cache", "/flush_cache", "/server_info"})  # each makes an executor stop between two steps

INTERNAL = wire.Error("the server made a mistake", "internal_error", status=500)
NO_KEY = wire.Error("an API key is needed: Authorization: Bearer KEY", "invalid_api_key", status=401)
WRONG_KEY = wire.Error("this API key is not known here", "invalid_api_key", status=401)
NO_ADMIN = wire.Error("this route needs the admin key", "admin_required", status=403)


def accounting(new_request_id: Callable[[], str], metrics: Metrics) -> Middleware:
    """One record per request; it ends in one log line."""
    log = logging.get()

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        record = request[RECORD] = RequestRecord(new_request_id(), _route(request), metrics)
        status = CLIENT_CLOSED_STATUS  # what it is if nothing comes back from the handler
        try:
            response = await _answer(request, handler, log)
            status = response.status
            return response
        finally:
            if record.route not in PROBES:
                log.info("request", **record.close(status))

    return middleware


def authentication(keys: Keyring) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        route = request[RECORD].route
        if route in PROBES:
            return await handler(request)
        token = _bearer(request)
        caller = keys.identify(token)
        if caller is None:
            raise ApiError(NO_KEY if token is None else WRONG_KEY)
        if route in ADMIN_ROUTES and not caller.is_admin:
            raise ApiError(NO_ADMIN)
        request[CALLER] = caller
        request[RECORD].tenant = caller.tenant
        return await handler(request)

    return middleware


async def add_request_id(request: web.Request, response: web.StreamResponse) -> None:
    """A signal: it also reaches responses that stream."""
    record = request.get(RECORD)
    if record is not None:
        response.headers["x-request-id"] = record.request_id


async def _answer(request: web.Request, handler: Handler, log: Any) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        return error_response(error.error)
    except web.HTTPException as error:
        return _translate(request, error)
    except web.RequestPayloadError:
        return error_response(wire.Error("the body cannot be read", "invalid_body"))
    except ConnectionError:
        raise  # the client is gone
    except Exception:
        log.exception("internal_error", request_id=request[RECORD].request_id)
        return error_response(INTERNAL)


def _translate(request: web.Request, error: web.HTTPException) -> web.Response:
    """aiohttp's own refusals are plain text."""
    match error:
        case web.HTTPNotFound():
            return error_response(wire.Error(f"there is no {request.path[:256]}", "not_found", status=404))
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            message = f"{request.method} is not allowed here, only {allowed}"
            return error_response(wire.Error(message, "method_not_allowed", status=405), {"Allow": allowed})
        case web.HTTPRequestEntityTooLarge():
            return error_response(wire.Error("the body is too large", "request_too_large", status=413))
        case _:
            return error_response(wire.Error(error.reason, "http_error", status=error.status))


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "unknown"


def _bearer(request: web.Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None
