"""The dashboard of a log on this machine: its page and its lines, to browsers of this machine alone.

Pages of other sites get nothing: their name shows in the header Host, even if it leads here. Knows HTTP as far as
Python's own server does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from sapwood.dashboard import events
from sapwood.dashboard.assets import HEADERS, PAGE, Asset, assets
from sapwood.dashboard.log_reader import LogReader

HOST = "127.0.0.1"
OUR_NAMES = frozenset({"127.0.0.1", "localhost"})
ASSETS = "/dashboard/assets/"


class DashboardServer(ThreadingHTTPServer):
    """Args:
    place: a log file, or a folder of them.
    """

    daemon_threads = True

    def __init__(self, place: Path, port: int, sleep: Callable[[float], None] = time.sleep) -> None:
        super().__init__((HOST, port), _Handler)
        self.place = place
        self.sleep = sleep

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/dashboard"


class _Handler(BaseHTTPRequestHandler):
    server: DashboardServer

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if not self._is_ours():
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
        elif path == "/":
            self._redirect()
        elif path == "/dashboard":
            self._send(assets()[PAGE])
        elif path == "/dashboard/events":
            with suppress(ConnectionError):
                self._follow()
        elif path.startswith(ASSETS) and path.removeprefix(ASSETS) in assets():
            self._send(assets()[path.removeprefix(ASSETS)])
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, *_: object) -> None:
        """Nobody wants to read that."""

    def _is_ours(self) -> bool:
        with suppress(ValueError):
            return urlsplit(f"//{self.headers.get('Host', '')}").hostname in OUR_NAMES
        return False

    def _redirect(self) -> None:
        self.send_response(HTTPStatus.FOUND)
        self.send_header("Location", "/dashboard")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, asset: Asset) -> None:
        self.send_response(HTTPStatus.OK)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", asset.content_type)
        self.send_header("Content-Length", str(len(asset.body)))
        self.end_headers()
        self.wfile.write(asset.body)

    def _follow(self) -> None:
        """Until the browser is gone."""
        self.send_response(HTTPStatus.OK)
        for name, value in events.HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", events.CONTENT_TYPE)
        if self.server.place.is_file():
            self.send_header("Sapwood-Log", "saved")
        self.end_headers()
        with closing(LogReader(self.server.place)) as reader:
            while True:
                for lines in reader.read():
                    self.wfile.write(events.event(lines))
                self.wfile.write(events.NOTHING_NEW)
                self.server.sleep(events.POLL_S)
