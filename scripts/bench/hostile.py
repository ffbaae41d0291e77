#!/usr/bin/env python3
"""Hostile constraints against a server that streams to others: what they get, and what the others notice.

Some requests stream throughout; their longest gap between two events is the figure. Then thousands of distinct schemas,
and the memory of all processes before and after. Ends with 1 if an answer was not the right one.

    .venv/bin/python scripts/bench/hostile.py [--streams 4] [--schemas 10000]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil

from scripts.bench.cache.deployment import Deployment, deployed
from scripts.bench.comparison.tables import markdown
from scripts.bench.measure import machine
from scripts.bench.structured.hostile import attacks, distinct_schemas

STREAM_TOKENS = 2000
FLOOD_AT_ONCE = 32
LONGEST_GAP_S = 1.0
READ_TIMEOUT_S = 120.0


@dataclass
class Bystanders:
    """Requests that stream, one behind the other, and when their events came."""

    client: httpx.AsyncClient
    gaps_s: list[float] = field(default_factory=list)
    broken: int = 0

    async def stream_for_ever(self, number: int) -> None:
        while True:
            body = {"text": f"Tell a long story, number {number}.", "stream": True}
            sampling = {"max_new_tokens": STREAM_TOKENS, "ignore_eos": True, "temperature": 1}
            last_s = None
            try:
                async with self.client.stream("POST", "/generate", json=body | {"sampling_params": sampling}) as reply:
                    self.broken += reply.status_code != 200
                    async for line in reply.aiter_lines():
                        now_s = time.perf_counter()
                        if line and last_s is not None:
                            self.gaps_s.append(now_s - last_s)
                        last_s = now_s if line else last_s
            except httpx.HTTPError:
                self.broken += 1


@asynccontextmanager
async def streaming(client: httpx.AsyncClient, streams: int) -> Any:
    bystanders = Bystanders(client)
    tasks = [asyncio.create_task(bystanders.stream_for_ever(number)) for number in range(streams)]
    await asyncio.sleep(3)
    bystanders.gaps_s.clear()
    try:
        yield bystanders
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def attack_one_by_one(client: httpx.AsyncClient, bystanders: Bystanders) -> bool:
    rows, well = [], True
    for attack in attacks():
        bystanders.gaps_s.clear()
        start_s = time.perf_counter()
        response = await client.post("/v1/chat/completions", json=attack.body())
        took_s = time.perf_counter() - start_s
        is_right = response.status_code in attack.statuses
        well &= is_right
        said = response.json().get("error", {}).get("message", "") if response.status_code != 200 else ""
        gap_s = max(bystanders.gaps_s, default=0.0)
        rows.append(
            [
                attack.name.replace("|", "\\|"),
                f"{response.status_code}{'' if is_right else ' WRONG'}",
                said[:80].replace("|", "\\|").replace("\n", " "),
                f"{took_s * 1e3:.0f}",
                f"{gap_s * 1e3:.0f}",
            ]
        )
    print(markdown(("attack", "status", "answer", "ms", "longest gap of others, ms"), rows), flush=True)
    return well


async def flood(client: httpx.AsyncClient, count: int) -> dict[int, int]:
    """So many schemas that nobody has sent before. Returns how often each status came."""
    statuses: dict[int, int] = {}
    bodies: Iterator[dict[str, Any]] = itertools.islice(distinct_schemas(), count)

    async def send() -> None:
        for body in bodies:
            response = await client.post("/v1/chat/completions", json=body)
            statuses[response.status_code] = statuses.get(response.status_code, 0) + 1

    await asyncio.gather(*(send() for _ in range(FLOOD_AT_ONCE)))
    return statuses


def memory_mb(server: Deployment) -> dict[str, float]:
    """Of each process that matters, by its command."""
    parent = psutil.Process(server.process.pid)
    found: dict[str, float] = {}
    for process in parent.children(recursive=True):
        line = process.cmdline()
        name = next((word for word in line if word.startswith("services.")), "other")
        found[name] = found.get(name, 0.0) + process.memory_info().rss / 1e6
    return found


async def run(server: Deployment, arguments: argparse.Namespace) -> bool:
    async with httpx.AsyncClient(base_url=server.url, timeout=READ_TIMEOUT_S, trust_env=False) as client:
        async with streaming(client, arguments.streams) as bystanders:
            await client.post("/v1/chat/completions", json=next(distinct_schemas()))
            well = await attack_one_by_one(client, bystanders)
            bystanders.gaps_s.clear()
            before, start_s = memory_mb(server), time.perf_counter()
            statuses = await flood(client, arguments.schemas)
            took_s, after = time.perf_counter() - start_s, memory_mb(server)
            gap_s = max(bystanders.gaps_s, default=0.0)
        print(
            f"\n{arguments.schemas} distinct schemas in {took_s:.0f} s: answers {statuses}, "
            f"longest gap {gap_s * 1e3:.0f} ms"
        )
        for name, size in sorted(after.items()):
            print(f"{name}: {before.get(name, 0.0):.0f} MB before, {size:.0f} MB after")
        reply = await client.post("/generate", json={"text": "Hello", "sampling_params": {"max_new_tokens": 4}})
        health = await client.get("/health")
        print(
            f"the next request: {reply.status_code}; health: {health.status_code}; broken streams: {bystanders.broken}"
        )
    return (
        well and set(statuses) == {200} and not bystanders.broken and reply.status_code == 200 and gap_s < LONGEST_GAP_S
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--schemas", type=int, default=10_000)
    parser.add_argument("--options", default="", help="of the server, as for `sapwood serve`")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    print(machine.in_words(machine.describe()), end="\n\n")
    with deployed(*shlex.split(arguments.options)) as server:
        well = asyncio.run(run(server, arguments))
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
