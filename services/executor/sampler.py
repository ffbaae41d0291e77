"""From a step's logits to one token for each row, all rows together, and a failure of one row left to that row.

Knows how the rows' different wishes share the work. Knows nothing of lanes, of plans or of when a request is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from services.executor.constraint.engine import GrammarFailed
from services.executor.draw import Draw, draw_tokens
from services.executor.logprobs import prompt_logprobs, token_logprobs
from services.executor.masks import Masks
from services.executor.sampling_state import SamplingState
from services.executor.uniform import uniform
from shared import wire

__all__ = ["Sampled", "SamplingFailed", "SamplingState", "prompt_logprobs", "sample"]


@dataclass(frozen=True, slots=True)
class Sampled:
    token_id: int
    logprob: wire.TokenLogprob | None  # if the request asks for it


@dataclass(frozen=True, slots=True)
class SamplingFailed:
    fault: GrammarFailed | None = None  # if that is why

    @property
    def reason(self) -> str:
        return str(self.fault or "the model's logits are no distribution (not a number, or no token is allowed)")


@torch.inference_mode()
def sample(
    logits: Tensor, states: Sequence[SamplingState], masks: Masks | None = None
) -> list[Sampled | SamplingFailed]:
    """Choose the next token of each row. A row's token depends on that row, its state and its mask alone.

    Args:
        logits: (rows, vocab_size) float32, the model's; changed in place.
        states: one for each row; not changed, the caller appends what it takes.
        masks: of those rows that have a constraint.
    """
    scored = [row for row, state in enumerate(states) if state.sampling.logprobs]
    raw = logits[scored]  # a copy, (scored rows, vocab_size)
    for row, state in enumerate(states):
        state.edit(logits[row])
    if masks is not None:
        masks.apply(logits)
    token_ids = _choose(logits, states)
    scored_ids = [token_ids[row] or 0 for row in scored]  # a failed row's score is not looked at
    scores = token_logprobs(raw, scored_ids, [states[row].sampling.top_logprobs for row in scored])
    logprobs = dict(zip(scored, scores, strict=True))
    faults = {} if masks is None else masks.failures
    return [
        SamplingFailed(faults.get(row)) if token_id is None or row in faults else Sampled(token_id, logprobs.get(row))
        for row, token_id in enumerate(token_ids)
    ]


def _choose(logits: Tensor, states: Sequence[SamplingState]) -> list[int | None]:
    """None for a row whose logits are no distribution."""
    greedy = [row for row, state in enumerate(states) if state.is_greedy]
    drawn = [row for row, state in enumerate(states) if not state.is_greedy]
    if not drawn:
        return _likeliest(logits)
    draws = [_draw(states[row], logits.shape[-1]) for row in drawn]
    if not greedy:
        return draw_tokens(logits, draws)
    chosen = dict(zip(greedy, _likeliest(logits[greedy]), strict=True))
    chosen |= zip(drawn, draw_tokens(logits[drawn], draws), strict=True)
    return [chosen[row] for row in range(len(states))]


def _likeliest(logits: Tensor) -> list[int | None]:
    """The first of the largest, or None if that is no finite number. (Not a number counts as the largest.)"""
    token_ids = logits.argmax(dim=-1)
    valid = logits.gather(1, token_ids[:, None])[:, 0].isfinite()
    return [token_id if ok else None for token_id, ok in zip(token_ids.tolist(), valid.tolist(), strict=True)]


def _draw(state: SamplingState, vocab_size: int) -> Draw:
    sampling = state.sampling
    return Draw(
        temperature=sampling.temperature,
        top_k=sampling.top_k if sampling.top_k is not None and sampling.top_k < vocab_size else None,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        uniform=uniform(sampling.seed, state.position),
    )
