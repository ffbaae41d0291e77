#!/usr/bin/env python3
"""Whether the executor's greedy tokens and log-probabilities are those of transformers in float32.

Fifty prompts, 64 tokens each: alone, with drafts, 16 at once, and behind a prefix that all share, read once for all of
them, with a cold and a warm cache. The same for each type of keys and values that is named.

    .venv/bin/python scripts/bench/exactness.py [--kv float32 float16] [--set weights=native]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from tokenizers import Tokenizer

from scripts.bench.comparison.tables import markdown
from scripts.bench.measure import machine
from scripts.bench.measure.inside import add_settings, settings
from scripts.bench.measure.outputs import SCENES, play
from scripts.bench.measure.teacher import Agreement, Teacher
from services.executor.assembly import assemble
from services.executor.model.prepare import prepare
from shared.config import Config, ExecutorConfig, load
from tests.support.oracle import oracle_model
from tests.support.prompts import PROMPTS

PREFIX_TEXT = "You are a careful assistant who answers in full sentences and explains every step. " * 24
ROOM = 24_000
HEADER = ("weights", "KV", "requests", "positions", "not the likeliest", "by at most", "largest logprob error")


def configured(options: dict[str, object]) -> Config:
    return load(overrides={f"executor.{name}": value for name, value in options.items()})


def row(executor: ExecutorConfig, name: str, found: Agreement) -> list[str]:
    furthest = f"{found.gaps[0]:.1g}" if found.gaps else ""
    figures = [f"{found.positions:,}", str(found.ties), furthest, f"{found.logprob_error:.1g}"]
    return [executor.weights, executor.kv_dtype, name, *figures]


def rows(config: Config, teacher: Teacher, prompts: int, new_tokens: int) -> Iterator[list[str]]:
    tokenizer = Tokenizer.from_file(str(prepare(config.model) / "tokenizer.json"))
    prefix, *texts = (tuple(tokenizer.encode(text, add_special_tokens=False).ids) for text in (PREFIX_TEXT, *PROMPTS))
    runner = assemble(config).runner
    for scene in SCENES:
        found = teacher.compare(play(scene, runner, texts[:prompts], prefix, new_tokens))
        gaps = ", ".join(f"a gap of {gap:.5f}" for gap in found.gaps)
        print(f"{config.executor.kv_dtype}, {scene.name}: {gaps or 'no ties'}")
        yield row(config.executor, scene.name, found)
    counters = runner.counters()
    print(f"{counters.accepted_tokens} of {counters.drafted_tokens} drafted tokens were right\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kv", nargs="+", default=["float32", "float16"], metavar="TYPE")
    parser.add_argument("--prompts", type=int, default=len(PROMPTS))
    parser.add_argument("--new-tokens", type=int, default=64)
    add_settings(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    print(machine.in_words(machine.describe()), end="\n\n")
    teacher = Teacher(oracle_model())
    table = []
    for kv_dtype in arguments.kv:
        config = configured({"max_total_tokens": ROOM, **settings(arguments.set), "kv_dtype": kv_dtype})
        table += rows(config, teacher, arguments.prompts, arguments.new_tokens)
    print(markdown(HEADER, table))


if __name__ == "__main__":
    main()
