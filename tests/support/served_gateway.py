"""A gateway that really listens, in front of a FakePipeline."""

import asyncio
import contextlib
import json

import aiohttp
import msgspec

from services.gateway.server import build
from shared.config import Config, GatewayConfig, LoggingConfig, ModelConfig, TracingConfig
from shared.model_card import CARD_FILE, prepared_folder
from shared.service import Context
from tests.support.fake_pipeline import FakePipeline, LoopTransport

TICK_S = 0.01


class ServedGateway:
    """`client` is an aiohttp session whose paths are the gateway's."""

    def __init__(self, folder, card, pieces, settings, logs=None, tracing=None):
        source = folder / "model.gguf"
        source.touch()
        model = ModelConfig(path=str(source), cache_dir=str(folder / "cache"))
        prepared = prepared_folder(model)
        prepared.mkdir(parents=True, exist_ok=True)
        (prepared / CARD_FILE).write_bytes(msgspec.json.encode(card))
        gateway, logging = GatewayConfig(**{"port": 0, **settings}), LoggingConfig(directory=logs)
        tracing = tracing or TracingConfig()
        self.config = Config(run_dir="run", model=model, gateway=gateway, logging=logging, tracing=tracing)
        self.transport = LoopTransport()
        self.failures = []
        context = Context(self.config, "gateway", "gw", self.transport, self.failures.append)
        self.gateway = build(context)
        self.pipeline = FakePipeline(self.transport, self.config, pieces)
        self.client: aiohttp.ClientSession

    @property
    def url(self):
        return f"http://127.0.0.1:{self.gateway.port}"

    @property
    def routes(self):
        return list(self.gateway._runner.app.router.routes())

    async def start(self, *, tokenizers=1):
        """Returns once all stages know each other."""
        await self.gateway.start()
        await self.pipeline.start(tokenizers=tokenizers)
        await self.gateway.refresh()
        self._ticking = asyncio.create_task(self._tick())
        self.client = aiohttp.ClientSession(self.url)
        await self.until(self.is_ready)

    async def stop(self):
        await self.client.close()
        await self.gateway.stop()
        self._ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._ticking

    async def is_ready(self):
        async with self.client.get("/ready") as response:
            return response.status == 200

    async def until(self, condition):
        """Waits for something that other tasks bring about."""
        async with asyncio.timeout(5):
            while not (await condition() if asyncio.iscoroutinefunction(condition) else condition()):
                await asyncio.sleep(TICK_S / 2)

    async def post(self, path, body=None, **more):
        """Status, JSON body, headers."""
        if body is not None:
            more["json"] = body
        async with self.client.post(path, **more) as response:
            return response.status, await response.json(), response.headers

    async def get(self, path, **more):
        async with self.client.get(path, **more) as response:
            return response.status, await response.json(), response.headers

    async def events(self, path, body):
        """The events of a stream, without their names, and how it ended: "[DONE]" or None."""
        async with self.client.post(path, json={**body, "stream": True}) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            text = (await response.read()).decode()
        *frames, rest = text.split("\n\n")
        assert rest == ""
        data = [frame.partition("data: ")[2] for frame in frames]
        done = data.pop() if data[-1] == "[DONE]" else None
        return [json.loads(item) for item in data], done

    async def _tick(self):
        while True:
            self.gateway.tick()
            self.pipeline.tick()
            await asyncio.sleep(TICK_S)


@contextlib.asynccontextmanager
async def serving(
    folder, card, *, pieces=("Hello", ",", " world", "!"), tokenizers=1, logs=None, tracing=None, **settings
):
    """`logs`: the folder of log files; `tracing`: that part of the configuration."""
    served = ServedGateway(folder, card, pieces, settings, logs, tracing)
    await served.start(tokenizers=tokenizers)
    try:
        yield served
    finally:
        await served.stop()
