"""Requests that come when they come, whether the server keeps up or not. What is refused is not asked again.

Knows sockets and the clock. One that is taken in is read to its end, event by event, and not looked into.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from .words import words

READ_TIMEOUT_S = 300.0


@dataclass
class Asked:
    sent_s: float
    status: int = 0  # 0: no answer
    retry_after_s: int | None = None
    answered_s: float = 0.0  # the status line, of one that is refused
    first_s: float | None = None  # output
    whole: bool = False

    @property
    def ttft_s(self) -> float:
        assert self.first_s is not None
        return self.first_s - self.sent_s


@dataclass
class Client:
    """One tenant's. `asked` has all of its requests in the order in which they were sent."""

    session: aiohttp.ClientSession
    prompt_words: int
    new_tokens: int
    chance: random.Random
    asked: list[Asked] = field(default_factory=list)

    async def ask(self) -> Asked:
        one = Asked(time.perf_counter())
        self.asked.append(one)
        sampling = {"temperature": 0, "max_new_tokens": self.new_tokens, "ignore_eos": True}
        body = {"text": words(self.chance, self.prompt_words), "stream": True, "sampling_params": sampling}
        try:
            async with self.session.post("/generate", json=body) as response:
                one.status, one.answered_s = response.status, time.perf_counter()
                retry_after = response.headers.get("Retry-After")
                one.retry_after_s = None if retry_after is None else int(retry_after)
                await _read(response, one)
        except (aiohttp.ClientError, TimeoutError):
            one.status = 0
        return one

    async def closed_loop(self, concurrency: int, seconds: float) -> None:
        """So many at a time; those that are open in the end are given up."""

        async def one_after_the_other() -> None:
            while True:
                await self.ask()

        await _for(seconds, [one_after_the_other() for _ in range(concurrency)])

    async def arrivals(self, rate: float, seconds: float) -> list[asyncio.Task[Asked]]:
        """At this rate on the average, each at a moment of its own. Returns those that were sent, open or not."""
        end_s, next_s, sent = time.perf_counter() + seconds, time.perf_counter(), []
        while next_s < end_s:
            await asyncio.sleep(max(0.0, next_s - time.perf_counter()))
            sent.append(asyncio.create_task(self.ask()))
            next_s += self.chance.expovariate(rate)
        return sent


@asynccontextmanager
async def connected(
    url: str, prompt_words: int, new_tokens: int, seed: int, key: str | None = None
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None, sock_read=READ_TIMEOUT_S)
    async with aiohttp.ClientSession(url, connector=connector, timeout=timeout, headers=headers) as session:
        yield Client(session, prompt_words, new_tokens, random.Random(seed))


async def _read(response: aiohttp.ClientResponse, one: Asked) -> None:
    last = b""
    async for chunk in response.content.iter_any():
        if one.first_s is None and response.status == 200:
            one.first_s = time.perf_counter()
        last = chunk
    one.whole = last.endswith(b"data: [DONE]\n\n")


async def _for(seconds: float, work: list[object]) -> None:
    tasks = [asyncio.ensure_future(each) for each in work]  # type: ignore[call-overload]
    await asyncio.wait(tasks, timeout=seconds)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
