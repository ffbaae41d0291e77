#!/usr/bin/env python3
"""Seven workloads against a running server: what its prefix cache reuses, next to what an ideal one would.

The ideal is an unbounded cache that is never late (`cache/unbounded.py`). Every workload begins with an empty cache.
Start a server with nothing else to do (`./scripts/serve`), then:

    .venv/bin/python scripts/bench/workloads.py [--only multi_turn few_shot] [--scale 0.5] [--trace trace.jsonl]
"""

from __future__ import annotations

import argparse
import asyncio
import uuid
from pathlib import Path

from cache import trace
from cache.author import Desk
from cache.catalogue import WORKLOADS
from cache.runner import Runner, connect, flush
from cache.summary import HEADER, summarise
from cache.tokens import encoder


async def run(arguments: argparse.Namespace) -> None:
    desk = Desk(encoder(arguments.model_path), arguments.seed)
    run_id = uuid.uuid4().hex[:8]
    print(HEADER)
    async with connect(arguments.url) as client:
        for name in arguments.only:
            await flush(client)
            programs = WORKLOADS[name](desk, arguments.scale)
            records = await Runner(client, name, f"{name}-{run_id}").play_all(programs, arguments.concurrency)
            print(summarise(records).line(), flush=True)
            if arguments.trace:
                trace.append(arguments.trace, records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:30000")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="WORKLOAD")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of clients, sets, groups, documents")
    parser.add_argument("--concurrency", type=int, default=8, help="programs at a time; a program may fork")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model-path", default="bundled", help="the served model, for its tokenizer")
    parser.add_argument("--trace", type=Path, help="add every request's record to this file")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
