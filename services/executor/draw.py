"""From a row of logits to one token: temperature, top-k, top-p and min-p, and a draw that the batch cannot change.

Knows numbers. Knows nothing of requests and of what was generated before.

A row's tokens stand in a fixed order: by probability, the likeliest first, ties by id. Each of top-k, top-p and min-p
keeps a beginning of that order, so together they keep the shortest of their beginnings. The token drawn is the one in
which the uniform number of (seed, position) falls on the cumulative probabilities of what is kept.

Sorting a vocabulary is slow. So only the likeliest few tokens of each row are put in order at first, which settles most
rows; those where the answer may lie outside are looked at again with more, and last with all. The token is the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# How many tokens are put in order, one time after the other, before it is all of them. (A top-k of 64, and one more:
# tokens that tie with the last column may stand outside, so that one settles nothing itself.)
_WIDTHS = (65, 1025)


@dataclass(frozen=True, slots=True)
class Draw:
    """How to draw from one row."""

    temperature: float  # above 0
    top_k: int | None
    top_p: float
    min_p: float
    uniform: float  # in [0, 1)


def draw_tokens(logits: Tensor, draws: Sequence[Draw]) -> list[int | None]:
    """One token of each row, or None for a row whose logits are no distribution (NaN, infinity, nothing allowed).

    Args:
        logits: (rows, vocab_size) float32; they are divided by the temperatures in place.
    """
    temperatures = torch.tensor([draw.temperature for draw in draws], dtype=logits.dtype, device=logits.device)
    logits.div_(temperatures[:, None])
    normalizers = logits.logsumexp(dim=-1, keepdim=True)  # (rows, 1)
    tokens: list[int | None] = [None] * len(draws)
    pending = normalizers.isfinite()[:, 0].nonzero()[:, 0].tolist()
    for width in (*_WIDTHS, logits.shape[-1]):
        if not pending:
            break
        found = _draw_among(width, logits[pending], normalizers[pending], [draws[row] for row in pending])
        for row, token_id in zip(pending, found, strict=True):
            tokens[row] = token_id
        pending = [row for row in pending if tokens[row] is None]
    return tokens


def _draw_among(width: int, logits: Tensor, normalizers: Tensor, draws: Sequence[Draw]) -> list[int | None]:
    """Draw with only the `width` likeliest tokens in order; None for a row that needs more of them."""
    scores, token_ids = _ordered(logits, width)
    certain = scores > scores[:, -1:] if width < logits.shape[-1] else torch.ones_like(token_ids, dtype=torch.bool)
    places, settled = _choose(scores - normalizers, certain, draws)
    drawn = token_ids.gather(1, places[:, None])[:, 0]
    return [token_id if ok else None for token_id, ok in zip(drawn.tolist(), settled.tolist(), strict=True)]


def _ordered(logits: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The likeliest tokens in the fixed order: scores and token ids, (rows, width) each."""
    if width >= logits.shape[-1]:
        return logits.sort(dim=-1, descending=True, stable=True)
    scores, token_ids = logits.topk(width, dim=-1)
    token_ids, by_id = token_ids.sort(dim=-1)
    scores, by_score = scores.gather(1, by_id).sort(dim=-1, descending=True, stable=True)
    return scores, token_ids.gather(1, by_score)


def _choose(logprobs: Tensor, certain: Tensor, draws: Sequence[Draw]) -> tuple[Tensor, Tensor]:
    """Which column each draw falls on.

    Args:
        logprobs: (rows, columns), the beginning of the order, normalised over the whole vocabulary.
        certain: (rows, columns) bool, a beginning of each row: no token outside the columns can stand before these.

    Returns:
        The column, and whether nothing outside the columns can change it, (rows,) each.
    """
    probabilities = logprobs.double().exp()
    cumulative = probabilities.cumsum(dim=-1)
    kept = _kept(probabilities, cumulative, draws)
    last_kept = (kept.sum(dim=-1) - 1).clamp(min=0)  # the likeliest token stays, whatever the filters say
    complete = ~(kept & ~certain).any(dim=-1)  # what is kept ends within the columns, and its mass is known
    mass = torch.where(complete, cumulative.gather(1, last_kept[:, None])[:, 0], 1.0)
    targets = mass[:, None] * _column([draw.uniform for draw in draws], cumulative)
    places = (cumulative <= targets).sum(dim=-1)
    unfiltered = _column([_keeps_all(draw) for draw in draws], certain)[:, 0]
    in_reach = _column([draw.top_k is None or draw.top_k <= logprobs.shape[-1] for draw in draws], certain)[:, 0]
    settled = in_reach & (complete | (unfiltered & (places < certain.sum(dim=-1))))
    return places.minimum(last_kept), settled


def _kept(probabilities: Tensor, cumulative: Tensor, draws: Sequence[Draw]) -> Tensor:
    """(rows, columns) bool: a beginning of each row. Top-p counts the mass that top-k has left."""
    columns = probabilities.shape[-1]
    ranks = torch.arange(columns, device=probabilities.device)
    top_k = _column([min(draw.top_k or columns, columns) for draw in draws], ranks)
    limited = _column([draw.top_k is not None for draw in draws], ranks.bool())
    top_p = _column([draw.top_p if draw.top_p < 1 else math.inf for draw in draws], probabilities)
    min_p = _column([draw.min_p for draw in draws], probabilities)
    mass = torch.where(limited, cumulative.gather(1, top_k - 1), 1.0)
    likelier = cumulative - probabilities
    return (
        (probabilities > 0)
        & (ranks < top_k)
        & (likelier < top_p * mass)
        & (probabilities >= min_p * probabilities[:, :1])
    )


def _keeps_all(draw: Draw) -> bool:
    return draw.top_k is None and draw.top_p >= 1 and draw.min_p <= 0


def _column(values: Sequence[float], like: Tensor) -> Tensor:
    """(rows, 1), of the type and on the device of another tensor."""
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]
