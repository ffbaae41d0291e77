"""What `sapwood doctor` asks a server over HTTP: whether it is there, all its stages, and a token. Knows no machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from sapwood._version import __version__
from sapwood.commands.findings import Finding, failed, ok, skipped, warning

MOST_SKEW_S = 5.0

KEY = "give a key: --api-key, or SAPWOOD_API_KEY"
NOT_READY = {
    "draining": "it is being stopped: send new work elsewhere",
    "not ready": "its log says why a stage is missing; sapwood health on the machine of that stage",
}


def check_server(client: httpx.Client) -> Iterator[Finding]:
    try:
        health = client.get("/health")
    except httpx.HTTPError as error:
        says = f"no answer from {client.base_url} ({str(error) or type(error).__name__})"
        yield failed("gateway", says, "start one with `sapwood serve`, or say where it is with --url")
        return
    body = _body(health)
    if "status" not in body:
        says = f"{client.base_url} answers HTTP {health.status_code}, not as a gateway does"
        yield failed("gateway", says, "another server listens there: say where the gateway is with --url")
        return
    yield ok("gateway", f"answers at {client.base_url}")
    yield from _server_version(body)
    yield from _clock(health)
    yield from _stages(client, body)
    yield _token(client)


def _server_version(body: Mapping[str, Any]) -> Iterator[Finding]:
    version = body.get("version")
    if version is None:
        yield skipped("server version", "told to holders of a key", KEY)
    elif version != __version__:
        yield warning("server version", f"{version} there, {__version__} here", "install the same version")
    else:
        yield ok("server version", f"{version}, as here")


def _clock(answer: httpx.Response) -> Iterator[Finding]:
    """Its date has whole seconds."""
    try:
        there_s = parsedate_to_datetime(answer.headers["Date"]).timestamp()
    except (KeyError, ValueError):
        return
    skew_s = abs(time.time() - there_s)
    if skew_s > MOST_SKEW_S:
        yield warning("clock", f"{skew_s:.0f} s away from the server's", "set both by NTP: log lines go by them")
    else:
        yield ok("clock", "the same as the server's")


def _stages(client: httpx.Client, health: Mapping[str, Any]) -> Iterator[Finding]:
    for stage, trouble in health.get("stages", {}).items():
        yield failed(stage, str(trouble), f"look at the log of the {stage}; sapwood health on its machine")
    ready = _body(client.get("/ready"))
    status = str(ready.get("status", "unknown"))
    if health["status"] == "healthy" and status == "ready":
        yield ok("stages", "all are there, and make progress")
    elif status != "ready" or not health.get("stages"):
        says = status if status != "ready" else str(health["status"])
        yield failed("stages", says, NOT_READY.get(says, "its log says why"))


def _token(client: httpx.Client) -> Finding:
    started_s = time.monotonic()
    answer = client.get("/health_generate")
    if answer.status_code == 200:
        return ok("a token", f"generated in {time.monotonic() - started_s:.2f} s")
    if answer.status_code in (401, 403):
        return skipped("a token", "not asked for without a key", KEY)
    stages = _body(answer).get("stages", {})
    return failed("a token", f"HTTP {answer.status_code} {stages.get('generation', '')}".strip(), "its log says why")


def _body(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
