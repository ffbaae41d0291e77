"""Sends prompts to a server, so many at a time, and times what comes back. Any server with /v1/completions will do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from sapwood.backends.http import lines_of
from sapwood.commands.load.reply import Reply

READ_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Load:
    prompts: Sequence[str]
    concurrency: int
    max_tokens: int
    model: str
    ignore_eos: bool = True


async def play(
    client: httpx.AsyncClient, load: Load, on_end: Callable[[Reply], None], *, clock: Callable[[], float]
) -> list[Reply]:
    """A request that fails is in its reply, not raised."""
    gate = asyncio.Semaphore(load.concurrency)

    async def in_turn(prompt: str) -> Reply:
        async with gate:
            reply = await ask(client, load, prompt, clock)
        on_end(reply)
        return reply

    return await asyncio.gather(*map(in_turn, load.prompts))


async def ask(
    client: httpx.AsyncClient, load: Load, prompt: str, clock: Callable[[], float] = time.perf_counter
) -> Reply:
    reply, error = Reply(sent_s=clock()), None
    try:
        async with client.stream("POST", "/v1/completions", json=_body(load, prompt)) as response:
            if response.is_success:
                async for line in lines_of(response):
                    reply.hear(line, clock())
            else:
                text = (await response.aread()).decode(errors="replace")
                error = f"HTTP {response.status_code}: {text[:300]}"
    except (httpx.HTTPError, ValueError) as fault:
        error = f"{type(fault).__name__}: {fault}"
    reply.end(clock(), error)
    return reply


def _body(load: Load, prompt: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": load.model,
        "prompt": prompt,
        "max_tokens": load.max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return body | {"ignore_eos": True} if load.ignore_eos else body
