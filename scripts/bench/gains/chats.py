"""Users in conversations of several turns under one system prompt: hit rate and throughput."""

from __future__ import annotations

from collections import defaultdict

from scripts.bench.cache.dependent import multi_turn
from scripts.bench.cache.summary import share
from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, ratio_text, spread_text
from scripts.bench.gains.sides import CACHED, PLAIN, Found, Sides, new_namespace
from scripts.bench.measure.timing import round_ratios

USERS, TURNS, SYSTEM_TOKENS = 8, 4, 600
HEADER = ("side", "hit rate, %", "output tok/s", "TTFT p50, ms", "TTFT p95, ms")


def measure(sides: Sides) -> Found:
    found: Found = defaultdict(list)
    for number in range(sides.rounds):
        namespace = new_namespace()
        for side in sides.in_turns(number):
            talks = multi_turn(sides.desk_of(number), 1.0, users=USERS, turns=TURNS, system=SYSTEM_TOKENS)
            found[side].append(sides.play(side, talks, USERS, namespace))
    return found


def show(sides: Sides) -> None:
    found = measure(sides)
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
    faster = round_ratios([each.took_s for each in found[PLAIN]], [each.took_s for each in found[CACHED]])
    print(f"**{USERS} chats of {TURNS} turns under one system prompt of {SYSTEM_TOKENS} tokens**\n")
    print(f"{markdown(HEADER, rows)}\n\nthroughput with the cache: {ratio_text(Spread.of(faster))}\n", flush=True)
