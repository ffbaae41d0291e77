"""Steady load: clients that ask again as soon as they are answered, through several routes, and keep count.

Knows what a whole answer is. Does not know why one might fail.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.faults.workload import events

CLIENTS = 8
TOKENS = 16


@dataclass
class Count:
    answered: int = 0
    failures: list[str] = field(default_factory=list)


@asynccontextmanager
async def steady_load(url: str) -> AsyncIterator[Count]:
    """From the first answer on until the block is left; then what is open is waited for."""
    count = Count()
    stop, begun = asyncio.Event(), asyncio.Event()
    numbers = itertools.count()
    connector = aiohttp.TCPConnector(force_close=True)  # each request may be sent elsewhere
    async with aiohttp.ClientSession(url, connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:
        clients = [asyncio.create_task(_ask_on(session, numbers, count, begun, stop)) for _ in range(CLIENTS)]
        try:
            await begun.wait()
            yield count
        finally:
            stop.set()
            await asyncio.gather(*clients)


async def _ask_on(
    session: aiohttp.ClientSession, numbers: Iterator[int], count: Count, begun: asyncio.Event, stop: asyncio.Event
) -> None:
    while not stop.is_set():
        number = next(numbers)
        try:
            await ASKS[number % len(ASKS)](session, f"Number {number} on the list is")
            count.answered += 1
        except (aiohttp.ClientError, TimeoutError, AssertionError) as error:
            count.failures.append(f"request {number}: {error!r}")
        begun.set()


async def _whole(session: aiohttp.ClientSession, text: str) -> None:
    asked = {"prompt": text, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
    reply = await _post(session, "/v1/completions", asked)
    assert reply["usage"]["completion_tokens"] == TOKENS
    assert reply["choices"][0]["finish_reason"] == "length"


async def _streamed(session: aiohttp.ClientSession, text: str) -> None:
    sampling = {"max_new_tokens": TOKENS, "temperature": 0.8, "seed": 7, "ignore_eos": True}
    asked = {"text": text, "sampling_params": sampling, "stream": True}
    async with session.post("/generate", json=asked) as reply:
        assert reply.status == 200, await reply.text()
        seen = [event async for event in events(reply.content)]
    assert all("error" not in event for event in seen), seen[-1]
    assert len(seen[-1]["output_ids"]) == TOKENS


async def _constrained(session: aiohttp.ClientSession, text: str) -> None:
    asked = {"text": text, "sampling_params": {"max_new_tokens": TOKENS, "temperature": 0, "regex": "(one|two|three)"}}
    reply = await _post(session, "/generate", asked)
    assert reply["text"] in ("one", "two", "three")


async def _post(session: aiohttp.ClientSession, path: str, asked: dict[str, Any]) -> dict[str, Any]:
    async with session.post(path, json=asked) as reply:
        assert reply.status == 200, await reply.text()
        answer: dict[str, Any] = await reply.json()
        return answer


ASKS = (_whole, _streamed, _constrained, _streamed)
