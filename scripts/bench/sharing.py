#!/usr/bin/env python3
"""Whole decoding steps of requests that share a prefix: what is shared read once, against each request for itself.

The same engine, weights, keys and values; the two ways take turns of a few steps each. The other way is the engine's
own kernel on the same requests with nothing marked as shared. For the kernels alone, see `attention.py`.

    .venv/bin/python scripts/bench/sharing.py [--cases 16x2048 64x8000] [--set kv_dtype=float16]
"""

from __future__ import annotations

import argparse

from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, ratio_text, spread_text
from scripts.bench.measure import ceilings, machine
from scripts.bench.measure.inside import Inside, settings
from scripts.bench.measure.timing import in_turns, round_ratios
from scripts.bench.measure.work import kv_bytes

STEPS = 4  # of a turn
TREE, EACH = "tree", "per request"


def turn(inside: Inside, lanes: list[int], *, unshares: bool) -> None:
    inside.model.unshares = unshares
    for _ in range(STEPS):
        inside.decode(lanes)
    inside.model.unshares = False


def case(inside: Inside, sharers: int, prefix: int, own: int, rounds: int) -> list[list[str]]:
    head = inside.tokens(prefix)
    lanes = inside.take_up([head + inside.tokens(own) for _ in range(sharers)])
    ways = {TREE: False, EACH: True}
    times = in_turns(
        {name: (lambda unshares=unshares: turn(inside, lanes, unshares=unshares)) for name, unshares in ways.items()},
        rounds,
    )
    inside.clear(lanes)
    tokens = {TREE: prefix + sharers * own, EACH: sharers * (prefix + own)}
    name = f"{sharers} sharing {prefix}, {own} of their own"
    return [_row(inside, name, way, times, tokens[way]) for way in ways]


def _row(inside: Inside, name: str, way: str, times: dict[str, list[float]], kv_tokens: int) -> list[str]:
    steps_ms = [1e3 * spent / STEPS for spent in times[way]]
    num_bytes = kv_bytes(inside.shape, kv_tokens, itemsize=inside.kv_itemsize)
    ratio = "" if way == EACH else ratio_text(Spread.of(round_ratios(times[EACH], times[TREE])))
    return [name, way, spread_text(Spread.of(steps_ms)), f"{num_bytes / 1e9:.2f}", ratio]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=["16x2048", "64x8000"], metavar="SHARERSxPREFIX")
    parser.add_argument("--own", type=int, default=64, help="tokens of each request's own")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of the executor's configuration")
    parser.add_argument("--model-path", default="bundled")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    print(machine.in_words(machine.describe()))
    wanted = [tuple(map(int, text.split("x"))) for text in arguments.cases]
    room = max(prefix + sharers * (arguments.own + 200) for sharers, prefix in wanted)
    inside = Inside({"max_total_tokens": room, **settings(arguments.set)}, arguments.model_path)
    print(f"{inside.threads} threads; {ceilings.measure(inside.threads).in_words()}\n")
    rows = [row for sharers, prefix in wanted for row in case(inside, sharers, prefix, arguments.own, arguments.rounds)]
    print(markdown(("case", "way", "ms a step", "GB of KV read", "per request ÷ tree"), rows))


if __name__ == "__main__":
    main()
