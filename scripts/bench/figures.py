#!/usr/bin/env python3
"""What the prefix cache is worth to clients: our server against itself with --disable-radix-cache, through HTTP.

Both servers run, one works at a time, in rounds with new texts. Hit rate and throughput of shared chats; time to first
token against concurrency, behind one system prompt; and a prompt of 8,000 shared and 50 new tokens.

    .venv/bin/python scripts/bench/figures.py [--only chats concurrency long] [--rounds 2] [--png docs/performance]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shlex
import statistics
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.bench.cache.author import Desk
from scripts.bench.cache.dependent import multi_turn
from scripts.bench.cache.deployment import deployed
from scripts.bench.cache.program import Program, one_request
from scripts.bench.cache.runner import Runner, connect
from scripts.bench.cache.summary import Summary, share, summarise
from scripts.bench.cache.tokens import encoder
from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, ratio_text, spread_text
from scripts.bench.measure import machine

CACHED, PLAIN = "cache", "no cache"
CONCURRENCIES = (1, 2, 4, 8, 16)
SYSTEM_TOKENS, QUESTION_TOKENS, ANSWER_TOKENS = 600, 50, 16
LONG_TOKENS, LONG_ANSWER_TOKENS = 8000, 16
CHAT_USERS, CHAT_TURNS = 8, 4


@dataclass(frozen=True)
class Sides:
    """The same engine with the cache and without it."""

    urls: dict[str, str]
    desk: Desk
    rounds: int

    def in_turns(self, number: int) -> list[str]:
        return sorted(self.urls, reverse=number % 2 == 1)

    def play(self, side: str, programs: Sequence[Program], concurrency: int, namespace: str) -> Summary:
        async def played() -> Summary:
            async with connect(self.urls[side]) as client:
                return summarise(await Runner(client, "figures", namespace).play_all(programs, concurrency))

        return asyncio.run(played())


Found = dict[str, list[Summary]]  # by side, one for each round


def chats(sides: Sides) -> Found:
    """Users in conversations of several turns under one system prompt."""
    found: Found = defaultdict(list)
    for number in range(sides.rounds):
        desk = Desk(sides.desk.encode, sides.desk.seed + number)
        namespace = uuid.uuid4().hex[:8]
        for side in sides.in_turns(number):
            talks = multi_turn(desk, 1.0, users=CHAT_USERS, turns=CHAT_TURNS, system=SYSTEM_TOKENS)
            found[side].append(sides.play(side, talks, CHAT_USERS, namespace))
    return found


def concurrency(sides: Sides) -> dict[int, Found]:
    """So many questions at once behind a system prompt that the server has seen."""
    system = sides.desk.author("system").text(SYSTEM_TOKENS)
    namespace = uuid.uuid4().hex[:8]
    for side in sides.urls:
        sides.play(side, [one_request(system, 1)], 1, namespace)
    found: dict[int, Found] = {size: defaultdict(list) for size in CONCURRENCIES}
    for number in range(sides.rounds):
        for size in CONCURRENCIES:
            ends = [sides.desk.author("question", number, size, n).text(QUESTION_TOKENS) for n in range(size)]
            for side in sides.in_turns(number):
                questions = [one_request(system + end, ANSWER_TOKENS) for end in ends]
                found[size][side].append(sides.play(side, questions, size, namespace))
    return found


def long_prompt(sides: Sides) -> tuple[list[Summary], list[Summary]]:
    """With the cache: a long text with a question, new to the server, then the text with another question."""
    cold, warm = [], []
    for number in range(sides.rounds):
        text = sides.desk.author("long", number).text(LONG_TOKENS)
        namespace = uuid.uuid4().hex[:8]
        for n, times in enumerate((cold, warm)):
            question = sides.desk.author("long question", number, n).text(QUESTION_TOKENS)
            program = one_request(text + question, LONG_ANSWER_TOKENS)
            times.append(sides.play(CACHED, [program], 1, namespace))
    return cold, warm


def show_chats(found: Found) -> None:
    rows = [
        [
            side,
            spread_text(Spread.of([100 * share(each.reused_tokens, each.prompt_tokens) for each in summaries])),
            spread_text(Spread.of([each.output_tokens / each.took_s for each in summaries])),
            spread_text(Spread.of([each.ttft_p50_s * 1e3 for each in summaries]), ".0f"),
            spread_text(Spread.of([each.ttft_p95_s * 1e3 for each in summaries]), ".0f"),
        ]
        for side, summaries in sorted(found.items())
    ]
    header = ("side", "hit rate, %", "output tok/s", "TTFT p50, ms", "TTFT p95, ms")
    faster = [b.took_s / a.took_s for a, b in zip(found[CACHED], found[PLAIN], strict=True)]
    print(f"**{CHAT_USERS} chats of {CHAT_TURNS} turns under one system prompt of {SYSTEM_TOKENS} tokens**\n")
    print(f"{markdown(header, rows)}\n\nthroughput with the cache: {ratio_text(Spread.of(faster))}\n", flush=True)


def show_concurrency(found: dict[int, Found]) -> None:
    rows = []
    for size, sides in found.items():
        on, off = ([each.ttft_p95_s * 1e3 for each in sides[side]] for side in (CACHED, PLAIN))
        less = [100 * (1 - a / b) for a, b in zip(on, off, strict=True)]
        rows.append([str(size), *(spread_text(Spread.of(each), ".0f") for each in (on, off, less))])
    print(f"**Questions at once behind {SYSTEM_TOKENS} tokens that were seen before: TTFT p95, ms**\n")
    print(f"{markdown(('at once', CACHED, PLAIN, 'less, %'), rows)}\n", flush=True)


def show_long(cold: list[Summary], warm: list[Summary]) -> None:
    skipped = statistics.median(share(each.reused_tokens, each.prompt_tokens) for each in warm)
    rows = [
        [name, spread_text(Spread.of([each.ttft_p50_s * 1e3 for each in summaries]), ".0f")]
        for name, summaries in (("new", cold), ("seen, another question", warm))
    ]
    ratio = Spread.of([a.ttft_p50_s / b.ttft_p50_s for a, b in zip(cold, warm, strict=True)])
    print(f"**{LONG_TOKENS} shared and {QUESTION_TOKENS} new tokens**\n\n{markdown(('text', 'TTFT, ms'), rows)}\n")
    print(
        f"{skipped:.1%} of the prompt's tokens were not computed again; the first token came {ratio_text(ratio)} sooner"
    )


def draw(folder: Path, found: dict[int, Found]) -> None:
    from scripts.bench.measure import chart

    series = {
        side: {size: statistics.median(each.ttft_p95_s for each in found[size][side]) for size in found}
        for side in (CACHED, PLAIN)
    }
    title = f"Time to first token behind {SYSTEM_TOKENS} shared tokens, 95th percentile"
    chart.lines(folder / "ttft_concurrency.png", title, "requests at once", "s", series)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=FIGURES, default=list(FIGURES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--options", default="", help="of both servers, as for `sapwood serve`")
    parser.add_argument("--model-path", default="bundled")
    parser.add_argument("--png", type=Path, metavar="FOLDER")
    return parser.parse_args()


FIGURES = ("chats", "concurrency", "long")


def main() -> None:
    arguments = parse()
    common = ["--model-path", arguments.model_path, "--max-total-tokens", "49152", *shlex.split(arguments.options)]
    print(machine.in_words(machine.describe()), end="\n\n")
    with deployed(*common) as cached, deployed(*common, "--disable-radix-cache") as plain:
        desk = Desk(encoder(arguments.model_path), arguments.seed)
        sides = Sides({CACHED: cached.url, PLAIN: plain.url}, desk, arguments.rounds)
        if "chats" in arguments.only:
            show_chats(chats(sides))
        if "concurrency" in arguments.only:
            found = concurrency(sides)
            show_concurrency(found)
            if arguments.png:
                draw(arguments.png, found)
        if "long" in arguments.only:
            show_long(*long_prompt(sides))


if __name__ == "__main__":
    main()
