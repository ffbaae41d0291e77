"""`sapwood dashboard`: what a server does, drawn from its log. A folder of logs and a saved log file need no server."""

from __future__ import annotations

import argparse
import contextlib
import os
import webbrowser
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

import httpx

from sapwood.commands import connection
from sapwood.dashboard.server import DashboardServer

TIMEOUT_S = 10.0
MOST_PREAMBLE_BYTES = 4 << 20  # other words before the first line


def main(argv: Sequence[str]) -> int:
    arguments = _parse(argv)
    if arguments.place.startswith(("http://", "https://")):
        return _of_server(arguments.place.rstrip("/"), opens=arguments.open)
    return _of_log(Path(arguments.place), arguments.port, opens=arguments.open)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sapwood dashboard", description="What a server does, drawn from its log.")
    parser.add_argument(
        "place",
        nargs="?",
        default=connection.DEFAULT_URL,
        metavar="FOLDER|FILE|URL",
        help=f"a folder of log files, a saved log, or a server ({connection.DEFAULT_URL})",
    )
    parser.add_argument("--port", type=int, default=0, help="of this machine, for a folder or file (any that is free)")
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    return parser.parse_args(argv)


def _of_server(url: str, *, opens: bool) -> int:
    """It has the page itself. Where it needs the admin key, the browser asks for it."""
    page = f"{url.removesuffix('/dashboard')}/dashboard"
    try:
        response = httpx.get(page, timeout=TIMEOUT_S)
        if response.status_code != HTTPStatus.UNAUTHORIZED:
            response.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return connection.unreachable(url, error) if isinstance(error, httpx.HTTPError) else _failed(str(error))
    _show(page, opens=opens)
    return 0


def _of_log(place: Path, port: int, *, opens: bool) -> int:
    if not os.access(place, os.R_OK):
        return _failed(f"{place} cannot be read" if place.exists() else f"there is no {place}")
    if not _has_lines(place):
        return _failed(f"there is no log line in {place}: each is a JSON object, as with --log-format json")
    try:
        server = DashboardServer(place, port)
    except (OSError, OverflowError) as error:
        return _failed(f"port {port}: {error}")
    with server:
        _show(server.url, opens=opens)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


def _has_lines(place: Path) -> bool:
    """Or may have: a folder, what is no plain file, and a file that is empty as yet."""
    if not place.is_file():
        return True
    with place.open("rb") as file:
        beginning = file.read(MOST_PREAMBLE_BYTES).strip()
    return not beginning or any(line.startswith(b"{") and b'"event":' in line for line in beginning.splitlines())


def _show(url: str, *, opens: bool) -> None:
    print(url, flush=True)
    if opens:
        webbrowser.open(url)


def _failed(message: str) -> int:
    connection.complain(message)
    return connection.EXIT_FAILED
