"""The HTTP application: which routes there are, and what stands around them. Knows aiohttp; the parts are handed in."""

from __future__ import annotations

import time
from pathlib import Path

from aiohttp import web

from services.gateway.bodies import add_bodies
from services.gateway.cache_routes import CacheRoutes
from services.gateway.cors import Origins, cross_origin
from services.gateway.dashboard_routes import DashboardRoutes
from services.gateway.dispatch import Dispatcher
from services.gateway.generation_routes import GenerationRoutes
from services.gateway.hosts import Hosts, known_host
from services.gateway.key_limits import Allowances
from services.gateway.keyring import Keyring
from services.gateway.limiting import limiting
from services.gateway.limits import Limits
from services.gateway.metrics import Metrics
from services.gateway.middleware import accounting, authentication, checked_query, common_headers
from services.gateway.openapi import route as openapi
from services.gateway.operation_routes import OperationRoutes
from services.gateway.response_routes import ResponseRoutes
from services.gateway.response_store import ResponseStore
from services.gateway.serving import Serving
from services.gateway.sglang_metrics import SGLANG
from services.gateway.text_routes import TextRoutes
from services.gateway.trace import Tracing
from services.gateway.vllm_metrics import VLLM
from shared.config import Config
from shared.model_card import ModelCard
from shared.reasoning_format import reasoning_format
from shared.tool_format import tool_format


def make_app(
    dispatcher: Dispatcher, settings: Config, card: ModelCard, keys: Keyring, tracing: Tracing
) -> web.Application:
    config = settings.gateway
    aliases = [SGLANG] * config.sglang_metrics + [VLLM] * config.vllm_metrics
    metrics = Metrics(aliases, model=card.model_id, shows_tenants=not config.public_metrics)
    limits = Limits.of(settings, card)
    hosts = Hosts.of(config, needs_key=keys.are_needed)
    origins = Origins.of(config, needs_key=keys.are_needed)
    app = web.Application(
        middlewares=[
            accounting(metrics, tracing),
            known_host(hosts),
            cross_origin(origins),
            authentication(keys, public_metrics=config.public_metrics),
            limiting(Allowances(config.key_limits.storage)),
            checked_query,
        ],
    )
    app.on_response_prepare.append(common_headers(origins))
    formats = (tool_format(card.chat_template), reasoning_format(card.chat_template))
    serving = Serving(dispatcher, limits, *formats)
    GenerationRoutes(dispatcher, serving).add_to(app.router)
    store = ResponseStore(config.max_stored_responses, config.max_stored_bytes)
    ResponseRoutes(serving, store).add_to(app)
    TextRoutes(dispatcher, limits, card).add_to(app.router)
    CacheRoutes(dispatcher, shows_text=config.show_cached_text).add_to(app.router)
    run_dir = Path(settings.run_dir)
    operations = OperationRoutes(dispatcher, card, limits, metrics, started_s=int(time.time()), run_dir=run_dir)
    operations.add_to(app.router, enable_metrics=config.enable_metrics)
    DashboardRoutes(settings.logging.kept_in(settings.run_dir), dispatcher).add_to(app.router)
    openapi.add_to(app.router, card.model_id)
    add_bodies(app, config)
    return app
