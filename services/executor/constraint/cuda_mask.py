"""Token masks, applied to logits on a CUDA device by one kernel.

Knows rows and bits. Imported only where Triton is there.
"""

# Triton has no types, and a kernel's constants are in capitals.
# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-def, untyped-decorator"
# ruff: noqa: N803

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024  # tokens of a program


@triton.jit
def forbid(logits, rows, masks, row_stride, mask_stride, vocab_size, words, BLOCK: tl.constexpr):
    """Programs: (masks, blocks of tokens)."""
    index = tl.program_id(0).to(tl.int64)
    token = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    word = token // 32
    bits = tl.load(masks + index * mask_stride + word, mask=word < words, other=0)
    is_forbidden = ((bits >> (token % 32)) & 1) == 0
    row = tl.load(rows + index)
    at = logits + row * row_stride + token
    tl.store(at, float("-inf"), mask=is_forbidden & (token < vocab_size))


def apply_masks(logits: Tensor, rows: Tensor, masks: Tensor) -> None:
    """As `apply.apply_masks`, everything on the device already.

    Args:
        rows: (masks,) int64.
        masks: (masks, words) int32.
    """
    vocab_size = logits.shape[1]
    forbid[len(rows), triton.cdiv(vocab_size, BLOCK)](
        logits,
        rows,
        masks,
        logits.stride(0),
        masks.stride(0),
        vocab_size,
        masks.shape[1],
        BLOCK=BLOCK,
        num_warps=4,
    )
