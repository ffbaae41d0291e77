"""`sapwood bench`: load on a server, and a table of its throughput, latencies and hit rate."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import httpx
import msgspec

from sapwood.backends.answers import answer_of
from sapwood.backends.openai_replies import MODELS
from sapwood.commands import connection
from sapwood.commands.load.figures import Figures, Percentiles, figures_of
from sapwood.commands.load.play import READ_TIMEOUT_S, Load, ask, play
from sapwood.commands.load.prompts import prompts
from sapwood.commands.load.reply import Reply
from sapwood.commands.terminal import Paint, count, paint_for, percent, seconds, table
from sapwood.errors import BackendError

WARM_UP = "hello"


def main(argv: Sequence[str]) -> int:
    arguments = _parse(argv)
    try:
        figures = asyncio.run(_measure(arguments))
    except httpx.HTTPError as error:
        return connection.unreachable(arguments.url, error)
    except BackendError as error:
        return connection.failed(error)
    except KeyboardInterrupt:
        return connection.EXIT_INTERRUPTED
    if arguments.json:
        print(as_json(figures))
    else:
        print("\n".join(report(figures, arguments.concurrency, paint_for(sys.stdout))))
    return 1 if figures.failed else 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sapwood bench", description="Load on a server, and its figures.")
    connection.add_arguments(parser)
    parser.add_argument("--model", help="by default the first that the server names")
    parser.add_argument("-n", "--requests", type=_positive, default=32, help="how many (32)")
    parser.add_argument("-c", "--concurrency", type=_positive, default=8, help="requests at a time (8)")
    parser.add_argument("--prompt-tokens", type=_positive, default=256, help="of each prompt, about (256)")
    parser.add_argument("--shared-tokens", type=int, default=0, help="of them, the beginning that all share (0)")
    parser.add_argument("--max-tokens", type=_positive, default=64, help="to generate for each (64)")
    parser.add_argument("--respect-eos", action="store_true", help="an answer may end before it is that long")
    parser.add_argument("--seed", type=int, help="the same seed, the same prompts; a new one by default")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    arguments = parser.parse_args(argv)
    if not 0 <= arguments.shared_tokens < arguments.prompt_tokens:
        parser.error("--shared-tokens: less than --prompt-tokens")
    return arguments


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


async def _measure(arguments: argparse.Namespace) -> Figures:
    options: dict[str, Any] = connection.client_options(arguments)
    limits = httpx.Limits(max_connections=arguments.concurrency)
    async with httpx.AsyncClient(**options, timeout=READ_TIMEOUT_S, limits=limits) as client:
        load = Load(
            prompts=_prompts(arguments),
            concurrency=arguments.concurrency,
            max_tokens=arguments.max_tokens,
            model=arguments.model or await _first_model(client),
            ignore_eos=not arguments.respect_eos,
        )
        await ask(client, replace(load, max_tokens=1), WARM_UP)
        clock = time.perf_counter
        start_s = clock()
        replies = await play(client, load, _progress(len(load.prompts), start_s, clock), clock=clock)
        return figures_of(replies, clock() - start_s)


def _prompts(arguments: argparse.Namespace) -> list[str]:
    return prompts(
        random.randrange(2**32) if arguments.seed is None else arguments.seed,
        requests=arguments.requests,
        prompt_tokens=arguments.prompt_tokens,
        shared_tokens=arguments.shared_tokens,
    )


async def _first_model(client: httpx.AsyncClient) -> str:
    answer = await client.get("/v1/models")
    answer.raise_for_status()
    models = answer_of(answer, MODELS).data
    if not models:
        raise BackendError(f"{answer.url} lists no models: name one")
    return models[0].id


def _progress(requests: int, start_s: float, clock: Callable[[], float]) -> Callable[[Reply], None]:
    """Shown on the line where the cursor stands, to people only."""
    done: list[Reply] = []

    def on_end(reply: Reply) -> None:
        done.append(reply)
        if sys.stderr.isatty():
            rate = sum(reply.new_tokens for reply in done) / (clock() - start_s)
            last = len(done) == requests
            print(f"\r\x1b[K{'' if last else f'{len(done)}/{requests} · {rate:.0f} tokens/s'}", end="", file=sys.stderr)

    return on_end


def as_json(figures: Figures) -> str:
    rates = {
        "requests_per_s": figures.requests_per_s,
        "new_tokens_per_s": figures.new_tokens_per_s,
        "tokens_per_s": figures.tokens_per_s,
    }
    return msgspec.json.format(msgspec.json.encode(msgspec.to_builtins(figures) | rates)).decode()


def report(figures: Figures, concurrency: int, paint: Paint) -> list[str]:
    """Lines for people."""
    failed = paint(f", {figures.failed} failed: {figures.first_error}", "red") if figures.failed else ""
    both = figures.prompt_tokens + figures.new_tokens
    head = f"{figures.requests} requests, {concurrency} at a time, in {seconds(figures.wall_s)}"
    rates = [
        ("output", f"{count(figures.new_tokens)} tokens", f"{figures.new_tokens_per_s:.1f} tokens/s"),
        ("with prompts", f"{count(both)} tokens", f"{figures.tokens_per_s:.1f} tokens/s"),
        ("requests", f"{figures.requests - figures.failed}", f"{figures.requests_per_s:.2f} /s"),
        ("found in the cache", percent(figures.hit_rate), ""),
    ]
    times = [
        _row("first token", figures.first_token_s),
        _row("between pieces", figures.piece_s),
        _row("token to token", figures.token_s),
        _row("whole request", figures.whole_s),
    ]
    heading, *lines = table(times, heading=("", "p50", "p95", "p99"))
    return [paint(head, "bold") + failed, "", *table(rates), "", paint(heading, "dim"), *lines]


def _row(name: str, values: Percentiles) -> tuple[str, ...]:
    return (name, seconds(values.p50), seconds(values.p95), seconds(values.p99))
