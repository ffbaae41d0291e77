"""Rotary position embedding: frequencies from the model's shape, and the rotation itself.

The frequencies are computed in float32 as transformers computes them, since at position 8,000 a rounding difference of
a frequency is a visible angle. (RoFormer, https://arxiv.org/abs/2104.09864, in the half-split form of the Llama line.)
"""

from __future__ import annotations

import math
from typing import assert_never

import torch
from torch import Tensor

from services.executor.model.config import DividedRope, LinearRope, Llama3Rope, ModelShape


def inverse_frequencies(shape: ModelShape) -> Tensor:
    """(head_dim / 2,) float32: radians a position."""
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim
    frequencies = 1.0 / (shape.rope_theta**exponents)
    match shape.rope_scaling:
        case None:
            return frequencies
        case LinearRope(factor=factor):
            return frequencies / factor
        case DividedRope(divisors=divisors):
            return frequencies / torch.tensor(divisors, dtype=torch.float32)
        case Llama3Rope() as scaling:
            return _llama3(frequencies, scaling)
        case unknown:
            assert_never(unknown)


def rotation(positions: Tensor, frequencies: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines of (tokens,) positions, each (tokens, 1, head_dim / 2): one head's worth, for all heads."""
    angles = torch.outer(positions.to(torch.float32), frequencies)[:, None]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotate (tokens, heads, head_dim): the first half of a head is the real part, the second the imaginary one."""
    real, imaginary = heads.chunk(2, dim=-1)
    return torch.cat((real * cosines - imaginary * sines, imaginary * cosines + real * sines), dim=-1)


def _llama3(frequencies: Tensor, scaling: Llama3Rope) -> Tensor:
    """Waves longer than low_freq's are slowed by the factor, those shorter than high_freq's kept, between: a blend."""
    turns = scaling.original_max_position_embeddings * frequencies / (2 * math.pi)  # within the original context
    kept = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    kept = kept.clamp(0.0, 1.0)
    return (1 - kept) * frequencies / scaling.factor + kept * frequencies
