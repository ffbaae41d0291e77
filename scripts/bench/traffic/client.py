"""Sends a workload to a server and times what comes back. Greedy, streamed, of exact lengths where the server allows.

Knows sockets and the clock; only this machine's own addresses are allowed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from .reply import Reply
from .report import summarise
from .words import words
from .workload import Workload

WARM_UP_WORDS, WARM_UP_TOKENS = 16, 8


@dataclass(frozen=True)
class Target:
    """A server and how to speak to it."""

    url: str
    model: str
    extra: dict[str, Any] = field(default_factory=dict)  # of every request's body
    ignore_eos: bool = True
    read_timeout_s: float = 170.0
    deadline_s: float = 170.0  # for all phases together


async def play(target: Target, workload: Workload, seed: int, *, warm_up: bool = True) -> dict[str, Any]:
    """All phases, one behind the other. Those that are through by the deadline are in the report, with "stopped"."""
    report: dict[str, Any] = {
        "base_url": target.url,
        "model": target.model,
        "workload": workload.name,
        "concurrency": workload.concurrency,
        "max_tokens": workload.new_tokens,
        "seed": seed,
        "phases": {},
    }
    limits = httpx.Limits(max_connections=workload.concurrency + 4)
    timeout = httpx.Timeout(target.read_timeout_s)
    async with httpx.AsyncClient(base_url=target.url, timeout=timeout, limits=limits, trust_env=False) as client:
        if warm_up:
            await ask(client, target, words(random.Random(f"warmup {seed}"), WARM_UP_WORDS), WARM_UP_TOKENS)
        try:
            async with asyncio.timeout(target.deadline_s):
                for name, prompts in workload.prompts(seed).items():
                    report["phases"][name] = await _phase(client, target, workload, prompts)
        except TimeoutError:
            report["stopped"] = f"not finished in {target.deadline_s} s: later phases are missing"
    return report


async def ask(client: httpx.AsyncClient, target: Target, prompt: str, new_tokens: int) -> Reply:
    """One request. A failure is in the reply, not raised."""
    reply, error = Reply(sent_s=time.perf_counter()), None
    try:
        async with client.stream("POST", "/v1/completions", json=_body(target, prompt, new_tokens)) as response:
            if response.status_code != 200:
                text = (await response.aread()).decode("utf-8", "replace")
                raise RuntimeError(f"HTTP {response.status_code}: {text[:300]}")
            async for line in response.aiter_lines():
                if not reply.hear(line, time.perf_counter()):
                    break
    except (httpx.HTTPError, RuntimeError, ValueError) as fault:
        error = f"{type(fault).__name__}: {fault}"
    reply.end(time.perf_counter(), error)
    return reply


async def _phase(
    client: httpx.AsyncClient, target: Target, workload: Workload, prompts: Sequence[str]
) -> dict[str, Any]:
    gate = asyncio.Semaphore(workload.concurrency)

    async def in_turn(prompt: str) -> Reply:
        async with gate:
            return await ask(client, target, prompt, workload.new_tokens)

    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    replies = await asyncio.gather(*map(in_turn, prompts))
    wall_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    return summarise(replies, wall_s=wall_s, client_cpu_s=cpu_s)


def _body(target: Target, prompt: str, new_tokens: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": target.model,
        "prompt": prompt,
        "max_tokens": new_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if target.ignore_eos:
        body["ignore_eos"] = True
    return body | target.extra


def own_address(url: str) -> str:
    """The server's root, without /v1. Raises ValueError unless it is on this machine."""
    host = urlsplit(url).hostname or ""
    if host != "localhost":
        try:
            loopback = ipaddress.ip_address(host).is_loopback
        except ValueError:
            loopback = False
        if not loopback:
            raise ValueError(f"{url!r}: only addresses of this machine are allowed")
    return url.rstrip("/").removesuffix("/v1")
