"""Which web pages may use the server. Knows origins and the headers of browsers; does not know keys or routes.

A browser names the page's origin with every request that a page makes to another site, but for plain GETs. The rule:

- A request that names an origin that is not allowed is refused (403), whatever its method and its content type: a
  `text/plain` body goes out without a preflight, and it would be served although the page could not read the reply.
- One without an origin that the browser calls cross-site (an image, a form of old, a link) is refused likewise.
- One with neither comes from no page: programs are not asked where they come from.

Allowed is what `gateway.cors_origins` lists. By default, where API keys are needed it is every origin, since a page has
to know a key; where none are needed, pages of this machine alone, or any page on the web could use the server of
whoever looks at it. The origin `null` (sandboxed frames, files) is nobody's, so it is allowed only where all are.
The name that the request calls the server by proves nothing here; `hosts` is about pages that call this machine so.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from services.gateway.errors import ApiError
from shared import wire
from shared.config import ConfigError, GatewayConfig

ANY = "*"
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
METHODS = "GET, HEAD, POST, DELETE, OPTIONS"
LIMIT_HEADERS = [
    f"x-ratelimit-{part}-{what}" for what in ("requests", "tokens") for part in ("limit", "remaining", "reset")
]
EXPOSED = ", ".join(["x-request-id", "request-id", "retry-after", "x-should-retry", *LIMIT_HEADERS])
MAX_AGE_S = "7200"  # no browser remembers a preflight for longer

FORBIDDEN = wire.Error("pages of this origin may not use this server: see gateway.cors_origins", "origin", status=403)


class Origins:
    """Args:
    allowed: None for pages of this machine.
    """

    def __init__(self, allowed: tuple[str, ...] | None) -> None:
        self._allowed = allowed

    @classmethod
    def of(cls, config: GatewayConfig, *, needs_key: bool) -> Origins:
        """Raises ConfigError for what is no origin."""
        for origin in config.cors_origins or ():
            if origin != ANY and not _is_origin(origin):
                raise ConfigError(f"gateway.cors_origins: {origin!r} is no origin, such as https://example.com")
        default = (ANY,) if needs_key else None
        return cls(default if config.cors_origins is None else config.cors_origins)

    def allow(self, origin: str) -> bool:
        if self._allowed is None:
            return _is_local(origin)
        return ANY in self._allowed or origin in self._allowed

    def admit(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers may be served."""
        origin = headers.get("Origin")
        if origin is not None:
            return self.allow(origin)
        return headers.get("Sec-Fetch-Site") != "cross-site" or self.allow("null")

    def headers(self, origin: str | None) -> dict[str, str]:
        """Of every reply, so that the page may read it."""
        if origin is None or not self.allow(origin):
            return {"Vary": "Origin"}
        return {"Vary": "Origin", "Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": EXPOSED}


def cross_origin(origins: Origins) -> Middleware:
    """Before keys are looked at, for a preflight carries none."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not origins.admit(request.headers):
            raise ApiError(FORBIDDEN)
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            return web.Response(status=204, headers=_preflight(request.headers))
        return await handler(request)

    return middleware


def _preflight(asked: Mapping[str, str]) -> dict[str, str]:
    """Whatever headers are asked for: every SDK has some of its own, and none of them opens anything here."""
    headers = {
        "Access-Control-Allow-Methods": METHODS,
        "Access-Control-Allow-Headers": asked.get("Access-Control-Request-Headers", ANY),
        "Access-Control-Max-Age": MAX_AGE_S,
    }
    if asked.get("Access-Control-Request-Private-Network") == "true":
        headers["Access-Control-Allow-Private-Network"] = "true"
    return headers


def _is_local(origin: str) -> bool:
    return _is_origin(origin) and urlsplit(origin).hostname in LOCAL_HOSTS


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    exact = f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "")
    return bool(parts.hostname) and parts.scheme in ("http", "https") and text == exact
