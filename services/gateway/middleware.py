"""Around every handler: the request's id and record, who calls, and an answer in its API's shape whatever happens."""

from __future__ import annotations

import secrets
from base64 import b64decode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from services.gateway.cors import Origins
from services.gateway.errors import CLIENT_CLOSED_STATUS, ApiError, Unread, error_form, is_anthropics
from services.gateway.keyring import Caller, Keyring
from services.gateway.metrics import Metrics
from services.gateway.query import read_query
from services.gateway.record import RequestRecord
from services.gateway.sse import FORM, error_response
from services.gateway.trace import Tracing
from services.gateway.traceparent import read_parent
from shared import logging, wire

RECORD = web.RequestKey("record", RequestRecord)
CALLER = web.RequestKey("caller", Caller)
QUERY: web.RequestKey[Any] = web.RequestKey("query")  # see `services.gateway.query`

UNKNOWN = "unknown"  # the route of a path, or of a method, that there is none for
HEALTH = frozenset({"/health", "/ready"})  # open to all
METRICS = "/metrics"
PAGE = frozenset({"/dashboard", "/dashboard/assets/{name}"})
DASHBOARD = PAGE | {"/dashboard/events"}  # browsers give its key as a password
PROBES = HEALTH | PAGE | {METRICS}  # not worth a log line
ADMIN_ROUTES = DASHBOARD | {"/cache", "/flush_cache", "/server_info", METRICS}  # they tell of all, or touch all

INTERNAL = wire.Error("the server made a mistake", "internal_error", status=500)
BROKEN_BODY = wire.Error("the body cannot be read", "invalid_body")
HOW = "Authorization: Bearer KEY, or x-api-key: KEY"
NO_KEY = wire.Error(f"an API key is needed: {HOW}", "invalid_api_key", status=401)
TWO_KEYS = wire.Error("a header with a key is there more than once", "invalid_api_key", status=401)
WRONG_KEY = wire.Error("this API key is not known here", "invalid_api_key", status=401)
NO_ADMIN = wire.Error(f"this route needs the admin key: {HOW}", "admin_required", status=403)
NO_PASSWORD = wire.Error(
    "the dashboard needs the admin key: as the password, with any user name", "invalid_api_key", status=401
)

SERVER = "sapwood"  # aiohttp would name its version, and Python's
UNAUTHORIZED = 401
CHALLENGE = {"WWW-Authenticate": "Bearer"}
DASHBOARD_CHALLENGE = {"WWW-Authenticate": 'Basic realm="Sapwood", charset="UTF-8"'}  # the browser asks
KEY_HEADERS = ("x-api-key", "api-key")  # of clients of Anthropic's, and of Azure's


def new_request_id() -> str:
    return secrets.token_hex(16)


def accounting(metrics: Metrics, tracing: Tracing) -> Middleware:
    """One record per request; it ends in one log line."""
    log = logging.get()

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        route, parent = _route(request), read_parent(request.headers.getall("traceparent", []))
        trace = tracing.begin(request.method, route, parent)
        record = request[RECORD] = RequestRecord(new_request_id(), route, metrics, trace=trace)
        request[FORM] = error_form(request.path, record.request_id)
        status = CLIENT_CLOSED_STATUS  # what it is if nothing comes back from the handler
        try:
            response = await _answer(request, handler, log)
            status = response.status
            return response
        finally:
            if record.route not in PROBES:
                log.info("request", **record.close(status))

    return middleware


def authentication(keys: Keyring, *, public_metrics: bool) -> Middleware:
    """Before anything is said of a path: who has no key does not learn which there are."""
    open_routes = HEALTH | ({METRICS} if public_metrics else set())

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        route = request[RECORD].route
        token = None
        if _is_clear(request):
            token = _token(request) or (_password(request) if route in DASHBOARD else None)
        elif route not in open_routes:
            raise ApiError(TWO_KEYS)
        caller = keys.identify(token)
        if caller is not None:
            request[CALLER] = caller
            request[RECORD].tenant = caller.tenant
        if route in open_routes:
            return await handler(request)
        if route in DASHBOARD and (caller is None or not caller.is_admin):
            raise ApiError(NO_PASSWORD)
        if caller is None:
            raise ApiError(NO_KEY if token is None else WRONG_KEY)
        if route in ADMIN_ROUTES and not caller.is_admin:
            raise ApiError(NO_ADMIN)
        return await handler(request)

    return middleware


@web.middleware
async def checked_query(request: web.Request, handler: Handler) -> web.StreamResponse:
    route = request[RECORD].route
    if route not in PROBES and route != UNKNOWN:  # callers of probes add what they like
        request[QUERY] = read_query(route, request.query)
    return await handler(request)


def common_headers(origins: Origins) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """A signal: it also reaches responses that stream."""

    async def add(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(origins.headers(request.headers.get("Origin")))
        response.headers["Server"] = SERVER
        record = request.get(RECORD)
        if record is not None:
            response.headers["x-request-id"] = record.request_id
            response.headers.update(record.limit_headers)
            if is_anthropics(request.path):
                response.headers["request-id"] = record.request_id

    return add


async def _answer(request: web.Request, handler: Handler, log: Any) -> web.StreamResponse:
    try:
        return await handler(request)
    except Unread as error:
        return _last_answer(request, error.error)
    except web.RequestPayloadError:
        return _last_answer(request, BROKEN_BODY)
    except ApiError as error:
        request[RECORD].error = error.error.code
        return error_response(request, error.error, _challenge(request, error.error))
    except web.HTTPException as error:
        return _translate(request, error)
    except ConnectionError:
        raise  # the client is gone
    except Exception:
        log.exception("internal_error", **request[RECORD].name())
        request[RECORD].error = INTERNAL.code
        return error_response(request, INTERNAL)


def _challenge(request: web.Request, error: wire.Error) -> dict[str, str] | None:
    if error.status != UNAUTHORIZED:
        return None
    return DASHBOARD_CHALLENGE if request[RECORD].route in DASHBOARD else CHALLENGE


def _last_answer(request: web.Request, error: wire.Error) -> web.Response:
    """Of a connection where nobody knows where the next request would begin."""
    request[RECORD].error = error.code
    response = error_response(request, error)
    response.force_close()
    return response


def _translate(request: web.Request, error: web.HTTPException) -> web.Response:
    """aiohttp's own refusals are plain text."""
    headers = None
    match error:
        case web.HTTPNotFound():
            hint = "; see /dashboard, and /openapi.json for the routes" if request.path == "/" else ""
            refused = wire.Error(f"there is no {request.path[:256]}{hint}", "not_found", status=404)
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            message = f"{request.method[:32]} is not allowed here, only {allowed}"
            refused, headers = wire.Error(message, "method_not_allowed", status=405), {"Allow": allowed}
        case _:
            refused = wire.Error(error.reason, "http_error", status=error.status)
    request[RECORD].error = refused.code
    return error_response(request, refused, headers)


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else UNKNOWN


def _is_clear(request: web.Request) -> bool:
    """Of two headers of a kind, what stands before this server may have read the other one."""
    return all(len(request.headers.getall(name, [])) <= 1 for name in ("Authorization", *KEY_HEADERS))


def _token(request: web.Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    tokens = [token if scheme.lower() == "bearer" else ""] + [request.headers.get(name, "") for name in KEY_HEADERS]
    return next((token.strip() for token in tokens if token.strip()), None)


def _password(request: web.Request) -> str | None:
    """Of HTTP Basic. Browsers add it to what pages of other sites send, so no route may take it that does anything."""
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    with suppress(ValueError):
        return b64decode(credentials.strip(), validate=True).decode().partition(":")[2]
    return None
