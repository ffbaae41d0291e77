#!/usr/bin/env python3
"""What sharing is worth in a pool that has seen 10,000 mixed requests, against a fresh one.

The requests come and go at 90% occupancy, with all of their slots and nodes; they are not computed. Then a group with
a common prefix moves in, beside as many others as leave it room; another group has a fresh pool for itself. Their
decoding steps take turns: what is shared read once, and each request for itself (see `sharing.py`).

    .venv/bin/python scripts/bench/aged_pool.py [--requests 10000] [--tokens 24000] [--samples 3]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from functools import partial

from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, ratio_text, spread_text
from scripts.bench.measure import machine
from scripts.bench.measure.ageing import Ageing
from scripts.bench.measure.inside import NEW_TOKENS, Inside, add_settings, settings
from scripts.bench.measure.mixture import Mixture
from scripts.bench.measure.timing import in_turns, round_ratios
from scripts.bench.sharing import STEPS, turn

SHARERS, PREFIX, OWN = 16, 2048, 64
BETWEEN = 500  # requests, between two samples
POOLS, WAYS = ("fresh", "aged"), {"tree": False, "per request": True}
HEADER = ("pool", "way", "ms a step", "per request ÷ tree")

Times = dict[tuple[str, str], list[float]]  # by pool and way


def take_up(inside: Inside) -> list[int]:
    head = inside.tokens(PREFIX)
    return inside.take_up([head + inside.tokens(OWN) for _ in range(SHARERS)])


def sample(insides: dict[str, Inside], rounds: int) -> Times:
    """Of new groups."""
    groups = {pool: take_up(inside) for pool, inside in insides.items()}
    turns = {
        (pool, way): partial(turn, insides[pool], groups[pool], unshares=unshares)
        for pool in POOLS
        for way, unshares in WAYS.items()
    }
    found = in_turns({str(number): each for number, each in enumerate(turns.values())}, rounds)
    for pool, inside in insides.items():
        print(f"{pool}: {pieces(inside, groups[pool])}")
        inside.step([], release=groups[pool])
    return dict(zip(turns, found.values(), strict=True))


def pieces(inside: Inside, lanes: Sequence[int]) -> str:
    """In how many runs of slots the contexts lie."""
    own = [inside.runs(lane, PREFIX) for lane in lanes]
    whole = [inside.runs(lane) for lane in lanes]
    return (
        f"the prefix lies in {inside.runs(lanes[0], 0, PREFIX)} runs, what is behind it in {statistics.mean(own):.1f} "
        f"(at most {max(own)}), a context in {statistics.mean(whole):.1f}"
    )


def rows(times: Times) -> list[list[str]]:
    ratios = {pool: round_ratios(times[pool, "per request"], times[pool, "tree"]) for pool in POOLS}
    table = []
    for (pool, way), spent in times.items():
        ratio = ratio_text(Spread.of(ratios[pool])) if way == "tree" else ""
        table.append([pool, way, spread_text(Spread.of([1e3 * each / STEPS for each in spent])), ratio])
    return table


def of_the_fresh(times: Times) -> str:
    """The aged pool's figures as parts of the fresh one's, round by round."""
    ratios = {pool: round_ratios(times[pool, "per request"], times[pool, "tree"]) for pool in POOLS}
    parts = Spread.of(round_ratios(ratios["aged"], ratios["fresh"]))
    longer = Spread.of(round_ratios(times["aged", "tree"], times["fresh", "tree"]))
    return (
        f"the ratio is {ratio_text(parts)} that of a fresh pool; a step with sharing takes {ratio_text(longer)} as long"
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--tokens", type=int, default=24_000, help="of the pool")
    parser.add_argument("--samples", type=int, default=3, help=f"groups, with {BETWEEN} more requests between them")
    parser.add_argument("--rounds", type=int, default=5, help="of each sample")
    parser.add_argument("--seed", type=int, default=1)
    add_settings(parser)
    parser.add_argument("--model-path", default="bundled")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    print(machine.in_words(machine.describe()))
    options = {"max_total_tokens": arguments.tokens, **settings(arguments.set)}
    aged = Inside(options, arguments.model_path)
    insides = {"fresh": Inside(options, arguments.model_path, beside=aged), "aged": aged}
    ageing = Ageing(aged, Mixture(arguments.seed))
    times: Times = {(pool, way): [] for pool in POOLS for way in WAYS}
    for number in range(arguments.samples):
        start_s = time.perf_counter()
        ageing.run(BETWEEN if number else arguments.requests)
        ageing.make_room(PREFIX + SHARERS * (OWN + NEW_TOKENS))
        print(f"{ageing.in_words()} ({time.perf_counter() - start_s:.0f} s)")
        for key, spent in sample(insides, arguments.rounds).items():
            times[key] += spent
        insides["fresh"].runner.flush()
    print(
        f"\n{SHARERS} sharing {PREFIX}, {OWN} of their own\n\n{markdown(HEADER, rows(times))}\n\n{of_the_fresh(times)}"
    )


if __name__ == "__main__":
    main()
