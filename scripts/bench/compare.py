#!/usr/bin/env python3
"""Our server beside others, in interleaved rounds of the same load through HTTP; prints medians, spreads and ratios.

All servers run the whole time and one of them works at a time; what the idle ones burn meanwhile is written down. Every
round has new prompts, the same for all sides, in an order of sides that changes. Ratios are of rounds, first side to
the other, above 1 where the first is better. A side is a peer's name (peers/registry.py), an address as
NAME=URL[,MODEL], or our own server with options, which is the first side unless --no-ours is given.

    .venv/bin/python scripts/bench/compare.py --install llama.cpp openvino vllm
    .venv/bin/python scripts/bench/compare.py llama.cpp openvino --workloads single batch --rounds 3 --json raw.json
    .venv/bin/python scripts/bench/compare.py --ours "whole=--kv-cache-dtype float32" openvino-f16 --workloads batch
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shlex
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from scripts.bench.cache.deployment import Deployment, deployed
from scripts.bench.comparison.rounds import Turn, turns
from scripts.bench.comparison.tables import compare
from scripts.bench.measure import machine
from scripts.bench.peers.install import install, is_installed, versions
from scripts.bench.peers.launch import launched
from scripts.bench.peers.registry import ENVIRONMENTS, PEERS
from scripts.bench.traffic.client import Target, own_address, play
from scripts.bench.traffic.workload import WORKLOADS, Workload

OUR_OPTIONS = "--max-total-tokens 49152"


@dataclass(frozen=True)
class Side:
    name: str
    target: Target
    deployment: Deployment | None  # None: started by somebody else
    facts: dict[str, Any]

    def cpu_s(self) -> float:
        return 0.0 if self.deployment is None else self.deployment.cpu_s()


def sides(arguments: argparse.Namespace, stack: ExitStack) -> list[Side]:
    """All started, ours first."""
    ours = [] if arguments.no_ours else arguments.ours or ["sapwood="]
    started = [_our_side(text, arguments, stack) for text in ours]
    return started + [_peer_side(text, arguments, stack) for text in arguments.peers]


def _our_side(text: str, arguments: argparse.Namespace, stack: ExitStack) -> Side:
    name, _, options = text.partition("=")
    deployment = stack.enter_context(deployed(*shlex.split(OUR_OPTIONS), *shlex.split(options)))
    facts = {"options": f"{OUR_OPTIONS} {options}".strip(), "command": shlex.join(deployment.process.args)}
    return Side(name, _target(deployment.url, None, arguments), deployment, facts)


def _peer_side(text: str, arguments: argparse.Namespace, stack: ExitStack) -> Side:
    name, _, address = text.partition("=")
    if address:
        url, _, model = address.partition(",")
        return Side(name, _target(own_address(url), model or None, arguments), None, {"address": url})
    peer = PEERS[name]
    if not is_installed(peer.environment):
        raise SystemExit(f"{name} is not installed: scripts/bench/compare.py --install {peer.environment}")
    start_s = time.monotonic()
    deployment = stack.enter_context(launched(name, arguments.threads))
    facts = {"versions": versions(peer.environment), "threads": arguments.threads, "note": peer.note}
    facts |= {"command": shlex.join(deployment.process.args), "ready_s": round(time.monotonic() - start_s, 1)}
    return Side(name, _target(deployment.url, None, arguments), deployment, facts)


def _target(url: str, model: str | None, arguments: argparse.Namespace) -> Target:
    name = model or httpx.get(f"{url}/v1/models", timeout=30, trust_env=False).json()["data"][0]["id"]
    return Target(url, name, read_timeout_s=arguments.deadline, deadline_s=arguments.deadline)


def take(turn: Turn, everyone: dict[str, Side], workload: Workload) -> dict[str, Any]:
    """One side's turn, with the CPU seconds that each of the others used meanwhile."""
    side = everyone[turn.side]
    before = {other.name: other.cpu_s() for other in everyone.values()}
    report = asyncio.run(play(side.target, workload, turn.seed))
    spent = {name: round(everyone[name].cpu_s() - cpu_s, 2) for name, cpu_s in before.items()}
    own_cpu_s = spent.pop(side.name)
    record = {"round": turn.round, "side": side.name, "workload": turn.workload, "report": report}
    return record | {"own_cpu_s": own_cpu_s, "idle_cpu_s": spent}


def line(record: dict[str, Any]) -> str:
    parts = [f"round {record['round'] + 1}, {record['workload']}, {record['side']}:"]
    for phase, summary in record["report"]["phases"].items():
        parts.append(f"{phase} {summary['new_tok_s']} tok/s, ttft {summary['ttft_ms']['p50']} ms;")
        parts += [f"{summary['failed']} FAILED: {summary['first_error']}"] if summary["failed"] else []
    parts.append(record["report"].get("stopped", ""))
    return " ".join([*parts, f"idle {record['idle_cpu_s']}"])


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    seed = random.SystemRandom().randrange(1, 10**6) * 1000 if arguments.seed is None else arguments.seed
    result: dict[str, Any] = {"machine": machine.describe(), "arguments": sys.argv[1:], "first_seed": seed, "runs": []}
    with ExitStack() as stack:
        everyone = {side.name: side for side in sides(arguments, stack)}
        result["sides"] = {side.name: side.facts for side in everyone.values()}
        for turn in turns(list(everyone), arguments.workloads, arguments.rounds, seed):
            workload = WORKLOADS[turn.workload].only(tuple(arguments.phases))
            record = take(turn, everyone, workload)
            print(line(record), file=sys.stderr, flush=True)
            result["runs"].append(record)
            if arguments.json:
                arguments.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return result


def install_all(names: list[str]) -> int:
    for name in names:
        print(f"{name}: installing", flush=True)
        try:
            install(ENVIRONMENTS[name])
        except subprocess.CalledProcessError as fault:
            print(f"{name} did not install: {fault}")
            return 1
        print(f"{name}: {versions(name)}")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"{', '.join(PEERS)}, or NAME=URL[,MODEL]")
    parser.add_argument("--install", nargs="+", choices=ENVIRONMENTS, metavar="ENVIRONMENT", help="and stop")
    parser.add_argument("--ours", action="append", metavar="NAME=OPTIONS", help="of `sapwood serve`; repeatable")
    parser.add_argument("--no-ours", action="store_true")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--phases", nargs="+", default=WORKLOADS["prefix"].phases, help="of the workload prefix")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of each peer")
    parser.add_argument("--seed", type=int, help="of the first round; by default a new one")
    parser.add_argument("--deadline", type=float, default=170.0, help="seconds for all phases of one turn")
    parser.add_argument("--json", type=Path, help="write everything that was recorded to this file")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    if arguments.install:
        return install_all(arguments.install)
    result = measure(arguments)
    print(machine.in_words(result["machine"]))
    for name, facts in result["sides"].items():
        print(f"- {name}: {json.dumps(facts, ensure_ascii=False)}")
    print(f"\n{compare(result['runs'], list(result['sides']))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
