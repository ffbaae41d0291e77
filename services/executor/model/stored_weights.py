"""A prepared folder's weights as they are stored there, those that share an input together.

Knows the names of Hugging Face checkpoints and the shapes that a model's weights have. Knows nothing of how they are
used: the torch forward pass makes tensors of them (`weights.py`), the fused engine packs them (`packing.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from services.executor.model.checkpoint import Checkpoint, open_checkpoint
from services.executor.model.config import ModelShape
from services.executor.model.stored import Floats, Stored


@dataclass(frozen=True, slots=True, eq=False)
class StoredLinear:
    matrices: tuple[Stored, ...]  # one above the other, each (its outputs, inputs)
    bias: Floats | None = None  # (outputs of all,)


@dataclass(frozen=True, slots=True, eq=False)
class StoredLayer:
    input_norm: Floats  # (hidden_size,)
    qkv: StoredLinear  # heads, kv_heads and kv_heads times head_dim, from hidden_size
    query_norm: Floats | None  # (head_dim,)
    key_norm: Floats | None  # (head_dim,)
    output: StoredLinear  # hidden_size from heads * head_dim
    post_attention_norm: Floats  # (hidden_size,)
    gate_up: StoredLinear  # twice intermediate_size from hidden_size
    down: StoredLinear  # hidden_size from intermediate_size


@dataclass(frozen=True, slots=True, eq=False)
class StoredWeights:
    embedding: Stored  # (vocab_size, hidden_size), in memory; the other matrices are views of the files
    layers: tuple[StoredLayer, ...]
    norm: Floats  # (hidden_size,)
    head: StoredLinear  # vocab_size from hidden_size; the embedding itself when they are tied


def load_stored(folder: Path, shape: ModelShape) -> StoredWeights:
    """Raises ConfigError if a tensor is missing or has not the model's shape."""
    with open_checkpoint(folder) as checkpoint:
        table = checkpoint.matrix("model.embed_tokens.weight", shape.vocab_size, shape.hidden_size)
        embedding = replace(table, raw=np.array(table.raw))
        layers = tuple(_layer(checkpoint, shape, f"model.layers.{index}") for index in range(shape.layers))
        norm = checkpoint.vector("model.norm.weight", shape.hidden_size)
        head = embedding
        if not shape.tied_embeddings:
            head = checkpoint.matrix("lm_head.weight", shape.vocab_size, shape.hidden_size)
        return StoredWeights(embedding, layers, norm, StoredLinear((head,)))


def _layer(checkpoint: Checkpoint, shape: ModelShape, prefix: str) -> StoredLayer:
    attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
    hidden, inner, head_dim = shape.hidden_size, shape.intermediate_size, shape.head_dim
    queries, keys = shape.heads * head_dim, shape.kv_heads * head_dim
    qkv = {f"{attention}.q_proj": queries, f"{attention}.k_proj": keys, f"{attention}.v_proj": keys}
    normed = shape.query_key_norm
    return StoredLayer(
        input_norm=checkpoint.vector(f"{prefix}.input_layernorm.weight", hidden),
        qkv=_linear(checkpoint, qkv, hidden, shape.qkv_bias),
        query_norm=checkpoint.vector(f"{attention}.q_norm.weight", head_dim) if normed else None,
        key_norm=checkpoint.vector(f"{attention}.k_norm.weight", head_dim) if normed else None,
        output=_linear(checkpoint, {f"{attention}.o_proj": hidden}, queries, shape.output_bias),
        post_attention_norm=checkpoint.vector(f"{prefix}.post_attention_layernorm.weight", hidden),
        gate_up=_linear(checkpoint, {f"{mlp}.gate_proj": inner, f"{mlp}.up_proj": inner}, hidden),
        down=_linear(checkpoint, {f"{mlp}.down_proj": hidden}, inner),
    )


def _linear(checkpoint: Checkpoint, modules: dict[str, int], inputs: int, bias: bool = False) -> StoredLinear:
    """The named modules, each with so many outputs."""
    matrices = tuple(checkpoint.matrix(f"{name}.weight", outputs, inputs) for name, outputs in modules.items())
    if not bias:
        return StoredLinear(matrices)
    biases = [checkpoint.vector(f"{name}.bias", outputs) for name, outputs in modules.items()]
    return StoredLinear(matrices, np.concatenate(biases))
