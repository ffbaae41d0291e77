"""A chain of steps over a text that the server has not seen: each step's prompt is all that came before, and an order.

Nothing but the chain itself can be found in the cache: its first step computes the text on both sides.
"""

from __future__ import annotations

from collections import defaultdict

from scripts.bench.cache.dependent import multi_turn
from scripts.bench.cache.summary import share
from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, spread_text
from scripts.bench.gains.sides import CACHED, PLAIN, Found, Sides, new_namespace
from scripts.bench.measure.timing import round_ratios

STEPS, TEXT_TOKENS, ORDER_TOKENS, RESULT_TOKENS = 4, 1000, 40, 48
CHAINS = 2  # of a round, one after another


def measure(sides: Sides) -> Found:
    found: Found = defaultdict(list)
    for number in range(sides.rounds * CHAINS):
        namespace = new_namespace()
        for side in sides.in_turns(number):
            desk = sides.desk_of(number)
            chain = multi_turn(
                desk, 1.0, users=1, turns=STEPS, system=TEXT_TOKENS, message=ORDER_TOKENS, answer=RESULT_TOKENS
            )
            found[side].append(sides.play(side, chain, 1, namespace))
    return found


def show(sides: Sides) -> None:
    found = measure(sides)
    rows = [
        [
            side,
            spread_text(Spread.of([each.took_s for each in summaries]), ".2f"),
            spread_text(Spread.of([100 * share(each.reused_tokens, each.prompt_tokens) for each in summaries])),
        ]
        for side, summaries in sorted(found.items())
    ]
    parts = round_ratios([each.took_s for each in found[CACHED]], [each.took_s for each in found[PLAIN]])
    less = spread_text(Spread.of([100 * (1 - part) for part in parts]), ".0f")
    print(f"**A chain of {STEPS} steps over {TEXT_TOKENS} tokens, {RESULT_TOKENS} new ones a step**\n")
    print(f"{markdown(('side', 'end to end, s', 'hit rate, %'), rows)}\n\n{less}% less, end to end\n", flush=True)
