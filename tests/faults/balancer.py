"""One address in front of several gateways, as a plain load balancer is: it asks each for /ready, takes turns among
those that say yes, and asks another one where a connection is refused or a gateway that is going away says 503.

Knows HTTP. Once a reply has begun it is the client's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

PROBE_S = 0.2
TRIES = 50


class Balancer:
    def __init__(self, urls: Sequence[str], session: aiohttp.ClientSession) -> None:
        self._urls = urls
        self._session = session
        self._ready: set[str] = set()
        self._turn = 0
        self.passed_on = 0  # requests that another gateway answered than the one that was asked first

    async def probe(self) -> None:
        while True:
            for url in self._urls:
                (self._ready.add if await self._says_ready(url) else self._ready.discard)(url)
            await asyncio.sleep(PROBE_S)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        for attempt in range(TRIES):
            with contextlib.suppress(aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError):
                async with self._session.post(self._next() + request.path, data=body) as reply:
                    if reply.status != 503:
                        self.passed_on += attempt > 0
                        return await _relay(request, reply)
            await asyncio.sleep(PROBE_S / 2)
        return web.Response(status=502)

    def _next(self) -> str:
        self._turn += 1
        ready = [url for url in self._urls if url in self._ready] or self._urls
        return ready[self._turn % len(ready)]

    async def _says_ready(self, url: str) -> bool:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with self._session.get(f"{url}/ready", timeout=aiohttp.ClientTimeout(total=1)) as reply:
                return reply.status == 200
        return False


async def _relay(request: web.Request, reply: aiohttp.ClientResponse) -> web.StreamResponse:
    relayed = web.StreamResponse(status=reply.status, headers={"Content-Type": reply.headers["Content-Type"]})
    await relayed.prepare(request)
    async for chunk in reply.content.iter_any():
        await relayed.write(chunk)
    await relayed.write_eof()
    return relayed


@asynccontextmanager
async def balancer(urls: Sequence[str], port: int) -> AsyncIterator[Balancer]:
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True), timeout=timeout) as session:
        ours = Balancer(urls, session)
        app = web.Application()
        app.router.add_post("/{path:.*}", ours.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        probing = asyncio.create_task(ours.probe())
        try:
            yield ours
        finally:
            probing.cancel()
            await runner.cleanup()
