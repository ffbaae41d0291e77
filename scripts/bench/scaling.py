#!/usr/bin/env python3
"""How the cost of a token grows: with a shared prefix's length, the number of sharers, the batch, and the queue.

In process. The points of a curve take turns, so that what else the machine does falls on all of them. The prefix's
slope is held against what one more shared token costs at least: the longer of reading its keys and values once and of
the multiplications for all sharers, by ceilings measured in the same run.

    .venv/bin/python scripts/bench/scaling.py [--only prefix sharers batch queue] [--set kv_dtype=float16]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from scripts.bench import planning
from scripts.bench.comparison.tables import markdown
from scripts.bench.measure import ceilings, machine
from scripts.bench.measure.inside import Inside, add_settings, settings
from scripts.bench.measure.timing import in_turns, slope
from scripts.bench.measure.work import attention_flops, kv_bytes

STEPS = 3  # of a turn
SHARERS, OWN_TOKENS = 16, 32
PREFIXES = (1000, 2000, 4000, 6000, 8000)
SHARED_TOKENS, GROUPS = 2000, (1, 2, 4, 8, 16, 32, 64)
CONTEXT_TOKENS, BATCHES = 500, (1, 2, 4, 8, 16, 32)
QUEUES = (0, 100, 1000, 5000)
ROOM = sum(PREFIXES) + len(PREFIXES) * SHARERS * 200 + 8192

Curve = dict[float, float]  # x to ms


def group(inside: Inside, sharers: int, prefix_tokens: int) -> list[int]:
    """Lanes that share a new prefix."""
    prefix = inside.tokens(prefix_tokens)
    return inside.take_up([prefix + inside.tokens(OWN_TOKENS) for _ in range(sharers)])


def step_ms(inside: Inside, groups: dict[int, list[int]], rounds: int) -> Curve:
    """Median ms of a step of each group alone."""
    turns = {str(size): partial(_turn, inside, lanes) for size, lanes in groups.items()}
    found = {
        size: 1e3 * statistics.median(spent) / STEPS
        for size, spent in zip(groups, in_turns(turns, rounds).values(), strict=True)
    }
    inside.clear([lane for lanes in groups.values() for lane in lanes])
    return found


def _turn(inside: Inside, lanes: list[int]) -> None:
    for _ in range(STEPS):
        inside.decode(lanes)


def over_prefix(inside: Inside, rounds: int) -> Curve:
    return step_ms(inside, {length: group(inside, SHARERS, length) for length in PREFIXES}, rounds)


def over_sharers(inside: Inside, rounds: int) -> Curve:
    return step_ms(inside, {count: group(inside, count, SHARED_TOKENS) for count in GROUPS}, rounds)


def over_batch(inside: Inside, rounds: int) -> Curve:
    contexts = {size: [inside.tokens(CONTEXT_TOKENS) for _ in range(size)] for size in BATCHES}
    return step_ms(inside, {size: inside.take_up(prompts) for size, prompts in contexts.items()}, rounds)


def over_queue(steps: int) -> Curve:
    """What a step costs the scheduler, by how many requests wait."""
    return {waiting: statistics.median(planning.measure("lpm", waiting, steps)) for waiting in QUEUES}


def prefix_slope(inside: Inside, curve: Curve, top: ceilings.Ceilings) -> str:
    shape = inside.shape
    found_s = slope(curve) / 1e3
    read = kv_bytes(shape, 1, itemsize=inside.kv_itemsize)
    least_s = top.bound_s(read_bytes=read, flops=attention_flops(shape, SHARERS))
    return (
        f"one more shared token costs a step of {SHARERS} {found_s * 1e6:.2f} µs; "
        f"at least {least_s * 1e6:.2f} µs ({read} bytes, {attention_flops(shape, SHARERS) / 1e6:.2f} MFLOP): "
        f"{found_s / least_s:.2f} times that"
    )


def show(title: str, what: str, curve: Curve, tokens: Callable[[float], float]) -> None:
    rows = [[f"{x:g}", f"{ms:.2f}", f"{ms / tokens(x):.2f}"] for x, ms in curve.items()]
    print(f"**{title}**\n\n{markdown((what, 'ms a step', 'ms a token'), rows)}\n", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=CURVES, default=list(CURVES))
    parser.add_argument("--rounds", type=int, default=7)
    add_settings(parser)
    parser.add_argument("--model-path", default="bundled")
    parser.add_argument("--png", type=Path, metavar="FOLDER")
    return parser.parse_args()


CURVES = ("prefix", "sharers", "batch", "queue")


def measure(inside: Inside, only: Sequence[str], rounds: int) -> dict[str, Curve]:
    curves: dict[str, Curve] = {}
    if "prefix" in only:
        top = ceilings.measure(inside.threads)
        curves["prefix"] = over_prefix(inside, rounds)
        top = top.or_better(ceilings.measure(inside.threads))
        show(f"{SHARERS} sharing a prefix", "prefix tokens", curves["prefix"], lambda _: SHARERS)
        print(f"{top.in_words()}; {prefix_slope(inside, curves['prefix'], top)}\n")
    if "sharers" in only:
        curves["sharers"] = over_sharers(inside, rounds)
        show(f"Sharers of {SHARED_TOKENS} tokens", "sharers", curves["sharers"], lambda count: count)
    if "batch" in only:
        curves["batch"] = over_batch(inside, rounds)
        show(f"{CONTEXT_TOKENS} tokens each, nothing shared", "batch", curves["batch"], lambda size: size)
    if "queue" in only:
        curves["queue"] = over_queue(steps=100)
        rows = [[f"{waiting:g}", f"{ms:.2f}"] for waiting, ms in curves["queue"].items()]
        print(f"**The scheduler, by its queue**\n\n{markdown(('waiting', 'ms a step'), rows)}\n")
    return curves


def draw(folder: Path, curves: dict[str, Curve]) -> None:
    from scripts.bench.measure import chart

    labels = {
        "prefix": ("shared prefix, tokens", f"A decoding step of {SHARERS}"),
        "sharers": ("sharers", f"A decoding step behind {SHARED_TOKENS} shared tokens"),
        "batch": ("batch", f"A decoding step, {CONTEXT_TOKENS} tokens each, nothing shared"),
        "queue": ("requests that wait", "What a step costs the scheduler"),
    }
    for name, curve in curves.items():
        x_label, title = labels[name]
        chart.lines(folder / f"scaling_{name}.png", title, x_label, "ms", {"ms a step": curve})


def main() -> None:
    arguments = parse()
    print(machine.in_words(machine.describe()), end="\n\n")
    options = {"max_total_tokens": ROOM, **settings(arguments.set)}
    curves = measure(Inside(options, arguments.model_path), arguments.only, arguments.rounds)
    if arguments.png:
        draw(arguments.png, curves)


if __name__ == "__main__":
    main()
