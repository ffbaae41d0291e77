"""A prepared folder's weights as tensors on the device, the projections that share an input fused into one.

Knows the names of Hugging Face checkpoints. Knows nothing of how the weights are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor
from torch.nn.functional import linear

from services.executor.model.config import ModelShape
from shared.config import ConfigError


@dataclass(frozen=True, slots=True)
class Linear:
    weight: Tensor  # (outputs, inputs)
    bias: Tensor | None  # (outputs,)

    def __call__(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class LayerWeights:
    input_norm: Tensor  # (hidden_size,)
    qkv: Linear  # ((heads + 2 kv_heads) * head_dim, hidden_size)
    query_norm: Tensor | None  # (head_dim,)
    key_norm: Tensor | None  # (head_dim,)
    output: Linear  # (hidden_size, heads * head_dim)
    post_attention_norm: Tensor  # (hidden_size,)
    gate_up: Linear  # (2 intermediate_size, hidden_size)
    down: Linear  # (hidden_size, intermediate_size)


@dataclass(frozen=True, slots=True)
class Weights:
    embedding: Tensor  # (vocab_size, hidden_size)
    layers: tuple[LayerWeights, ...]
    norm: Tensor  # (hidden_size,)
    head: Linear  # (vocab_size, hidden_size); the embedding itself when they are tied
    num_bytes: int


class Checkpoint:
    """Tensors by name from a folder's safetensors files, each cast and moved as it is read."""

    def __init__(self, folder: Path, files: ExitStack, device: torch.device, dtype: torch.dtype) -> None:
        self._device = device
        self._dtype = dtype
        self._folder = folder
        self.bytes_read = 0
        opened = [
            files.enter_context(safe_open(path, framework="pt")) for path in sorted(folder.glob("model*.safetensors"))
        ]
        self._files = {name: file for file in opened for name in file.keys()}  # noqa: SIM118 (not a dict)

    def read(self, name: str) -> Tensor:
        if name not in self._files:
            raise ConfigError(f"{self._folder}: the weights have no tensor {name!r}")
        tensor: Tensor = self._files[name].get_tensor(name).to(device=self._device, dtype=self._dtype)
        self.bytes_read += tensor.nbytes
        return tensor

    def linear(self, *modules: str, bias: bool = False) -> Linear:
        """The named modules' projections, one above the other."""
        weight = _stack([self.read(f"{module}.weight") for module in modules])
        return Linear(weight, _stack([self.read(f"{module}.bias") for module in modules]) if bias else None)


def load_weights(folder: Path, shape: ModelShape, device: torch.device, dtype: torch.dtype) -> Weights:
    """Raises ConfigError if a tensor is missing."""
    with _open(folder, device, dtype) as checkpoint:
        embedding = checkpoint.read("model.embed_tokens.weight")
        layers = tuple(_layer(checkpoint, shape, f"model.layers.{index}") for index in range(shape.layers))
        norm = checkpoint.read("model.norm.weight")
        head = Linear(embedding, None) if shape.tied_embeddings else checkpoint.linear("lm_head")
        return Weights(embedding, layers, norm, head, checkpoint.bytes_read)


@contextmanager
def _open(folder: Path, device: torch.device, dtype: torch.dtype) -> Iterator[Checkpoint]:
    with ExitStack() as files:
        yield Checkpoint(folder, files, device, dtype)


def _layer(checkpoint: Checkpoint, shape: ModelShape, prefix: str) -> LayerWeights:
    attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
    projections = [f"{attention}.{name}_proj" for name in "qkv"]
    return LayerWeights(
        input_norm=checkpoint.read(f"{prefix}.input_layernorm.weight"),
        qkv=checkpoint.linear(*projections, bias=shape.qkv_bias),
        query_norm=checkpoint.read(f"{attention}.q_norm.weight") if shape.query_key_norm else None,
        key_norm=checkpoint.read(f"{attention}.k_norm.weight") if shape.query_key_norm else None,
        output=checkpoint.linear(f"{attention}.o_proj", bias=shape.output_bias),
        post_attention_norm=checkpoint.read(f"{prefix}.post_attention_layernorm.weight"),
        gate_up=checkpoint.linear(f"{mlp}.gate_proj", f"{mlp}.up_proj"),
        down=checkpoint.linear(f"{mlp}.down_proj"),
    )


def _stack(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)
