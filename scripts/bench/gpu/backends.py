"""Which attention is checked: the one that an executor on such a device has."""

from __future__ import annotations

from typing import Any

import torch

from services.executor.attention.base import AttentionBackend
from services.executor.attention.cuda import is_available
from services.executor.attention.reference import ReferenceAttention


def make_backend(shape: Any, device: torch.device) -> AttentionBackend[Any]:
    """For the shape's heads, kv_heads and head_dim."""
    if device.type != "cuda" or not is_available():
        return ReferenceAttention()
    from services.executor.attention.cuda.backend import CudaAttention  # it needs triton

    return CudaAttention(shape)
