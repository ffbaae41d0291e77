"""From a prepared folder to a model that can compute."""

from __future__ import annotations

from pathlib import Path

import torch

from services.executor.attention.base import AttentionBackend, PlanT
from services.executor.model.config import read_shape
from services.executor.model.forward import Model
from services.executor.model.linears import WeightForm, choose
from services.executor.model.weights import load_weights


def load_model(
    folder: Path,
    *,
    attention: AttentionBackend[PlanT],
    device: torch.device,
    dtype: torch.dtype,
    weights: WeightForm = "float32",
) -> Model[PlanT]:
    """The torch forward pass.

    Args:
        dtype: of the arithmetic.
        weights: how linear layers keep theirs where the arithmetic is float32.

    Raises:
        ConfigError: the folder's model cannot be read or is not one that the forward pass computes.
    """
    shape = read_shape(folder)
    return Model(shape, load_weights(folder, shape, device, dtype, choose(device, dtype, weights)), attention)
