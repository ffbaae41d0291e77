#!/usr/bin/env python3
"""A step's time by stage, in process: decoding over batch and context, and prompt chunks beside the matrix ceiling.

Contexts have nothing in common, or all but 64 tokens with --shared. A stage is what `StageTimes` reports; the rest of a
step is bookkeeping. Scheduling and messages run in other processes beside it and are not in here (`planning.py`).

    .venv/bin/python scripts/bench/step.py [--batches 1 16] [--contexts 300 2000] [--set kv_dtype=float16] [--shared]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from scripts.bench.comparison.tables import markdown
from scripts.bench.measure import ceilings, machine
from scripts.bench.measure.inside import Inside, add_settings, settings
from scripts.bench.measure.work import attention_flops, chunk_pairs, linear_flops
from shared import wire

OWN_TOKENS = 64  # of each context, with --shared
STAGES = ("match", "forward", "mask", "sample")
CHUNK_TOKENS = 512
WARM_UP_STEPS = 3


def stages(times: Sequence[wire.StageTimes]) -> dict[str, float]:
    """Median ms of each stage, of the rest, and in all."""
    found = {name: 1e3 * statistics.median(getattr(each, f"{name}_s") for each in times) for name in STAGES}
    total = 1e3 * statistics.median(each.total_s for each in times)
    return {**found, "rest": max(0.0, total - sum(found.values())), "total": total}


def decoding(inside: Inside, batch: int, context: int, arguments: argparse.Namespace) -> dict[str, float]:
    head = inside.tokens(context - OWN_TOKENS) if arguments.shared else ()
    lanes = inside.take_up([head + inside.tokens(context - len(head)) for _ in range(batch)])
    for _ in range(WARM_UP_STEPS):
        inside.decode(lanes)
    found = stages([inside.decode(lanes) for _ in range(arguments.steps)])
    inside.clear(lanes)
    return found


def prefill(inside: Inside, cached: int, rounds: int) -> dict[str, float]:
    """One chunk of a prompt behind so many tokens of it."""
    times = []
    for _ in range(rounds + 1):
        lane = inside.admit(inside.tokens(cached + CHUNK_TOKENS))
        inside.pass_over(lane, cached)
        times.append(inside.step([wire.Slice(lane, CHUNK_TOKENS)]).times)
        inside.clear([lane])
    return stages(times[1:])


def decode_row(batch: int, context: int, found: dict[str, float]) -> list[str]:
    outside = 1 - found["forward"] / found["total"]
    cells = [str(batch), str(context), *(f"{found[name]:.2f}" for name in (*STAGES, "rest", "total"))]
    return [*cells, f"{outside:.1%}", f"{1e3 * batch / found['total']:.0f}"]


def prefill_row(inside: Inside, cached: int, found: dict[str, float], top: ceilings.Ceilings) -> list[str]:
    shape = inside.shape
    linear = linear_flops(shape, CHUNK_TOKENS, logits_rows=1)
    all_of_it = linear + attention_flops(shape, chunk_pairs(CHUNK_TOKENS, cached))
    speed = all_of_it / found["total"] * 1e3
    cells = [
        str(cached),
        f"{found['forward']:.0f}",
        f"{found['total']:.0f}",
        f"{1e3 * CHUNK_TOKENS / found['total']:.0f}",
    ]
    return [*cells, f"{speed / 1e9:.0f}", f"{speed / top.gemm_flop_s:.0%}"]


def draw(folder: Path, figures: dict[tuple[int, int], dict[str, float]], *, shared: bool) -> None:
    from scripts.bench.measure import chart

    groups = [f"{batch} × {context}" for batch, context in figures]
    parts = {name: [found[name] for found in figures.values()] for name in (*STAGES, "rest")}
    name, what = ("step_shared.png", "all but 64 tokens shared") if shared else ("step.png", "nothing shared")
    chart.stacks(folder / name, f"A decoding step by stage, batch × context, {what}", "ms", groups, parts)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--contexts", type=int, nargs="+", default=[300, 2000])
    parser.add_argument("--cached", type=int, nargs="*", default=[0, 1500, 6000], help="before a prompt's chunk")
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--steps", type=int, default=15, help="of each figure")
    add_settings(parser)
    parser.add_argument("--model-path", default="bundled")
    parser.add_argument("--png", type=Path, metavar="FOLDER")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    print(machine.in_words(machine.describe()))
    sizes = [batch * (context + arguments.steps + 8) for batch in arguments.batches for context in arguments.contexts]
    room = max([*sizes, *(cached + CHUNK_TOKENS for cached in arguments.cached)]) + 4096
    inside = Inside({"max_total_tokens": room, **settings(arguments.set)}, arguments.model_path)
    print(f"{inside.threads} threads\n")
    top = ceilings.measure(inside.threads)
    figures = {}
    for batch in arguments.batches:
        for context in arguments.contexts:
            figures[batch, context] = decoding(inside, batch, context, arguments)
    rows = [decode_row(*key, found) for key, found in figures.items()]
    print(markdown(("batch", "context", *STAGES, "rest", "ms a step", "outside the model", "tok/s"), rows), end="\n\n")
    chunks = {cached: prefill(inside, cached, 3) for cached in arguments.cached}
    top = top.or_better(ceilings.measure(inside.threads))
    rows = [prefill_row(inside, cached, found, top) for cached, found in chunks.items()]
    header = ("cached", "forward, ms", "ms a step", "tok/s", "GFLOP/s", "of the matrix ceiling")
    print(f"{CHUNK_TOKENS} new tokens of one prompt; {top.in_words()}\n\n{markdown(header, rows)}")
    if arguments.png:
        draw(arguments.png, figures, shared=arguments.shared)


if __name__ == "__main__":
    main()
