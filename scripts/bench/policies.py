#!/usr/bin/env python3
"""What the cache reuses with room for half of the working set, by the order of the queue, next to the offline optimum.

For each workload and policy a server is started with a pool of that size. Both policies get the same requests, more of
them at a time than fit. The optimum (Belady on the tree) is that of the run's own trace, one request at a time: in the
order of submission, which a policy that serves out of turn can beat, and in the order in which the server served it.

    .venv/bin/python scripts/bench/policies.py [--only shared_prefixes] [--policies lpm fcfs] [--room 0.5]
"""

from __future__ import annotations

import argparse
import asyncio
import uuid
from pathlib import Path

from cache import bounded, trace
from cache.author import Desk
from cache.catalogue import WORKLOADS
from cache.deployment import deployed
from cache.program import rehearse
from cache.runner import Runner, connect, flush
from cache.summary import share, summarise
from cache.tokens import encoder
from cache.trace import Record, as_served
from cache.tree import Tree

HEADER = (
    f"{'workload':16}{'policy':>8}{'room':>8}{'prompt':>8}{'reused':>8}{'belady':>8}{'as served':>10}{'lru':>8}"
    f"{'unbounded':>10}{'of belady':>11}{'took':>10}{'ttft p50':>10}"
)
DEFAULT_WORKLOADS = ("multi_turn", "few_shot", "long_document", "shared_prefixes")


def room(desk: Desk, name: str, arguments: argparse.Namespace) -> int:
    """Tokens in the pool: this share of what the workload leaves behind, and never less than its largest request."""
    rehearsal = rehearse(WORKLOADS[name](desk, arguments.scale))
    largest = max(len(record.token_ids) for record in rehearsal)
    return max(largest, int(Tree(rehearsal).tokens * arguments.room))


async def run(url: str, desk: Desk, name: str, arguments: argparse.Namespace) -> list[Record]:
    async with connect(url) as client:
        await flush(client)
        programs = WORKLOADS[name](desk, arguments.scale)
        namespace = f"{name}-{uuid.uuid4().hex[:8]}"
        return await Runner(client, name, namespace).play_all(programs, arguments.concurrency)


def report(policy: str, capacity_tokens: int, records: list[Record]) -> None:
    summary = summarise(records)
    best = sum(bounded.reused_tokens(records, capacity_tokens))
    best_as_served = sum(bounded.reused_tokens(as_served(records), capacity_tokens))
    lru = sum(bounded.reused_tokens(records, capacity_tokens, bounded.oldest_first))
    print(
        f"{summary.workload:16}{policy:>8}{capacity_tokens:8}{summary.prompt_tokens:8}{summary.reused_tokens:8}{best:8}"
        f"{best_as_served:10}{lru:8}{summary.ideal_tokens:10}{share(summary.reused_tokens, best):11.1%}"
        f"{summary.took_s:8.0f} s{summary.ttft_p50_s:8.1f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=DEFAULT_WORKLOADS, metavar="WORKLOAD")
    parser.add_argument("--policies", nargs="+", default=["lpm", "fcfs"])
    parser.add_argument("--room", type=float, default=0.5, help="the pool, as a share of the working set")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--concurrency", type=int, default=32, help="programs at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model-path", default="bundled")
    parser.add_argument("--trace", type=Path, help="add every request's record to this file")
    arguments = parser.parse_args()
    desk = Desk(encoder(arguments.model_path), arguments.seed)
    print(HEADER)
    for name in arguments.only:
        tokens = room(desk, name, arguments)
        for policy in arguments.policies:
            options = ("--model-path", arguments.model_path, "--max-total-tokens", str(tokens))
            with deployed(*options, "--schedule-policy", policy) as deployment:
                records = asyncio.run(run(deployment.url, desk, name, arguments))
            report(policy, tokens, records)
            if arguments.trace:
                trace.append(arguments.trace, records)


if __name__ == "__main__":
    main()
