"""Token masks, applied to a step's logits on whatever device they are.

Knows devices and which kernel is for which. Does not know where masks come from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from services.executor.attention import cuda
from services.executor.kernels import mask as cpu_mask

HAS_TRITON = cuda.is_available()


def apply_masks(logits: Tensor, rows: Sequence[int], bitmask: Tensor) -> None:
    """Minus infinity to what may not follow, in place. Other rows cost nothing.

    Args:
        logits: (rows, vocab_size) float32, each row contiguous.
        rows: those that are constrained, none of them twice.
        bitmask: (at least as many rows, words) int32 on the CPU: the first is for the first of `rows`, and so on. A bit
            for each token id, least significant first. Tokens beyond the words may not follow.
    """
    if not rows:
        return
    masks = bitmask[: len(rows)].contiguous()
    if logits.device.type == "cpu" and logits.dtype == torch.float32 and logits.stride(1) == 1:
        _on_cpu(logits, np.asarray(rows, np.int64), masks)
        return
    indices = torch.tensor(rows, device=logits.device)
    masks = masks.to(logits.device, non_blocking=True)
    if logits.device.type == "cuda" and HAS_TRITON and logits.stride(1) == 1:
        from services.executor.constraint.cuda_mask import apply_masks as on_cuda

        on_cuda(logits, indices, masks)
    else:
        apply_with_torch(logits, indices, masks)


def apply_with_torch(logits: Tensor, rows: Tensor, masks: Tensor) -> None:
    """By torch's own operators, for any device."""
    vocab_size = logits.shape[1]
    shifts = torch.arange(32, dtype=torch.int32, device=logits.device)
    allowed = ((masks[:, :, None] >> shifts) & 1).reshape(len(rows), -1)[:, :vocab_size].bool()
    forbidden = torch.ones((len(rows), vocab_size), dtype=torch.bool, device=logits.device)
    forbidden[:, : allowed.shape[1]] = ~allowed
    logits[rows] = logits[rows].masked_fill(forbidden, -math.inf)


def _on_cpu(logits: Tensor, rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]], masks: Tensor) -> None:
    if rows.min() < 0 or rows.max() >= len(logits):
        raise IndexError(f"rows {rows.min()} to {rows.max()} of {len(logits)}")
    stride = logits.stride(0) * logits.element_size()
    cpu_mask.apply_masks(logits.data_ptr(), stride, logits.shape[1], rows, masks.data_ptr(), masks.shape[1])
