#!/usr/bin/env python3
"""Whole decoding steps of requests that share a prefix: what is shared read once, against each request for itself.

The same requests, keys and values, in turns of a few steps each. `per request` is the engine's own kernel with nothing
marked as shared. With --gather, `gather + SDPA` is torch's forward pass in float32, which copies each context's keys
and values together and hands them to torch's attention. `without the prefix` is what a step takes where there is none.
For the kernels alone, see `attention.py`.

    .venv/bin/python scripts/bench/sharing.py [--cases 16x2048 64x8000] [--gather] [--set kv_dtype=float16]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

import torch

from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, ratio_text, spread_text
from scripts.bench.measure import ceilings, machine
from scripts.bench.measure.backends import GatherAttention
from scripts.bench.measure.inside import Inside, add_settings, settings
from scripts.bench.measure.timing import in_turns, round_ratios
from scripts.bench.measure.work import kv_bytes
from services.executor.compute import ForwardModel
from services.executor.model.load import load_model

STEPS = 4  # of a turn
TREE, EACH, GATHER, BARE = "tree", "per request", "gather + SDPA", "without the prefix"
HEADER = ("case", "KV", "way", "ms a step", "GB of KV read", "per request ÷ it", "gather + SDPA ÷ it")

Times = dict[str, list[float]]  # ms of a step, by way


def turn(inside: Inside, lanes: list[int], *, unshares: bool, steps: int = STEPS) -> None:
    inside.model.unshares = unshares
    for _ in range(steps):
        inside.decode(lanes)
    inside.model.unshares = False


def gather_turn(inside: Inside, lanes: list[int], model: ForwardModel) -> None:
    """One step: it may take many seconds."""
    inside.model.other = model
    inside.decode(lanes)
    inside.model.other = None


def case(inside: Inside, gather: ForwardModel | None, sharers: int, prefix: int, own: int, rounds: int) -> Times:
    head = inside.tokens(prefix)
    lanes = inside.take_up([head + inside.tokens(own) for _ in range(sharers)])
    bare = inside.take_up([inside.tokens(own) for _ in range(sharers)])
    turns = {
        TREE: partial(turn, inside, lanes, unshares=False),
        EACH: partial(turn, inside, lanes, unshares=True),
    }
    if gather is not None:
        turns[GATHER] = partial(gather_turn, inside, lanes, gather)
    turns[BARE] = partial(turn, inside, bare, unshares=False)
    times = in_turns(turns, rounds)
    inside.clear([*lanes, *bare])
    return {way: [1e3 * each / (1 if way == GATHER else STEPS) for each in spent] for way, spent in times.items()}


def rows(inside: Inside, times: Times, sharers: int, prefix: int, own: int) -> Iterator[list[str]]:
    for way, spent in times.items():
        kv_tokens = sharers * own + {TREE: prefix, BARE: 0}.get(way, sharers * prefix)
        read_gb = kv_bytes(inside.shape, kv_tokens, itemsize=inside.kv_itemsize) / 1e9
        yield [
            f"{sharers} sharing {prefix}, {own} of their own",
            inside.kv_dtype,
            way,
            spread_text(Spread.of(spent)),
            f"{read_gb:.2f}",
            *(_ratio(times, slower, way) for slower in (EACH, GATHER)),
        ]


def _ratio(times: Times, slower: str, way: str) -> str:
    """Of those that come before the slower one."""
    if slower not in times or list(times).index(slower) <= list(times).index(way):
        return ""
    return ratio_text(Spread.of(round_ratios(times[slower], times[way])))


def gathering(inside: Inside) -> ForwardModel:
    return load_model(
        inside.folder, attention=GatherAttention(), device=inside.model.device, dtype=torch.float32, weights="float32"
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=["16x2048", "64x8000"], metavar="SHARERSxPREFIX")
    parser.add_argument("--own", type=int, default=64, help="tokens of each request's own")
    parser.add_argument("--gather", action="store_true", help="also gather + SDPA: minutes for 64x8000")
    parser.add_argument("--rounds", type=int, default=5)
    add_settings(parser)
    parser.add_argument("--model-path", default="bundled")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    print(machine.in_words(machine.describe()))
    wanted = [tuple(map(int, text.split("x"))) for text in arguments.cases]
    room = max(prefix + 2 * sharers * (arguments.own + 200) for sharers, prefix in wanted)
    inside = Inside({"max_total_tokens": room, **settings(arguments.set)}, arguments.model_path)
    print(f"{inside.threads} threads; {ceilings.measure(inside.threads).in_words()}\n")
    gather = gathering(inside) if arguments.gather else None
    table: list[list[str]] = []
    for sharers, prefix in wanted:
        times = case(inside, gather, sharers, prefix, arguments.own, arguments.rounds)
        table += rows(inside, times, sharers, prefix, arguments.own)
    print(markdown(HEADER, table))


if __name__ == "__main__":
    main()
