#!/usr/bin/env python3
"""Greedy decoding by this engine and by transformers' `generate` in float32, the same prompts in turns, in process.

What a first token costs is taken away: each side is timed with few and with many new tokens, and the difference counts.

    .venv/bin/python -m scripts.bench.generate [--rounds 5] [--set kv_dtype=float32]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from functools import partial

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as in the executor; read when torch is loaded

import torch

from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, ratio_text, spread_text
from scripts.bench.measure import machine
from scripts.bench.measure.inside import Inside, add_settings, settings
from scripts.bench.measure.outputs import SPARE_TOKENS, Tokens, generate
from scripts.bench.measure.timing import round_ratios
from tests.support.oracle import oracle_model

PROMPT_TOKENS = 128
FEW, MANY = 2, 34  # new tokens
BATCHES = (1, 16)


def ours(inside: Inside, prompts: Sequence[Tokens], spare_tokens: int, new_tokens: int) -> None:
    inside.runner.flush()
    generate(inside.runner, prompts, new_tokens, spare_tokens)


def theirs(prompts: Sequence[Tokens], new_tokens: int) -> None:
    ids = torch.tensor(prompts)
    limits = {"max_new_tokens": new_tokens, "min_new_tokens": new_tokens}
    with torch.inference_mode():
        oracle_model().generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0, **limits)


def rate(run: Callable[[int], None], batch: int) -> float:
    """Tokens a second while decoding."""
    spent = []
    for new_tokens in (FEW, MANY):
        start = time.perf_counter()
        run(new_tokens)
        spent.append(time.perf_counter() - start)
    return batch * (MANY - FEW) / (spent[1] - spent[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    add_settings(parser)
    arguments = parser.parse_args()
    print(machine.in_words(machine.describe()))
    inside = Inside({"max_total_tokens": 8192, **settings(arguments.set)})
    table = []
    for batch in BATCHES:
        prompts = [inside.tokens(PROMPT_TOKENS) for _ in range(batch)]
        sides = {
            "ours": partial(ours, inside, prompts, 0),
            "ours, with drafts": partial(ours, inside, prompts, SPARE_TOKENS),
            "transformers": partial(theirs, prompts),
        }
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(arguments.rounds):
            for name, run in sides.items():
                rates[name].append(rate(run, batch))
        for name, found in rates.items():
            against = Spread.of(round_ratios(found, rates["transformers"]))
            table.append([str(batch), name, spread_text(Spread.of(found)), ratio_text(against)])
    print(markdown(["batch", "side", "tok/s", "against transformers"], table))


if __name__ == "__main__":
    main()
