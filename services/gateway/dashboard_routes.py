"""The dashboard: its page, and the log lines it draws. Who may see them is decided before.

Lines come from the folder that every process of the deployment writes its log to. What stands in them only the page
knows.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from aiohttp import web

from sapwood.dashboard import events
from sapwood.dashboard.assets import HEADERS, PAGE, Asset, assets
from sapwood.dashboard.log_reader import LogReader
from services.gateway.dispatch import Dispatcher
from services.gateway.errors import ApiError
from shared import wire

HISTORY_BYTES = 16 * 1024 * 1024  # of each process's log

NO_PART = wire.Error("the dashboard has no such part", "not_found", status=404)
NO_LOGS = wire.Error("no log is kept here: see logging.directory", "no_logs", status=404)


class DashboardRoutes:
    """Args:
    folder: of the log files; None: there is none.
    """

    def __init__(self, folder: Path | None, dispatcher: Dispatcher) -> None:
        self._folder = folder
        self._dispatcher = dispatcher

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/dashboard", self.page)
        router.add_get("/dashboard/assets/{name}", self.asset)
        router.add_get("/dashboard/events", self.events, allow_head=False)

    async def page(self, _request: web.Request) -> web.Response:
        return _response(assets()[PAGE])

    async def asset(self, request: web.Request) -> web.Response:
        found = assets().get(request.match_info["name"])
        if found is None:
            raise ApiError(NO_PART)
        return _response(found)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """All lines of late, then new ones as they are written, until the client goes or the gateway ends."""
        if self._folder is None:
            raise ApiError(NO_LOGS)
        response = web.StreamResponse(headers={**events.HEADERS, "Content-Type": events.CONTENT_TYPE})
        await response.prepare(request)
        with contextlib.closing(LogReader(self._folder, history_bytes=HISTORY_BYTES)) as reader:
            while not self._dispatcher.draining:
                portions = reader.read()
                while (lines := await asyncio.to_thread(next, portions, None)) is not None:
                    await response.write(events.event(lines))
                await response.write(events.NOTHING_NEW)
                await asyncio.sleep(events.POLL_S)
        return response


def _response(asset: Asset) -> web.Response:
    return web.Response(body=asset.body, headers={**HEADERS, "Content-Type": asset.content_type})
