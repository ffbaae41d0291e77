"""Which names a gateway without API keys answers to. Knows the header Host; does not know keys or routes.

A web page can let its own name resolve to this machine, and then it is of the server's own origin (DNS rebinding).
What gives it away is the name that the browser calls the server by: it is the page's. So a server that asks nobody for
a key answers to addresses and to localhost alone, to the name that it is told to listen on, and to what
`gateway.allowed_hosts` lists. Where a key is needed a page has none, and every name will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from services.gateway.errors import ApiError
from shared import wire
from shared.addresses import is_address
from shared.config import GatewayConfig

ANY = "*"

MISDIRECTED = wire.Error(
    "this server does not go by the name in the header Host: see gateway.allowed_hosts", "unknown_host", status=421
)


class Hosts:
    """Args:
    names: beside addresses and localhost; None: all.
    """

    def __init__(self, names: Sequence[str] | None) -> None:
        self._names = None if names is None else {"localhost", *map(_bare, names)}

    @classmethod
    def of(cls, config: GatewayConfig, *, needs_key: bool) -> Hosts:
        takes_all = needs_key or ANY in config.allowed_hosts
        return cls(None if takes_all else (config.host, *config.allowed_hosts))

    def admit(self, header: str) -> bool:
        """Args:
        header: with or without a port.
        """
        if self._names is None:
            return True
        try:
            name = urlsplit(f"//{header}").hostname or ""
        except ValueError:
            return False
        return is_address(name) or _bare(name) in self._names


def known_host(hosts: Hosts) -> Middleware:
    """A program of old that names no host comes from no page."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not all(map(hosts.admit, request.headers.getall(hdrs.HOST, ()))):
            raise ApiError(MISDIRECTED)
        return await handler(request)

    return middleware


def _bare(name: str) -> str:
    return name.lower().removesuffix(".")
