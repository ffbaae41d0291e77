"""Plays programs against a server, several at once, and records every request. Greedy, of exact lengths, streamed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from .program import Program, Prompt, advance
from .trace import Record, by_submission

TIMEOUT_S = 1800


@dataclass
class Runner:
    """One run of one workload, in a namespace of its own."""

    client: httpx.AsyncClient
    workload: str
    namespace: str  # sent as the extra_key
    started_s: float = field(default_factory=time.perf_counter)
    records: list[Record] = field(default_factory=list)

    async def play_all(self, programs: Iterable[Program], concurrency: int) -> list[Record]:
        """Play so many programs at a time, in the given order. Returns the records in the order of submission."""
        gate = asyncio.Semaphore(concurrency)

        async def play_in_turn(program: Program) -> None:
            async with gate:
                await self._play(program)

        async with asyncio.TaskGroup() as tasks:
            for program in programs:
                tasks.create_task(play_in_turn(program))
        return by_submission(self.records)

    async def _play(self, program: Program) -> None:
        prompts = next(program, [])
        while prompts:
            outputs = await asyncio.gather(*map(self.ask, prompts))
            prompts = advance(program, outputs)

    async def ask(self, prompt: Prompt) -> list[int]:
        """Send one request and record it. Returns its output."""
        submitted_s = time.perf_counter()
        first_s, reply = await self._stream(prompt)
        ended_s = time.perf_counter()
        record = Record(
            workload=self.workload,
            request_id=reply["meta_info"]["id"],
            namespace=self.namespace,
            submitted_s=submitted_s - self.started_s,
            prompt_ids=tuple(prompt.token_ids),
            output_ids=tuple(reply["output_ids"]),
            cached_tokens=reply["meta_info"]["cached_tokens"],
            ttft_s=first_s - submitted_s,
            total_s=ended_s - submitted_s,
        )
        self.records.append(record)
        return list(record.output_ids)

    async def _stream(self, prompt: Prompt) -> tuple[float, dict[str, Any]]:
        """When the first event came, and the last one, which holds the whole output."""
        sampling = {"max_new_tokens": prompt.new_tokens, "temperature": 0, "ignore_eos": True}
        body = {"input_ids": prompt.token_ids, "sampling_params": sampling, "extra_key": self.namespace, "stream": True}
        async with self.client.stream("POST", "/generate", json=body) as reply:
            if reply.is_error:
                raise RuntimeError(f"{reply.status_code}: {(await reply.aread()).decode()}")
            first_s, last = None, ""
            async for line in reply.aiter_lines():
                if line.startswith("data: {"):
                    first_s, last = first_s or time.perf_counter(), line
        event = json.loads(last.removeprefix("data: "))
        if first_s is None or "error" in event:
            raise RuntimeError(f"no output: {last}")
        return first_s, event


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S, limits=limits) as client:
        yield client


async def flush(client: httpx.AsyncClient) -> None:
    """Empty the server's cache, so that what follows begins cold."""
    (await client.post("/flush_cache")).raise_for_status()
