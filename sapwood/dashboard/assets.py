"""The files that the page is made of, read once, and the headers they go out with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import NamedTuple

PAGE = "index.html"

CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

# The page draws what clients caused to be logged, so nothing in it may be run but its own files.
HEADERS = MappingProxyType(
    {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self'; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
)


class Asset(NamedTuple):
    content_type: str
    body: bytes


@cache
def assets() -> Mapping[str, Asset]:
    """By name. There are no others, so a name is never a path."""
    folder = resources.files("sapwood.dashboard") / "page"
    return {
        file.name: Asset(CONTENT_TYPES[file.name.rpartition(".")[2]], file.read_bytes())
        for file in folder.iterdir()
        if file.name.rpartition(".")[2] in CONTENT_TYPES
    }
