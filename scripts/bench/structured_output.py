#!/usr/bin/env python3
"""Structured output on a real model: so many requests of all kinds at temperatures 0 and 1, each answer checked.

Patterns by Python's `re`, schemas by `jsonschema`, grammars by `lark`. An answer that ends by "stop" has to be right;
one that ends by "length" is counted. Ends with 1 if any is wrong, or too few end of themselves.

    .venv/bin/python scripts/bench/structured_output.py [--requests 1000] [--at-once 16] [--options ""]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from scripts.bench.cache.deployment import deployed
from scripts.bench.comparison.tables import markdown
from scripts.bench.measure import machine
from scripts.bench.structured.kinds import KINDS, SUBJECTS, Kind

LEAST_STOPPED = 0.95  # of each kind, at the least
READ_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Answer:
    kind: Kind
    temperature: float
    finish_reason: str
    problem: str | None  # of one that has ended by itself
    output_tokens: int
    seconds: float
    text: str


async def ask(client: httpx.AsyncClient, gate: asyncio.Semaphore, kind: Kind, number: int) -> Answer:
    temperature = float(number % 2)
    body = kind.body(SUBJECTS[number // 2 % len(SUBJECTS)], temperature, number)
    async with gate:
        start_s = time.perf_counter()
        response = await client.post("/v1/chat/completions", json=body)
        took_s = time.perf_counter() - start_s
    if response.status_code != 200:
        return Answer(kind, temperature, "error", response.text[:300], 0, took_s, "")
    reply = response.json()
    choice = reply["choices"][0]
    reason, problem = choice["finish_reason"], None
    if reason != "length":
        problem = _problem(kind, choice["message"])
    return Answer(
        kind, temperature, reason, problem, reply["usage"]["completion_tokens"], took_s, json.dumps(choice["message"])
    )


def _problem(kind: Kind, message: dict[str, object]) -> str | None:
    try:
        kind.check(message)
    except Exception as error:  # whatever the judge says
        return f"{type(error).__name__}: {error}"[:300]
    return None


async def ask_all(url: str, kinds: Sequence[Kind], requests: int, at_once: int) -> list[Answer]:
    gate = asyncio.Semaphore(at_once)
    async with httpx.AsyncClient(base_url=url, timeout=READ_TIMEOUT_S, trust_env=False) as client:
        numbered = [(kinds[n % len(kinds)], n // len(kinds)) for n in range(requests)]
        return await asyncio.gather(*(ask(client, gate, kind, number) for kind, number in numbered))


def show(answers: Sequence[Answer]) -> bool:
    """Whether all is well."""
    by_kind: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        by_kind[answer.kind.name].append(answer)
    rows, well = [], True
    for name, group in by_kind.items():
        ended = [answer for answer in group if answer.finish_reason != "length"]
        right = [answer for answer in ended if answer.problem is None]
        share = len(ended) / len(group)
        well &= len(right) == len(ended) and share >= LEAST_STOPPED
        tokens = statistics.median(answer.output_tokens for answer in group)
        seconds = statistics.median(answer.seconds for answer in group)
        rows.append(
            [name, str(len(group)), f"{share:.1%}", f"{len(right)} of {len(ended)}", f"{tokens:.0f}", f"{seconds:.2f}"]
        )
    print(
        markdown(("kind", "requests", "ended by themselves", "right", "tokens, median", "s, median"), rows), flush=True
    )
    for answer in answers:
        if answer.problem is not None:
            print(
                f"\nWRONG {answer.kind.name}, temperature {answer.temperature:g}: {answer.problem}\n{answer.text[:600]}"
            )
    return well


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="kinds with one of these in their names")
    parser.add_argument("--options", default="", help="of the server, as for `sapwood serve`")
    parser.add_argument("--url", help="a server that runs already")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    kinds = [kind for kind in KINDS if not arguments.only or any(word in kind.name for word in arguments.only)]
    print(machine.in_words(machine.describe()), end="\n\n")
    start_s = time.perf_counter()
    if arguments.url:
        answers = asyncio.run(ask_all(arguments.url, kinds, arguments.requests, arguments.at_once))
    else:
        with deployed(*shlex.split(arguments.options)) as server:
            answers = asyncio.run(ask_all(server.url, kinds, arguments.requests, arguments.at_once))
    well = show(answers)
    took_s = time.perf_counter() - start_s
    tokens = sum(answer.output_tokens for answer in answers)
    print(f"\n{len(answers)} requests, {tokens} tokens in {took_s:.0f} s: {tokens / took_s:.0f} tok/s")
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
