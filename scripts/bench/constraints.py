#!/usr/bin/env python3
"""What constraints cost and save, in process: CPU time a token, forward steps, masks.

cost    as many requests with a constraint as without, step by step in turns; nothing is forced
jump    JSON with fixed separators, with and without jump-forward: the same text, in fewer steps
masks   many requests with one schema: the share of the steps' time; and what a second request computes anew

.venv/bin/python scripts/bench/constraints.py [--only cost jump masks] [--steps 60] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from scripts.bench.cache.author import Encode
from scripts.bench.cache.tokens import encoder
from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, ratio_text, spread_text
from scripts.bench.measure import machine
from scripts.bench.measure.inside import Inside, add_settings, settings
from scripts.bench.structured import schemas
from services.executor.constraint.engine import Grammar, load_tokenizer
from services.executor.constraint.source.translate import translate
from shared import wire
from shared.config import ConstraintsConfig, ModelConfig
from shared.constraints import key_of
from shared.model_card import load_card

BATCH = 16
MASK_BATCH = 64
CONTEXT_TOKENS = 300
SPARE_TOKENS = 64
WARM_UP_STEPS = 8
PROMPT = "{what} about Kyoto, as JSON:\n{example}\n\n{what} about {town}, as JSON:\n"
TOWNS = ("Lyon", "Oslo", "Bari", "Graz", "Gent", "Pisa", "Kiel", "Cork")
FREE = {  # without a forced token
    "letters, spaces and marks": wire.Constraint("regex", r"[A-Za-z0-9 ,.'!?\-]*"),
    "anything but quotes": wire.Constraint("regex", r'[^"]*'),
    "words of any script": wire.Constraint("regex", r"(?u)(\w+[ ,.]+)*"),
}


@dataclass(frozen=True)
class Subject:
    what: str
    schema: schemas.Schema
    example: schemas.Schema

    @property
    def constraint(self) -> wire.Constraint:
        return wire.Constraint("json_schema", json.dumps(self.schema))

    def prompt(self, town: str) -> str:
        return PROMPT.format(what=self.what, example=json.dumps(self.example), town=town)


ORDER = Subject("An order", schemas.ORDER, schemas.ORDER_EXAMPLE)  # its strings are bounded
ARTICLE = Subject("An article", schemas.ARTICLE, schemas.ARTICLE_EXAMPLE)  # its strings are of any length
IN_FLOAT32 = {"weights": "float32", "kv_dtype": "float32"}  # the reference: sums in another order change little
PARTS = ("cost", "jump", "masks")


class Constrained:
    """Requests of one constraint in an executor of this process."""

    def __init__(self, inside: Inside) -> None:
        self.inside = inside
        self.stage = inside.runner._constraints
        assert self.stage is not None
        card = load_card(ModelConfig(prepared=str(inside.folder)))
        self._tokenizer = load_tokenizer(inside.folder, inside.shape.vocab_size, card.eos_token_ids)

    def compile(self, constraint: wire.Constraint) -> None:
        text = translate(constraint, ConstraintsConfig())
        self.stage.grammars.put(Grammar(key_of(constraint), text, self._tokenizer))

    def admit(self, prompt: Sequence[int], new_tokens: int, constraint: wire.Constraint | None, **sampling: Any) -> int:
        admit = self.inside.new_admit(tuple(prompt), new_tokens)
        chosen = msgspec.structs.replace(admit.sampling, **sampling)
        admit = msgspec.structs.replace(admit, sampling=chosen, constraint=constraint)
        self.inside.step([], admits=[admit])
        return admit.lane


def cost(bench: Constrained, constraint: wire.Constraint, steps: int) -> tuple[float, float]:
    """CPU seconds a token, with the constraint and without it."""
    inside = bench.inside
    sides: list[list[int]] = []
    for side in (constraint, None):
        lanes = [
            bench.admit(inside.tokens(CONTEXT_TOKENS), steps + WARM_UP_STEPS + 2, side, ignore_eos=True)
            for _ in range(BATCH)
        ]
        for lane in lanes:
            inside.pass_over(lane, CONTEXT_TOKENS - 1)
        sides.append(lanes)
    spent = [0.0, 0.0]
    for number in range(WARM_UP_STEPS + steps):
        for side in sorted((0, 1), reverse=number % 2 == 1):
            start_s = time.process_time()
            inside.decode(sides[side])
            if number >= WARM_UP_STEPS:
                spent[side] += time.process_time() - start_s
    inside.clear([lane for lanes in sides for lane in lanes])
    return spent[0] / (steps * BATCH), spent[1] / (steps * BATCH)


def show_cost(bench: Constrained, rounds: int, steps: int) -> None:
    rows = []
    for name, constraint in FREE.items():
        bench.compile(constraint)
        found = [cost(bench, constraint, steps) for _ in range(rounds)]
        more = [100 * (a / b - 1) for a, b in found]
        cells = [spread_text(Spread.of([1e3 * pair[side] for pair in found]), ".2f") for side in (0, 1)]
        rows.append([name, *cells, spread_text(Spread.of(more))])
    print(f"**{BATCH} at once, nothing forced**\n")
    header = ("constraint", "CPU ms a token with it", "without", "more, %")
    print(f"{markdown(header, rows)}\n", flush=True)


def generate(
    bench: Constrained, prompt: Sequence[int], constraint: wire.Constraint, **sampling: Any
) -> tuple[list[int], int]:
    """One request from start to end: its tokens, and in how many steps."""
    lane = bench.admit(prompt, 1000, constraint, ignore_eos=False, **sampling)
    output: list[int] = []
    steps = 0
    while True:
        plan = wire.StepPlan(next(bench.inside._steps), slices=(wire.Slice(lane, 512),), spare_tokens=SPARE_TOKENS)
        result = bench.inside.runner.run(plan)
        steps += 1
        for outcome in result.outcomes:
            output += outcome.new_token_ids
            if outcome.error is not None:
                raise RuntimeError(str(outcome.error))
            if outcome.finish_reason is not None:
                bench.inside.clear([lane])
                return output, steps


def show_jump(jumping: Constrained, stepping: Constrained, encode: Encode, subject: Subject) -> None:
    rows, shares = [], []
    for side in (jumping, stepping):
        side.compile(subject.constraint)
    for town in TOWNS:
        prompt = encode(subject.prompt(town))
        (fast, fast_steps), (slow, slow_steps) = (
            generate(side, prompt, subject.constraint, temperature=0.0) for side in (jumping, stepping)
        )
        shares.append(fast_steps / slow_steps)
        rows.append([town, str(len(slow)), str(slow_steps), str(fast_steps), "yes" if fast == slow else "NO"])
    print(f"**Jump-forward, greedy: {subject.what.lower()} of {schemas.properties(subject.schema)} properties**\n")
    print(markdown(("prompt", "tokens", "steps without", "steps with", "same tokens"), rows))
    print(f"\nsteps with jump-forward: {ratio_text(Spread.of(shares))} those without\n", flush=True)


def show_masks(bench: Constrained, encode: Encode, subject: Subject, steps: int) -> None:
    constraint = subject.constraint
    bench.compile(constraint)
    inside = bench.inside
    prompts = [encode(subject.prompt(f"{TOWNS[n % len(TOWNS)]} {n}")) for n in range(MASK_BATCH)]
    before = bench.stage.counters(0)
    lanes = [
        bench.admit(prompt, 1000, constraint, ignore_eos=False, temperature=1.0, seed=100 + n)
        for n, prompt in enumerate(prompts)
    ]
    running, shares = set(lanes), []
    for _ in range(steps):
        if len(running) < MASK_BATCH:
            break
        result = inside.run([wire.Slice(lane, 512) for lane in sorted(running)])
        running -= {outcome.lane for outcome in result.outcomes if outcome.finish_reason is not None}
        if all(outcome.new_token_ids for outcome in result.outcomes):
            shares.append((result.times.mask_s, result.times.total_s))
    inside.clear(lanes)
    after = bench.stage.counters(0)
    share = statistics.median(mask / total for mask, total in shares)
    computed = after.computed_masks - before.computed_masks
    inherited = after.inherited_masks - before.inherited_masks
    median_ms = 1e3 * statistics.median(mask for mask, _ in shares)
    print(f"**{MASK_BATCH} requests with one schema ({subject.what.lower()}), {len(shares)} steps**\n")
    print(f"masks take {share:.1%} of a step, {median_ms:.2f} ms, at the median")
    print(f"{computed} masks computed, {inherited} inherited")
    counts = []
    for _ in range(2):
        start = bench.stage.counters(0).computed_masks
        generate(bench, prompts[0], constraint, temperature=1.0, seed=1000)
        counts.append(bench.stage.counters(0).computed_masks - start)
    print(f"one request computed {counts[0]} masks anew, the same again {counts[1]}\n", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    add_settings(parser)
    parser.add_argument("--model-path", default="bundled")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    print(machine.in_words(machine.describe()), end="\n\n")
    options = {"max_total_tokens": 65_536, "speculation": "off", **settings(arguments.set)}
    inside = Inside(options, arguments.model_path)
    bench = Constrained(inside)
    encode = encoder(arguments.model_path)
    if "cost" in arguments.only:
        show_cost(bench, arguments.rounds, arguments.steps)
    if "jump" in arguments.only:
        exact = {**options, **IN_FLOAT32}
        jumping = Inside(exact, arguments.model_path)
        stepping = Inside({**exact, "constraints.jump_forward": False}, arguments.model_path, beside=jumping)
        for subject in (ORDER, ARTICLE):
            show_jump(Constrained(jumping), Constrained(stepping), encode, subject)
    if "masks" in arguments.only:
        for subject in (ARTICLE, ORDER):
            show_masks(bench, encode, subject, arguments.steps)


if __name__ == "__main__":
    main()
