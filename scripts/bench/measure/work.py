"""What a model's forward pass has to do at least: multiplications and bytes. Pure."""

from __future__ import annotations

from typing import Protocol

from services.executor.attention.base import HeadShape


class Shape(HeadShape, Protocol):
    @property
    def layers(self) -> int: ...
    @property
    def hidden_size(self) -> int: ...
    @property
    def intermediate_size(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...


def linear_flops(shape: Shape, tokens: int, logits_rows: int) -> int:
    """Of all linear layers, and of the head for the rows that want logits."""
    width = shape.heads * shape.head_dim
    attention = shape.hidden_size * (2 * width + 2 * shape.kv_heads * shape.head_dim)
    feed_forward = 3 * shape.hidden_size * shape.intermediate_size
    layers = shape.layers * (attention + feed_forward) * tokens
    return 2 * (layers + logits_rows * shape.hidden_size * shape.vocab_size)


def attention_flops(shape: Shape, pairs: int) -> int:
    """Of so many pairs of a token and one that it sees, in all layers."""
    return 4 * shape.layers * shape.heads * shape.head_dim * pairs


def kv_bytes(shape: Shape, tokens: int, *, itemsize: int) -> int:
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * itemsize * tokens


def chunk_pairs(new_tokens: int, cached_tokens: int) -> int:
    """A prompt's chunk: each token sees what is cached, the tokens before it, and itself."""
    return new_tokens * cached_tokens + new_tokens * (new_tokens + 1) // 2
