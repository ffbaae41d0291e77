"""Logits and token masks for the tests of whatever applies them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Case:
    vocab_size: int
    words: int
    rows: tuple[int, ...] = (3, 0, 4)
    logits_rows: int = 6

    def make(self) -> tuple[Tensor, list[int], Tensor]:
        """Logits, the constrained rows, and a bitmask with rows to spare."""
        generator = torch.Generator().manual_seed(self.vocab_size)
        logits = torch.randn(self.logits_rows, self.vocab_size, generator=generator)
        shape = (len(self.rows) + 2, self.words)
        bitmask = torch.randint(-(2**31), 2**31, shape, generator=generator).to(torch.int32)
        bitmask[0, 0] = -1
        bitmask[1, -1] = 0
        return logits, list(self.rows), bitmask


CASES = (
    Case(100, 4),
    Case(96, 3),
    Case(100, 3),
    Case(100, 2),
    Case(100, 9),
    Case(31, 1),
    Case(5000, 157, rows=(5, 1)),
)


def expected(logits: Tensor, rows: list[int], bitmask: Tensor) -> Tensor:
    result = logits.clone()
    for row, mask in zip(rows, bitmask.tolist(), strict=False):
        for token_id in range(logits.shape[1]):
            word, bit = divmod(token_id, 32)
            if word >= len(mask) or not mask[word] >> bit & 1:
                result[row, token_id] = -math.inf
    return result
