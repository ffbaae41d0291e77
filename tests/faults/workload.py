"""Streams of every kind at once, and what their clients see of them. Knows nothing of what befalls the server."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

STREAMS = 32
TOKENS = 32

# Endless with many forced tokens, endless with none, and one that ends by itself.
REGEXES = (
    None,
    r'(\{"name": "[a-z]{1,6}", "age": [0-9]{1,2}\} )*',
    None,
    "[A-Za-z ,.]*",
    None,
    r"(Yes|No|Perhaps), because [a-z ]{5,30}\.",
)
BACKGROUND = "The harbour was quiet that night, and nobody on the quay had seen the lights go out. " * 8


@dataclass(frozen=True)
class Work:
    """Every second pair is sampled with a seed, every third one of all wants log-probabilities."""

    number: int

    @property
    def prompt(self) -> str:
        background = BACKGROUND if self.number % 8 == 7 else ""
        return f"{background}Story number {self.number}: the old sailor"

    @property
    def temperature(self) -> float:
        return 0.8 if self.number % 4 >= 2 else 0.0

    @property
    def regex(self) -> str | None:
        return REGEXES[self.number % len(REGEXES)]

    @property
    def wants_logprobs(self) -> bool:
        return self.number % 3 == 0

    @property
    def body(self) -> dict[str, Any]:
        sampling: dict[str, Any] = {"temperature": self.temperature, "seed": self.number, "max_new_tokens": TOKENS}
        if self.regex is not None:
            sampling["regex"] = self.regex
        asked: dict[str, Any] = {"text": self.prompt, "sampling_params": sampling | {"ignore_eos": True}}
        return asked | ({"return_logprob": True, "top_logprobs_num": 2} if self.wants_logprobs else {})


WORK = tuple(Work(number) for number in range(STREAMS))


@dataclass
class Watched:
    """One stream as its client saw it."""

    asked_s: float
    events: list[dict[str, Any]] = field(default_factory=list)
    seen_s: list[float] = field(default_factory=list)

    @property
    def final(self) -> dict[str, Any]:
        return self.events[-1]

    @property
    def token_ids(self) -> list[int]:
        ids: list[int] = self.final["output_ids"]
        return ids

    @property
    def logprobs(self) -> list[float]:
        return [entry[0] for entry in self.final["meta_info"].get("output_token_logprobs", ())]

    def pause_s(self, since_s: float) -> float:
        """The longest time without an event that reached beyond this moment."""
        moments = itertools.pairwise([self.asked_s, *self.seen_s])
        return max((later - earlier for earlier, later in moments if later > since_s), default=0.0)

    def check(self, work: Work) -> None:
        """It ended, once, and nothing in it was repeated, missing or taken back."""
        finished = [event for event in self.events if event["meta_info"]["finish_reason"] is not None]
        assert finished == [self.final]
        for earlier, later in itertools.pairwise(self.events):
            assert later["text"].startswith(earlier["text"])
            assert later["output_ids"][: len(earlier["output_ids"])] == earlier["output_ids"]
        told = self.final["meta_info"]
        assert told["completion_tokens"] == len(self.token_ids)
        assert told["finish_reason"]["type"] == "stop" or len(self.token_ids) == TOKENS
        assert told["cached_tokens"] <= told["prompt_tokens"]
        if work.wants_logprobs:
            assert [entry[1] for entry in told["output_token_logprobs"]] == self.token_ids
            assert all(len(top) == 2 for top in told["output_top_logprobs"])


class Crowd:
    """Clients that stream at once."""

    def __init__(self, url: str, works: Sequence[Work] = WORK) -> None:
        self._url = url
        self._works = works
        self._news = asyncio.Event()
        self.tokens = 0  # received by all of them

    async def run(self) -> list[Watched]:
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=300)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=1 << 20) as session:
            return await asyncio.gather(*(self._watch(session, work) for work in self._works))

    async def reach(self, tokens: int) -> None:
        while self.tokens < tokens:
            self._news.clear()
            await self._news.wait()

    async def _watch(self, session: aiohttp.ClientSession, work: Work) -> Watched:
        watched = Watched(time.monotonic())
        async with session.post(f"{self._url}/generate", json=work.body | {"stream": True}) as reply:
            assert reply.status == 200, await reply.text()
            async for event in events(reply.content):
                assert "error" not in event, event
                before = len(watched.token_ids) if watched.events else 0
                watched.events.append(event)
                watched.seen_s.append(time.monotonic())
                self.tokens += len(watched.token_ids) - before
                self._news.set()
        watched.check(work)
        return watched


async def events(lines: aiohttp.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """Without the closing [DONE], which must come."""
    async for line in lines:
        if line.startswith(b"data: [DONE]"):
            return
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))
    raise AssertionError("the stream ended without [DONE]")
