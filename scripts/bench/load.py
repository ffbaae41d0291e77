#!/usr/bin/env python3
"""One workload against one OpenAI-style server; prints one JSON object. Which workloads: `traffic/workload.py`.

    .venv/bin/python scripts/bench/load.py --base-url http://127.0.0.1:30000 --model m --workload prefix --seed 7

A server that has seen a seed is not cold for it: change --seed between runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from traffic.client import Target, own_address, play
from traffic.workload import WORKLOADS


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base-url", required=True, type=own_address)
    parser.add_argument("--model", required=True)
    parser.add_argument("--workload", required=True, choices=WORKLOADS)
    parser.add_argument("--phases", nargs="+", choices=WORKLOADS["prefix"].phases, help="of prefix; all by default")
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--requests", type=int, help="of each phase")
    parser.add_argument("--prompt-tokens", type=int, help="about, prefix and ending together")
    parser.add_argument("--ending-tokens", "--suffix-tokens", type=int, help="of prefix only")
    parser.add_argument("--new-tokens", "--max-tokens", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ignore-eos", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--warmup", action=argparse.BooleanOptionalAction, default=True, help="one short request first")
    parser.add_argument("--extra-body", type=json.loads, default={}, help="JSON that is added to each request")
    parser.add_argument("--timeout", type=float, default=170.0, help="seconds for one read")
    parser.add_argument("--deadline", type=float, default=170.0, help="seconds for all phases")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    workload = WORKLOADS[arguments.workload]
    workload = workload.shaped(
        concurrency=arguments.concurrency,
        requests=arguments.requests or max(workload.requests, arguments.concurrency or 0),
        prompt_tokens=arguments.prompt_tokens,
        new_tokens=arguments.new_tokens,
        ending_tokens=arguments.ending_tokens if arguments.workload == "prefix" else None,
    )
    if arguments.phases:
        workload = workload.only(tuple(arguments.phases))
    target = Target(
        arguments.base_url,
        arguments.model,
        arguments.extra_body,
        arguments.ignore_eos,
        arguments.timeout,
        arguments.deadline,
    )
    report = asyncio.run(play(target, workload, arguments.seed, warm_up=arguments.warmup))
    print(json.dumps(report, indent=1, ensure_ascii=False))
    failed = any(phase["failed"] for phase in report["phases"].values())
    return 1 if failed or "stopped" in report else 0


if __name__ == "__main__":
    sys.exit(main())
