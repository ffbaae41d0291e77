"""Log-probabilities for the client: the natural log of the model's own distribution.

That is log_softmax of the raw logits: before temperature, penalties, bias and masks, whatever the draw made of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from shared import wire


@torch.inference_mode()
def token_logprobs(logits: Tensor, token_ids: Sequence[int], tops: Sequence[int]) -> list[wire.TokenLogprob]:
    """Score one token in each row of raw logits.

    Args:
        logits: (rows, vocab_size) float32; left as they are.
        tops: how many of each row's likeliest tokens to report beside the chosen one.
    """
    if not token_ids:
        return []
    normalizers = logits.logsumexp(dim=-1, keepdim=True)  # (rows, 1)
    chosen = logits.gather(1, torch.tensor(token_ids, device=logits.device)[:, None]) - normalizers
    scores, ids = logits.topk(min(max(tops), logits.shape[-1]), dim=-1)
    rows = zip(token_ids, chosen[:, 0].tolist(), (scores - normalizers).tolist(), ids.tolist(), tops, strict=True)
    return [
        wire.TokenLogprob(token_id, logprob, tuple(zip(row_ids[:top], row_scores[:top], strict=True)))
        for token_id, logprob, row_scores, row_ids, top in rows
    ]


def prompt_logprobs(logits: Tensor, next_token_ids: Sequence[int], top: int) -> list[wire.TokenLogprob]:
    """Score a part of a prompt: row i holds the logits of the position before `next_token_ids[i]`."""
    return token_logprobs(logits, next_token_ids, [top] * len(next_token_ids))
