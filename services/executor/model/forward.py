"""The forward pass: one flat batch in which prompt chunks and single decode tokens mix.

Knows how the Llama, Qwen2, Qwen3 and Mistral lines compute. Knows nothing of requests, of who owns a slot, or of what
happens to the logits. The KV pool belongs to the caller; the pass writes the slots that the batch names and no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor
from torch.nn.functional import embedding, rms_norm, silu

from services.executor.attention.base import AttentionBackend, PlanT, Segment
from services.executor.model.config import ModelShape
from services.executor.model.rope import inverse_frequencies, rotate, rotation
from services.executor.model.weights import LayerWeights, Weights


@dataclass(frozen=True, slots=True)
class Batch:
    """Tensors are on the model's device."""

    token_ids: Tensor  # (tokens,) int64
    positions: Tensor  # (tokens,) int64
    slots: Tensor  # (tokens,) int64: where the token's own key and value go
    segments: tuple[Segment, ...]
    logits_rows: Tensor  # (rows,) int64: the tokens whose logits are wanted


class Model(Generic[PlanT]):
    def __init__(self, shape: ModelShape, weights: Weights, attention: AttentionBackend[PlanT]) -> None:
        self.shape = shape
        self._weights = weights
        self._attention = attention
        self._frequencies = inverse_frequencies(shape).to(self.device)  # (head_dim / 2,)

    @property
    def device(self) -> torch.device:
        return self._weights.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        return self._weights.embedding.dtype

    @property
    def kv_dtype(self) -> torch.dtype:
        return self.dtype

    @property
    def weight_bytes(self) -> int:
        return self._weights.num_bytes

    @torch.inference_mode()
    def forward(self, batch: Batch, keys: Tensor, values: Tensor) -> Tensor:
        """Compute the batch's tokens.

        Args:
            keys, values: the KV pool, (layers, slots, kv_heads, head_dim); `batch.slots` are written in each layer.

        Returns:
            (rows, vocab_size) float32, the logits of `batch.logits_rows`.
        """
        plan = self._attention.plan(batch.segments, self.device)
        rope = rotation(batch.positions, self._frequencies, self.dtype)
        hidden = embedding(batch.token_ids, self._weights.embedding)  # (tokens, hidden_size)
        for layer, layer_keys, layer_values in zip(self._weights.layers, keys, values, strict=True):
            queries, new_keys, new_values = self._project(layer, hidden, rope)
            layer_keys.index_copy_(0, batch.slots, new_keys.to(keys.dtype))
            layer_values.index_copy_(0, batch.slots, new_values.to(values.dtype))
            attended = self._attention.run(plan, queries, layer_keys, layer_values)
            hidden = hidden + layer.output(attended.flatten(1))
            hidden = hidden + self._feed_forward(layer, hidden)
        wanted = self._norm(hidden[batch.logits_rows], self._weights.norm)
        return self._weights.head(wanted).to(torch.float32)

    def _project(self, layer: LayerWeights, hidden: Tensor, rope: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        """Queries (tokens, heads, head_dim), then keys and values (tokens, kv_heads, head_dim)."""
        heads, kv_heads, head_dim = self.shape.heads, self.shape.kv_heads, self.shape.head_dim
        fused = layer.qkv(self._norm(hidden, layer.input_norm)).view(len(hidden), heads + 2 * kv_heads, head_dim)
        rotated, values = fused.tensor_split((heads + kv_heads,), dim=1)
        if layer.query_norm is not None and layer.key_norm is not None:
            queries, keys = rotated.tensor_split((heads,), dim=1)
            rotated = torch.cat((self._norm(queries, layer.query_norm), self._norm(keys, layer.key_norm)), dim=1)
        queries, keys = rotate(rotated, *rope).tensor_split((heads,), dim=1)
        return queries, keys, values

    def _feed_forward(self, layer: LayerWeights, hidden: Tensor) -> Tensor:
        gate, up = layer.gate_up(self._norm(hidden, layer.post_attention_norm)).chunk(2, dim=-1)
        return layer.down(silu(gate) * up)

    def _norm(self, inputs: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(inputs, weight.shape, weight, self.shape.rms_norm_eps)
