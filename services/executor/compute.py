"""The device's part of a step: forward, prompt log-probabilities, sampling. One chunk's failure stays its own.

Knows tensors and logits. Does not know plans, finish rules or who owns a slot; it changes no lane.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

import torch
from torch import Tensor

from services.executor.batch import flat_batch
from services.executor.chunk import Chunk
from services.executor.constraint.engine import GrammarFailed
from services.executor.kv_pool import KvPool, KvShape
from services.executor.masks import MaskFiller
from services.executor.model.forward import Batch
from services.executor.nodes import NO_TOKENS, Tokens
from services.executor.sampler import Sampled, SamplingFailed, SamplingState, prompt_logprobs, sample
from shared import wire
from shared.invariant import BrokenInvariant


class ComputedShape(KvShape, Protocol):
    @property
    def vocab_size(self) -> int: ...


class ForwardModel(Protocol):
    """What a step needs of `services.executor.model`."""

    @property
    def shape(self) -> ComputedShape: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def dtype(self) -> torch.dtype: ...

    def forward(self, batch: Batch, keys: Tensor, values: Tensor) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Computed:
    prompt_logprobs: tuple[wire.TokenLogprob, ...]  # of the chunk's scored positions
    sampled: tuple[Sampled, ...]  # each but the last is the draft in its place


@dataclass(frozen=True, slots=True)
class Failed:
    """The chunk failed on its own; others computed with it are fine."""

    reason: str
    fault: GrammarFailed | None = None  # if that is why


@dataclass(slots=True)
class Stopwatch:
    """Seconds by stage."""

    clock: Callable[[], float] = time.perf_counter
    forward_s: float = 0.0
    mask_s: float = 0.0
    sample_s: float = 0.0


def compute(
    chunks: Sequence[Chunk], model: ForwardModel, pool: KvPool, watch: Stopwatch, masks: MaskFiller | None = None
) -> list[Computed | Failed]:
    """Compute the chunks in one batch. If that raises, in halves, until it is known whose fault it is.

    Computing a chunk again writes the same keys and values to the same slots.

    Args:
        masks: for the constrained ones; None: there are none.

    Raises:
        torch.AcceleratorError: the device itself has failed.
    """
    if not chunks:
        return []
    try:
        return _compute_together(chunks, model, pool, watch, masks)
    except (torch.AcceleratorError, BrokenInvariant):
        raise
    except Exception as error:
        if len(chunks) == 1 and len(chunks[0].drafts):
            return compute([replace(chunks[0], drafts=NO_TOKENS)], model, pool, watch, masks)
        if len(chunks) == 1:
            return [Failed(f"{type(error).__name__}: {error}")]
        half = len(chunks) // 2
        parts = (chunks[:half], chunks[half:])
        return [result for part in parts for result in compute(part, model, pool, watch, masks)]


def _compute_together(
    chunks: Sequence[Chunk], model: ForwardModel, pool: KvPool, watch: Stopwatch, masks: MaskFiller | None
) -> list[Computed | Failed]:
    start = watch.clock()
    logits = model.forward(flat_batch(chunks, model.device), pool.keys, pool.values)  # (rows, vocab_size)
    launched = watch.clock()
    filled = None if masks is None else masks.fill(chunks)  # while a device computes
    masked = watch.clock()
    _wait_for(logits)
    computed = watch.clock()
    scored = _score(chunks, logits)
    states = [state for chunk in chunks if chunk.samples for state in _states(chunk)]
    sampled = iter(sample(logits[len(logits) - len(states) :], states, filled))
    found = [_result(chunk, scores, sampled) for chunk, scores in zip(chunks, scored, strict=True)]
    watch.forward_s += launched - start + computed - masked
    applying = 0.0 if filled is None else filled.seconds
    watch.mask_s += masked - launched + applying
    watch.sample_s += watch.clock() - computed - applying
    return found


def _wait_for(tensor: Tensor) -> None:
    """Until its device has computed it: what comes next waits for it anyway, and the time belongs to this stage."""
    if tensor.device.type == "cuda":
        torch.cuda.synchronize(tensor.device)


def _score(chunks: Sequence[Chunk], logits: Tensor) -> list[tuple[wire.TokenLogprob, ...]]:
    """Their rows come first: before those for sampling."""
    scored = []
    row = 0
    for chunk in chunks:
        count = len(chunk.scored)
        if count:
            following = chunk.lane.tokens[chunk.scored.start : chunk.scored.stop].tolist()
            top = chunk.lane.sampling.top_logprobs
            scored.append(tuple(prompt_logprobs(logits[row : row + count], following, top)))
        else:
            scored.append(())
        row += count
    return scored


def _states(chunk: Chunk) -> list[SamplingState]:
    """For its last own row and those of its drafts, as they are if all drafts before them are right."""
    state = chunk.lane.state
    return [state, *state.after(chunk.drafts.tolist())]


def _result(
    chunk: Chunk, scores: tuple[wire.TokenLogprob, ...], sampled: Iterator[Sampled | SamplingFailed]
) -> Computed | Failed:
    """Takes as many of what is sampled as the chunk has rows for it."""
    if not chunk.samples:
        return Computed(scores, ())
    first, *behind = islice(sampled, 1 + len(chunk.drafts))
    if isinstance(first, SamplingFailed):
        return Failed(first.reason, first.fault)
    return Computed(scores, _verified(first, behind, chunk.drafts))


def _verified(first: Sampled, behind: Iterable[Sampled | SamplingFailed], drafts: Tokens) -> tuple[Sampled, ...]:
    """What is sampled up to the first token that is not the draft in its place. A failed row is left for its turn."""
    taken = [first]
    for draft, sampled in zip(drafts.tolist(), behind, strict=True):
        if taken[-1].token_id != draft or isinstance(sampled, SamplingFailed):
            break
        taken.append(sampled)
    return tuple(taken)
