"""From a row of logits to one token: temperature, top-k, top-p and min-p, and a draw that the batch cannot change.

Knows numbers. Knows nothing of requests and of what was generated before.

A row's tokens stand in a fixed order: by probability, the likeliest first, ties by id. Each of top-k, top-p and min-p
keeps a beginning of that order, so together they keep the shortest of their beginnings. The token drawn is the one in
which the uniform number of (seed, position) falls on the cumulative probabilities of what is kept.

Sorting a vocabulary is slow. So only the likeliest few tokens of each row are put in order at first, which settles most
rows; those where the answer may lie outside are looked at again, one by one, with all tokens that are not much less
likely than the likeliest, and last with all. The token is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

# How many tokens are put in order at first. (A top-k of 64, and one more: tokens that tie with the last column may
# stand outside, so that one settles nothing itself.)
_WIDTH = 65
_CUTS = (6.0, 10.0)  # what is looked at next has at least exp(-6), then exp(-10), of the likeliest token's probability


@dataclass(frozen=True, slots=True)
class Draw:
    """How to draw from one row."""

    temperature: float  # above 0
    top_k: int | None
    top_p: float
    min_p: float
    uniform: float  # in [0, 1)


Way: TypeAlias = Callable[[Tensor, Tensor, Sequence[Draw]], list[int | None]]


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
    ways: list[Way] = [_draw_among_few, *(partial(_draw_above, cut) for cut in _CUTS), _draw_among_all]
    for way in ways:
        if not pending:
            break
        found = way(logits[pending], normalizers[pending], [draws[row] for row in pending])
        for row, token_id in zip(pending, found, strict=True):
            tokens[row] = token_id
        pending = [row for row in pending if tokens[row] is None]
    return tokens


def _draw_among_few(logits: Tensor, normalizers: Tensor, draws: Sequence[Draw]) -> list[int | None]:
    """Draw with only the likeliest in order; None for a row that needs more of them. So do the others."""
    if logits.shape[-1] <= _WIDTH:
        return _draw_among_all(logits, normalizers, draws)
    scores, token_ids = _likeliest(logits, _WIDTH)
    return _draw_column(scores - normalizers, token_ids, scores > scores[:, -1:], draws)


def _draw_above(cut: float, logits: Tensor, normalizers: Tensor, draws: Sequence[Draw]) -> list[int | None]:
    """Draw with those in order that are not much less likely than the likeliest, row by row."""
    found: list[int | None] = []
    for row, normalizer, least, draw in zip(logits, normalizers, logits.amax(dim=-1) - cut, draws, strict=True):
        token_ids = (row >= least).nonzero()[:, 0]
        scores, order = row[token_ids].sort(descending=True, stable=True)
        logprobs = (scores - normalizer)[None]
        certain = torch.ones_like(logprobs, dtype=torch.bool)
        certain[0, -1] = len(token_ids) == len(row)  # if that one is kept, so may be some that are not here
        found += _draw_column(logprobs, token_ids[order][None], certain, [draw])
    return found


def _draw_among_all(logits: Tensor, normalizers: Tensor, draws: Sequence[Draw]) -> list[int | None]:
    """Draw with all in order."""
    scores, token_ids = logits.sort(dim=-1, descending=True, stable=True)
    return _draw_column(scores - normalizers, token_ids, torch.ones_like(token_ids, dtype=torch.bool), draws)


def _draw_column(logprobs: Tensor, token_ids: Tensor, certain: Tensor, draws: Sequence[Draw]) -> list[int | None]:
    """Draw from columns in the fixed order; see `_choose`."""
    places, settled = _choose(logprobs, certain, draws)
    drawn = token_ids.gather(1, places[:, None])[:, 0]
    return [token_id if ok else None for token_id, ok in zip(drawn.tolist(), settled.tolist(), strict=True)]


def _likeliest(logits: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The likeliest tokens in the fixed order: scores and token ids, (rows, width) each."""
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
