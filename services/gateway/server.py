"""The gateway as a service: its life from start through drain to stop."""

from __future__ import annotations

import asyncio
import signal

from aiohttp import web

from services.gateway.app import make_app
from services.gateway.dispatch import Dispatcher
from services.gateway.http_server import Runner
from services.gateway.keyring import Keyring
from services.gateway.trace import Tracing
from services.gateway.tracing import open_tracing
from shared import logging, wire
from shared.config import ConfigError
from shared.exposure import exposure
from shared.model_card import load_card
from shared.service import Context

BACKLOG = 1024
LAST_WRITES_S = 2.0  # for handlers to send their last bytes once all requests have ended


class Gateway:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._config = context.config.gateway
        self._keys: Keyring  # from start() on
        self._dispatcher: Dispatcher
        self._runner: Runner
        self._tracing: Tracing

    async def start(self) -> None:
        card = load_card(self._context.config.model)
        self._keys = Keyring(self._config)
        if found := exposure(self._config):
            raise ConfigError(found)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._read_keys)
        if self._keys.count:
            self._tell_keys()
        self._tracing = open_tracing(self._context.config.tracing, self._context.name, card.model_id)
        self._dispatcher = Dispatcher(self._context)
        app = make_app(self._dispatcher, self._context.config, card, self._keys, self._tracing)
        app.on_response_prepare.append(self._send_elsewhere)
        self._runner = Runner(
            app,
            self._config,
            handler_cancellation=True,  # a client that goes away cancels its handler, which frees the work
            shutdown_timeout=LAST_WRITES_S,
        )
        await self._runner.setup()
        await self._listen()

    async def stop(self) -> None:
        """Take nothing new, let open requests end, then end what is left."""
        self._dispatcher.draining = True
        try:
            await asyncio.wait_for(self._dispatcher.idle.wait(), self._config.drain_timeout_s)
        except TimeoutError:
            self._dispatcher.end_all()
        await self._runner.cleanup()
        self._dispatcher.close()
        await self._tracing.close()

    def tick(self) -> None:
        self._dispatcher.tick()

    async def refresh(self) -> None:
        await self._dispatcher.refresh()

    def progress(self) -> wire.Progress:
        return self._dispatcher.progress()

    @property
    def port(self) -> int:
        """The one that is really listened on."""
        port: int = self._runner.addresses[0][1]
        return port

    def _read_keys(self) -> None:
        """Anew: who has been given a key may come in, and whose key is gone may not come again."""
        try:
            self._keys.read()
        except ConfigError as error:
            logging.get().error("keys_refused", reason=str(error))
        else:
            self._tell_keys()

    def _tell_keys(self) -> None:
        keys, log = self._keys, logging.get()
        log.info("keys", count=keys.count, tenants=keys.tenants)
        if keys.limits_of_nobody:
            log.warning("limits_of_nobody", names=keys.limits_of_nobody)

    async def _send_elsewhere(self, _request: web.Request, response: web.StreamResponse) -> None:
        """While it drains, what a client asks next is for another gateway: no connection is kept."""
        if self._dispatcher.draining:
            response.headers["Connection"] = "close"
            response.force_close()

    async def _listen(self) -> None:
        host, port = self._config.host, self._config.port
        try:
            await web.TCPSite(self._runner, host, port, backlog=BACKLOG).start()
        except OSError as error:
            raise ConfigError(f"gateway: cannot listen on {host}:{port}: {error.strerror or error}") from error


def build(context: Context) -> Gateway:
    return Gateway(context)
