#!/usr/bin/env python3
"""Requests that arrive together with one new prefix: how often it is computed, and what each waits for its first token.

Every round has a new prefix. At best the prefix is computed once, and each tail, less what tails begin with alike.
Start a server with nothing else to do (`./scripts/serve`), then:

    .venv/bin/python scripts/bench/shared_burst.py [--requests 16] [--prefix 1500] [--tail 50] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import uuid

from cache.author import Desk
from cache.program import one_request
from cache.runner import Runner, connect
from cache.summary import share, summarise
from cache.tokens import encoder


async def run(arguments: argparse.Namespace) -> None:
    desk = Desk(encoder(arguments.model_path), arguments.seed)
    once = arguments.prefix + arguments.requests * arguments.tail
    run_id = uuid.uuid4().hex[:8]
    async with connect(arguments.url) as client:
        for number in range(arguments.rounds):
            prefix = desk.author("prefix", number).text(arguments.prefix)
            tails = [desk.author("tail", number, n).text(arguments.tail) for n in range(arguments.requests)]
            programs = [one_request(prefix + tail, arguments.new_tokens) for tail in tails]
            runner = Runner(client, "shared_burst", f"burst-{run_id}-{number}")
            summary = summarise(await runner.play_all(programs, arguments.requests))
            print(
                f"round {number + 1}: {summary.computed_tokens} prompt tokens computed, prefix and tails are {once}, ",
                end="",
            )
            print(f"{share(summary.computed_tokens, once) - 1:+.1%}; ", end="")
            print(f"ttft p50 {summary.ttft_p50_s:.2f} s, p95 {summary.ttft_p95_s:.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:30000")
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--prefix", type=int, default=1500, help="tokens in common")
    parser.add_argument("--tail", type=int, default=50, help="tokens of each request's own")
    parser.add_argument("--new-tokens", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model-path", default="bundled", help="the served model, for its tokenizer")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
