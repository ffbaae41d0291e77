"""Times of whole steps: one token for each of so many sequences behind so long a context, and a prompt's chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from scripts.bench.gpu.backends import make_backend
from scripts.bench.gpu.decoding import make_batch
from scripts.bench.gpu.timing import Times, in_turns, timed
from services.executor.attention.base import Segment, SlotRun
from services.executor.kv_pool import bytes_per_token, make_pool
from services.executor.model.forward import Batch, Model

POOL_SHARE = 0.5  # of the device's free memory


@dataclass(frozen=True)
class Sizes:
    batches: Sequence[int]
    contexts: Sequence[int]  # tokens, those of the step included
    chunks: Sequence[int]
    rounds: int


@dataclass(frozen=True)
class StepTimes:
    kind: str  # decode, chunk
    sequences: int
    context: int
    rows: int
    step: Times
    planning: Times  # of the attention, within the step

    def line(self) -> str:
        return (
            f"{self.kind:6} {self.sequences:4} x {self.context:5}: {self.step.median_s * 1e3:8.2f} ms "
            f"({self.step.least_s * 1e3:.2f} to {self.step.most_s * 1e3:.2f}), planning attention "
            f"{self.planning.median_s * 1e3:.2f} ms, {self.rows / self.step.median_s:9.0f} tok/s"
        )


def measure_steps(model: Model[Any], sizes: Sizes, free_bytes: int) -> Iterator[StepTimes]:
    """What does not fit the memory is left out."""
    fitting = int(POOL_SHARE * free_bytes) // bytes_per_token(model.shape, model.dtype)
    wanted = [("decode", batch, context, 1) for context in sizes.contexts for batch in sizes.batches]
    wanted += [("chunk", 1, chunk, chunk) for chunk in sizes.chunks]
    for kind, sequences, context, rows in wanted:
        if sequences * context <= fitting:
            yield _measure(model, kind, sequences, context, rows, sizes.rounds)


def _measure(model: Model[Any], kind: str, sequences: int, context: int, rows: int, rounds: int) -> StepTimes:
    pool = make_pool(model.shape, sequences * context, device=model.device, dtype=model.dtype)
    pool.keys.normal_()
    pool.values.normal_()
    batch = _batch(sequences, context, rows, model.device)
    backend = make_backend(model.shape, model.device)
    times = in_turns(
        {
            "step": timed(lambda: model.forward(batch, pool.keys, pool.values), model.device),
            "planning": timed(lambda: backend.plan(batch.segments, model.device), model.device),
        },
        rounds,
    )
    return StepTimes(kind, sequences, context, sequences * rows, times["step"], times["planning"])


def _batch(sequences: int, context: int, rows: int, device: torch.device) -> Batch:
    """The last `rows` tokens of each; nothing shared. Logits of each sequence's last token."""
    positions = [position for _ in range(sequences) for position in range(context - rows, context)]
    slots = [index * context + positions[index * rows + row] for index in range(sequences) for row in range(rows)]
    segments = [
        Segment(index * rows, (index + 1) * rows, (SlotRun(index * context, context),), causal=True)
        for index in range(sequences)
    ]
    batch = make_batch([0] * len(positions), positions, slots, segments, device)
    last = torch.arange(rows - 1, len(positions), rows, device=device)
    return Batch(batch.token_ids, batch.positions, batch.slots, batch.segments, logits_rows=last)
