"""The routes for operators and for clients that look around: health, metrics, models."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from sapwood import __version__
from services.gateway.dispatch import Dispatcher
from services.gateway.errors import ApiError
from services.gateway.generation import GenerateRequest
from services.gateway.limits import Limits
from services.gateway.metrics import CONTENT_TYPE, Metrics
from services.gateway.middleware import CALLER, RECORD
from services.gateway.schemas.openai import check_model
from services.gateway.sse import json_response
from shared import wire
from shared.model_card import ModelCard
from shared.status_files import troubles

SCRAPE_TIMEOUT_S = 0.5  # for the scheduler's figures; without them a scrape shows the last ones
INFO_TIMEOUT_S = 2.0
GENERATE_TIMEOUT_S = 20.0


class OperationRoutes:
    """Args:
    started_s: Unix time, told as the model's time of creation.
    run_dir: where the supervisor of this machine's processes writes down how they are.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        card: ModelCard,
        limits: Limits,
        metrics: Metrics,
        *,
        started_s: int,
        run_dir: Path,
    ) -> None:
        self._dispatcher = dispatcher
        self._card = card
        self._limits = limits
        self._metrics = metrics
        self._started_s = started_s
        self._run_dir = run_dir

    def add_to(self, router: web.UrlDispatcher, *, enable_metrics: bool) -> None:
        router.add_get("/health", self.health)
        router.add_get("/ready", self.ready)
        if enable_metrics:
            router.add_get("/metrics", self.metrics)
        router.add_get("/v1/models", self.models)
        router.add_get("/v1/models/{model_id:.+}", self.model)
        router.add_get("/model_info", self.model_info)
        router.add_get("/get_model_info", self.model_info)
        router.add_get("/health_generate", self.health_generate, allow_head=False)
        router.add_get("/server_info", self.server_info)

    async def health(self, request: web.Request) -> web.Response:
        """Whether every stage is there and gets on; nothing is generated for it."""
        troubles = self._dispatcher.stages.troubles()
        if not troubles:
            return _probed(request, {"version": __version__, "status": "healthy"})
        return _probed(request, {"version": __version__, "status": "unhealthy", "stages": troubles}, 503)

    async def health_generate(self, request: web.Request) -> web.Response:
        """Whether a token really comes. It is one of the caller's requests, before the others of his."""
        try:
            async with asyncio.timeout(GENERATE_TIMEOUT_S):
                error = await self._one_token(request)
        except TimeoutError:
            error = wire.Error(f"no token within {GENERATE_TIMEOUT_S:g} s")
        if error is None:
            return json_response({"version": __version__, "status": "healthy"})
        body = {"version": __version__, "status": "unhealthy", "stages": {"generation": error.message}}
        return json_response(body, 503)

    async def ready(self, request: web.Request) -> web.Response:
        """Whether new work should be sent here."""
        if self._dispatcher.draining:
            return _probed(request, {"status": "draining"}, 503)
        missing, processes = self._dispatcher.stages.missing(), self._unwell_processes()
        if missing:
            reasons = {"missing": list(missing), "stages": missing, **processes}
            return _probed(request, {"status": "not ready", **reasons}, 503)
        return _probed(request, {"status": "ready", **processes})

    async def metrics(self, _request: web.Request) -> web.Response:
        with contextlib.suppress(ApiError):
            self._metrics.scheduler(await self._dispatcher.admin("counters", SCRAPE_TIMEOUT_S))
        self._metrics.stages(self._dispatcher.stages.counts(), self._dispatcher.stages.lost())
        text = self._metrics.text(self._dispatcher.open_requests)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    async def models(self, _request: web.Request) -> web.Response:
        return json_response({"object": "list", "data": [self._model()]})

    async def model(self, request: web.Request) -> web.Response:
        check_model(request.match_info["model_id"], self._limits)
        return json_response(self._model())

    async def model_info(self, _request: web.Request) -> web.Response:
        return json_response(
            {
                "model_path": self._card.source,
                "model_id": self._card.model_id,
                "architecture": self._card.architecture,
                "is_generation": True,
                "max_model_len": self._card.max_model_len,
                "vocab_size": self._card.vocab_size,
            }
        )

    async def server_info(self, _request: web.Request) -> web.Response:
        """Executors check their whole pool for it, between two steps."""
        answer = await self._dispatcher.admin("info", INFO_TIMEOUT_S)
        return json_response(
            {
                "version": __version__,
                "limits": msgspec.to_builtins(self._limits),
                "stages": self._dispatcher.stages.counts(),
                "scheduler": answer["scheduler"],
                "executors": answer["executors"],
            }
        )

    async def _one_token(self, request: web.Request) -> wire.Error | None:
        """What it failed with, if it did."""
        one_token = GenerateRequest(
            sampling=wire.Sampling(seed=0, temperature=0.0),
            text=wire.TextOptions(),
            prompt_token_ids=(self._card.bos_token_id or 0,),
            max_new_tokens=1,
            namespace=request[CALLER].tenant,
            priority=1000,  # the highest
        )
        stream = self._dispatcher.open(request[RECORD].request_id, [one_token])
        try:
            async for _ in stream:
                pass
        finally:
            stream.close()
        return stream.endings[0].error

    def _unwell_processes(self) -> dict[str, Any]:
        """Of this machine, one that crashes again and again among them; nothing is said of those that are well."""
        unwell = {name: trouble._asdict() for name, trouble in troubles(self._run_dir).items()}
        return {"processes": unwell} if unwell else {}

    def _model(self) -> dict[str, Any]:
        return {
            "id": self._card.model_id,
            "object": "model",
            "created": self._started_s,
            "owned_by": "sapwood",
            "max_model_len": self._card.max_model_len,
        }


def _probed(request: web.Request, body: dict[str, Any], status: int = 200) -> web.Response:
    """Who has no key where one is needed is told the status alone."""
    return json_response(body if CALLER in request else {"status": body["status"]}, status)
