"""An executor in this process, driven step by step: requests of any context are there at once, then decode.

A context's keys and values are not computed: the pool is filled with noise and the model is passed over while the
contexts are taken up, since a step takes as long whatever they hold. Knows plans and the runner; no scheduler.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import torch
import yaml
from torch import Tensor

from scripts.bench.measure.work import Shape
from services.executor.assembly import assemble
from services.executor.attention.base import contexts
from services.executor.compute import ComputedShape, ForwardModel
from services.executor.model.forward import Batch
from services.executor.model.prepare import prepare
from services.executor.slots import runs_of
from shared import logging, wire
from shared.config import load

PASSED_OVER_TOKENS = 4096  # at a time
PASSED_OVER_IDS = 2048  # the ids that follow what is passed over; fewer are faster to choose from
NEW_TOKENS = 120  # more than any measurement decodes
ORDINARY = range(1000, 40_000)  # ids that end nothing


class Passable:
    """A model that can be told to pass over what it is given, to unshare it, or to leave it to another model."""

    def __init__(self, model: ForwardModel) -> None:
        self._model = model
        self.passes = False
        self.unshares = False
        self.other: ForwardModel | None = None  # computes in its place
        self._chance = torch.Generator().manual_seed(1)

    @property
    def shape(self) -> ComputedShape:
        return self._model.shape

    @property
    def device(self) -> torch.device:
        return self._model.device

    @property
    def dtype(self) -> torch.dtype:
        return self._model.dtype

    def forward(self, batch: Batch, keys: Tensor, values: Tensor) -> Tensor:
        if self.passes:
            return self._any_logits(len(batch.logits_rows))
        if self.unshares:
            batch = replace(batch, segments=tuple(contexts(batch.segments)))
        return (self.other or self._model).forward(batch, keys, values)

    def _any_logits(self, rows: int) -> Tensor:
        chosen = torch.randint(PASSED_OVER_IDS, (rows, 1), generator=self._chance)
        return torch.zeros(rows, PASSED_OVER_IDS).scatter_(1, chosen, 1.0)


def add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of the executor's configuration")


def settings(pairs: Iterable[str]) -> dict[str, object]:
    """KEY=VALUE, as on the command line; the values are read as YAML, as in a configuration file."""
    return {name: yaml.safe_load(value) for name, _, value in (pair.partition("=") for pair in pairs)}


class Inside:
    def __init__(
        self, options: dict[str, object], model_path: str = "bundled", *, beside: Inside | None = None
    ) -> None:
        """Args:
        options: the configuration's `executor` keys, such as max_total_tokens; other sections' with a dot.
        beside: another one with the same options, whose model is shared; everything else is its own.
        """
        logging.configure("bench", level="warning")  # a line for each request would drown the figures
        overrides = {name if "." in name else f"executor.{name}": value for name, value in options.items()}
        config = load(overrides={"model.path": model_path, **overrides})
        self.folder = prepare(config.model)
        self.runner = assemble(config).runner
        # The only place that looks behind the runner: nothing else needs its model, pool or lanes from outside.
        self.model = self.runner._model = Passable(self.runner._model) if beside is None else beside.model
        for part in (self.runner._pool.keys, self.runner._pool.values):
            part.copy_(torch.randn(part.shape[1:]))
        self.threads = torch.get_num_threads()
        self._steps = itertools.count(1)
        self._lanes = itertools.count()
        self._chance = random.Random(1)

    @property
    def shape(self) -> Shape:
        return cast(Shape, self.model.shape)

    @property
    def kv_itemsize(self) -> int:
        return self.runner._pool.keys.dtype.itemsize

    @property
    def kv_dtype(self) -> str:
        return str(self.runner._pool.keys.dtype).removeprefix("torch.")

    def tokens(self, count: int) -> tuple[int, ...]:
        return tuple(self._chance.choices(ORDINARY, k=count))

    def run(
        self, slices: Iterable[wire.Slice], admits: Sequence[wire.Admit] = (), release: Sequence[int] = ()
    ) -> wire.StepResult:
        return self.runner.run(wire.StepPlan(next(self._steps), tuple(admits), tuple(slices), release=tuple(release)))

    def step(
        self, slices: Iterable[wire.Slice], admits: Sequence[wire.Admit] = (), release: Sequence[int] = ()
    ) -> wire.StepResult:
        """As `run`, of slices that must not fail."""
        result = self.run(slices, admits, release)
        for outcome in result.outcomes:
            if outcome.error is not None or outcome.declined:
                raise RuntimeError(f"the executor refused: {outcome}")
        return result

    def take_up(self, prompts: Sequence[tuple[int, ...]]) -> list[int]:
        """Requests whose prompts count as computed; the next step of each decodes. Returns their lanes."""
        lanes = [self.admit(prompt) for prompt in prompts]
        for lane, prompt in zip(lanes, prompts, strict=True):
            self.pass_over(lane, len(prompt))
        return lanes

    def pass_over(self, lane: int, tokens: int) -> None:
        """So many of the lane's next tokens count as computed."""
        with self.passing_over():
            for start in range(0, tokens, PASSED_OVER_TOKENS):
                self.step([wire.Slice(lane, min(tokens - start, PASSED_OVER_TOKENS))])

    @contextmanager
    def passing_over(self) -> Iterator[None]:
        """Whatever is computed in here counts as computed, and any token follows it."""
        self.model.passes = True
        try:
            yield
        finally:
            self.model.passes = False

    def admit(self, prompt: tuple[int, ...]) -> int:
        """Returns the lane."""
        admit = self.new_admit(prompt, NEW_TOKENS)
        self.step([], admits=[admit])
        return admit.lane

    def new_admit(self, prompt: tuple[int, ...], new_tokens: int) -> wire.Admit:
        lane = next(self._lanes)
        sampling = wire.Sampling(seed=1, temperature=0.0, ignore_eos=True)
        return wire.Admit(lane, f"r{lane}", prompt, sampling, new_tokens)

    def decode(self, lanes: Iterable[int]) -> wire.StageTimes:
        return self.step([wire.Slice(lane, 1) for lane in lanes]).times

    def runs(self, lane: int, start: int = 0, end: int | None = None) -> int:
        """In how many pieces of the pool the lane's tokens [start, end) lie."""
        held = self.runner._lanes[lane]
        return len(list(runs_of(held.slots[start : held.computed if end is None else end])))

    def clear(self, lanes: Sequence[int]) -> None:
        """End them, and forget what they left behind."""
        self.step([], release=lanes)
        self.runner.flush()
