#!/usr/bin/env python3
"""What the prefix cache costs where there is nothing to share: CPU time per token, with it and without it.

Starts two servers that differ in --disable-radix-cache alone. They work in turns, each idle while the other works, and
the order changes from round to round. A round is the same new prompts for both; CPU time is that of all processes of a
server. Rounds are short, so that whatever else the machine does falls on both. The default pool is small, so that the
cache has to evict; with a large one (40000) it never does. Needs psutil.

    .venv/bin/python scripts/bench/no_sharing.py [--rounds 20] [--scale 0.125] [--max-total-tokens 4000]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import uuid

from cache.author import Desk
from cache.deployment import Deployment, deployed
from cache.independent import no_sharing
from cache.program import Program
from cache.runner import Runner, connect
from cache.summary import summarise
from cache.tokens import encoder

WARM_UP_SCALE = 0.75  # of the workload: so much, that the server has seen that nothing is reused
PROMPTS = 100  # a round has fewer


async def cpu_ms_per_token(deployment: Deployment, programs: list[Program], namespace: str) -> float:
    async with connect(deployment.url) as client:
        before_s = deployment.cpu_s()
        records = await Runner(client, "no_sharing", namespace).play_all(programs, concurrency=8)
        spent_s = deployment.cpu_s() - before_s
    summary = summarise(records)
    assert summary.reused_tokens == 0, f"{summary.reused_tokens} tokens were shared"
    return spent_s * 1e3 / (summary.prompt_tokens + summary.output_tokens)


def measure(arguments: argparse.Namespace, sides: dict[str, Deployment]) -> dict[str, list[float]]:
    encode = encoder(arguments.model_path)
    run_id = uuid.uuid4().hex[:8]
    figures: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(arguments.rounds + 1):  # the first warms up
        desk = Desk(encode, arguments.seed + number)
        scale = arguments.scale if number else WARM_UP_SCALE
        for name in sorted(sides, reverse=number % 2 == 0):
            programs = no_sharing(desk, scale, first_id=1000 + PROMPTS * number)
            spent = asyncio.run(cpu_ms_per_token(sides[name], programs, run_id))
            if number:
                figures[name].append(spent)
                print(f"round {number}, {name:13}: {spent:.3f} CPU ms per token", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--scale", type=float, default=0.125)
    parser.add_argument("--max-total-tokens", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model-path", default="bundled")
    arguments = parser.parse_args()
    common = ["--model-path", arguments.model_path, "--max-total-tokens", str(arguments.max_total_tokens)]
    with deployed(*common) as cached, deployed(*common, "--disable-radix-cache") as uncached:
        figures = measure(arguments, {"cache": cached, "no cache": uncached})
    on, off = (statistics.median(figures[name]) for name in ("cache", "no cache"))
    pairs = [a / b for a, b in zip(figures["cache"], figures["no cache"], strict=True)]
    print(f"median of {arguments.rounds}: cache {on:.3f}, no cache {off:.3f} CPU ms per token, ", end="")
    print(f"ratio {on / off:.4f}; of the rounds: median {statistics.median(pairs):.4f}, ", end="")
    print(f"{min(pairs):.4f} to {max(pairs):.4f}")


if __name__ == "__main__":
    main()
