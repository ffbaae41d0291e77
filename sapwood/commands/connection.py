"""The options by which a command finds its server, and what every command says when it does not."""

from __future__ import annotations

import argparse
import os
import sys

import httpx

from sapwood._version import __version__
from sapwood.errors import ConnectionFailed, SapwoodError, ServerError

DEFAULT_PORT = 30000
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
EXIT_UNAVAILABLE = 69
EXIT_INTERRUPTED = 130
EXIT_FAILED = 1

UNAUTHORIZED, FORBIDDEN = 401, 403

MAX_RETRIES = 1  # somebody waits at the terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", type=_root, default=DEFAULT_URL, help=f"the server ({DEFAULT_URL})")
    key = os.environ.get("SAPWOOD_API_KEY")
    parser.add_argument(
        "--api-key", type=_key, default=key, help="the key, where the server asks for one (SAPWOOD_API_KEY)"
    )


def client_options(arguments: argparse.Namespace) -> dict[str, object]:
    """For httpx.Client and httpx.AsyncClient."""
    headers = {"User-Agent": f"sapwood/{__version__}"}
    if arguments.api_key:
        headers["Authorization"] = f"Bearer {arguments.api_key}"
    return {"base_url": arguments.url, "headers": headers}


def complain(message: str) -> None:
    print(f"sapwood: {message}", file=sys.stderr)


def unreachable(url: str, error: httpx.HTTPError, *, needs: str = "a key that it knows") -> int:
    """Says so, and which key was needed if it was that. The exit code."""
    if isinstance(error, httpx.HTTPStatusError):
        if error.response.status_code in (UNAUTHORIZED, FORBIDDEN):
            return _without_key(error.request.url, error.response.status_code, needs)
        complain(f"{error.request.url} answers HTTP {error.response.status_code}: {error.response.text[:300]}")
    else:
        complain(f"no answer from {url} ({str(error) or type(error).__name__}); is a server there? sapwood serve")
    return EXIT_UNAVAILABLE


def failed(error: SapwoodError) -> int:
    """Says so. The exit code."""
    if isinstance(error, ConnectionFailed):
        complain(f"{error}; is a server there? sapwood serve")
        return EXIT_UNAVAILABLE
    if isinstance(error, ServerError) and error.status == UNAUTHORIZED:
        return _without_key("the server", error.status, "a key that it knows")
    complain(str(error))
    return EXIT_FAILED


def _without_key(who: object, status: int, needs: str) -> int:
    complain(f"{who} answers HTTP {status}: it needs {needs}: --api-key or SAPWOOD_API_KEY")
    return EXIT_FAILED


def _root(url: str) -> str:
    """Without /v1, which commands add where it belongs."""
    if not url.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{url!r} is no http:// or https:// address")
    try:
        httpx.URL(url)
    except httpx.InvalidURL as error:
        raise argparse.ArgumentTypeError(f"{url!r}: {error}") from error
    return url.rstrip("/").removesuffix("/v1")


def _key(key: str) -> str:
    if not key.isascii():
        raise argparse.ArgumentTypeError("a key has no letters outside ASCII")
    return key
