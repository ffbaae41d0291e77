"""How close our logits and tokens are to those of transformers. Knows tensors only, nothing of models."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Tokens:
    """Chosen tokens against the logits that transformers has for the same contexts."""

    equal: int
    ties: int  # another token, but its logit is within the tie of the highest
    wrong: int

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.equal + other.equal, self.ties + other.ties, self.wrong + other.wrong)


def compare_tokens(chosen: Tensor, logits: Tensor, tie: float) -> Tokens:
    """Args:
    chosen: (tokens,) int64.
    logits: (tokens, vocab_size).
    """
    highest, best = logits.max(dim=-1)
    equal = chosen == best
    gaps = highest - logits.gather(1, chosen[:, None])[:, 0]
    ties = ~equal & (gaps < tie)
    return Tokens(int(equal.sum()), int(ties.sum()), int((~equal & ~ties).sum()))


def root_mean_square(difference: Tensor) -> float:
    return float(difference.double().square().mean().sqrt())
