"""A prepared folder's weights for the torch forward pass: tensors on the device, and linear layers.

Knows how stored weights become those. Knows nothing of how they are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from services.executor.model.config import ModelShape
from services.executor.model.linears import Linear, MakeLinear, Plain
from services.executor.model.stored import Floats, Stored, StoredKind
from services.executor.model.stored_weights import StoredLayer, StoredLinear, load_stored

_DTYPES = {StoredKind.F32: torch.float32, StoredKind.F16: torch.float16, StoredKind.BF16: torch.bfloat16}


@dataclass(frozen=True, slots=True)
class LayerWeights:
    input_norm: Tensor  # (hidden_size,)
    qkv: Linear  # (heads + 2 kv_heads) * head_dim from hidden_size
    query_norm: Tensor | None  # (head_dim,)
    key_norm: Tensor | None  # (head_dim,)
    output: Linear  # hidden_size from heads * head_dim
    post_attention_norm: Tensor  # (hidden_size,)
    gate_up: Linear  # 2 intermediate_size from hidden_size
    down: Linear  # hidden_size from intermediate_size


@dataclass(frozen=True, slots=True)
class Weights:
    embedding: Tensor  # (vocab_size, hidden_size)
    layers: tuple[LayerWeights, ...]
    norm: Tensor  # (hidden_size,)
    head: Linear  # vocab_size from hidden_size
    num_bytes: int


class _Loader:
    """Makes tensors and linear layers, and counts their bytes."""

    def __init__(self, device: torch.device, dtype: torch.dtype, make: MakeLinear) -> None:
        self._device = device
        self._dtype = dtype
        self._make = make
        self.num_bytes = 0

    def tensor(self, values: Floats) -> Tensor:
        tensor = torch.from_numpy(values).to(self._device, self._dtype)
        self.num_bytes += tensor.nbytes
        return tensor

    def optional(self, values: Floats | None) -> Tensor | None:
        return None if values is None else self.tensor(values)

    def embedding(self, stored: Stored) -> Tensor:
        weight = self._weight(stored)
        self.num_bytes += weight.nbytes
        return weight

    def linear(self, stored: StoredLinear) -> Linear:
        bias = None if stored.bias is None else torch.from_numpy(stored.bias).to(self._device, self._dtype)
        weights = [self._weight(matrix) for matrix in stored.matrices]
        linear = self._make(weights[0] if len(weights) == 1 else torch.cat(weights), bias)
        self.num_bytes += linear.num_bytes
        return linear

    def tied_head(self, embedding: Tensor) -> Linear:
        head = self._make(embedding, None)
        self.num_bytes += 0 if isinstance(head, Plain) else head.num_bytes
        return head

    def layer(self, stored: StoredLayer) -> LayerWeights:
        return LayerWeights(
            input_norm=self.tensor(stored.input_norm),
            qkv=self.linear(stored.qkv),
            query_norm=self.optional(stored.query_norm),
            key_norm=self.optional(stored.key_norm),
            output=self.linear(stored.output),
            post_attention_norm=self.tensor(stored.post_attention_norm),
            gate_up=self.linear(stored.gate_up),
            down=self.linear(stored.down),
        )

    def _weight(self, stored: Stored) -> Tensor:
        if stored.kind in _DTYPES:
            return torch.from_numpy(stored.raw).view(_DTYPES[stored.kind]).to(self._device, self._dtype)
        return torch.from_numpy(stored.dequantised()).to(self._device, self._dtype)


def load_weights(
    folder: Path, shape: ModelShape, device: torch.device, dtype: torch.dtype, make: MakeLinear = Plain
) -> Weights:
    """Raises ConfigError if a tensor is missing or has not the model's shape."""
    stored, loader = load_stored(folder, shape), _Loader(device, dtype, make)
    embedding = loader.embedding(stored.embedding)
    layers = tuple(loader.layer(layer) for layer in stored.layers)
    norm = loader.tensor(stored.norm)
    head = loader.tied_head(embedding) if shape.tied_embeddings else loader.linear(stored.head)
    return Weights(embedding, layers, norm, head, loader.num_bytes)
