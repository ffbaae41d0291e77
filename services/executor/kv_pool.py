"""The KV pool: the tensors behind the slots, and how many slots there are. Nothing else allocates keys or values.

Knows devices and bytes. Does not know which slot is free (`slots`) or what a slot holds (`radix_cache`, `lanes`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from shared.config import ConfigError, ExecutorConfig

MEM_FRACTION_STATIC = 0.85
CPU_TOKENS = 65_536  # more would only be memory that the machine's owner did not offer


class KvShape(Protocol):
    """What of a model's shape matters here."""

    @property
    def layers(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...


@dataclass(frozen=True, slots=True)
class KvPool:
    keys: Tensor  # (layers, slots, kv_heads, head_dim)
    values: Tensor  # (layers, slots, kv_heads, head_dim)

    @property
    def capacity_tokens(self) -> int:
        return self.keys.shape[1]


def make_pool(shape: KvShape, capacity_tokens: int, *, device: torch.device, dtype: torch.dtype) -> KvPool:
    size = (shape.layers, capacity_tokens, shape.kv_heads, shape.head_dim)
    if device.type == "cpu":
        return KvPool(_reserved(size, dtype), _reserved(size, dtype))
    return KvPool(torch.zeros(size, device=device, dtype=dtype), torch.zeros(size, device=device, dtype=dtype))


def _reserved(size: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Memory that costs something from its first write on; numpy asks for huge pages, which torch does not."""
    return torch.from_numpy(np.empty(math.prod(size) * dtype.itemsize, np.uint8)).view(dtype).view(size)


def bytes_per_token(shape: KvShape, dtype: torch.dtype) -> int:
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * dtype.itemsize


def decide_capacity(
    config: ExecutorConfig,
    *,
    token_bytes: int,
    weight_bytes: int,
    available_bytes: int,
    max_model_len: int,
    on_cpu: bool,
) -> int:
    """How many tokens the pool holds, in whole pages.

    Args:
        weight_bytes: what the weights, loaded already, take of the device.
        available_bytes: what is left on the device now.

    Raises:
        ConfigError: what was asked for does not fit, or nothing does.
    """
    if config.max_total_tokens is not None:
        if config.max_total_tokens * token_bytes > available_bytes:
            raise ConfigError(
                f"executor.max_total_tokens: {config.max_total_tokens} tokens need "
                f"{_gib(config.max_total_tokens * token_bytes)}, and {_gib(available_bytes)} are available"
            )
        return _pages_down(config.max_total_tokens, config, "executor.max_total_tokens")
    fraction = config.mem_fraction_static or MEM_FRACTION_STATIC
    pool_bytes = fraction * (available_bytes + weight_bytes) - weight_bytes
    fitting = max(0, int(pool_bytes // token_bytes))
    is_offered = config.mem_fraction_static is not None or not on_cpu
    tokens = fitting if is_offered else min(fitting, max(CPU_TOKENS, max_model_len))
    return _pages_down(tokens, config, "executor.mem_fraction_static")


def _pages_down(tokens: int, config: ExecutorConfig, key: str) -> int:
    whole = tokens // config.page_size * config.page_size
    if not whole:
        raise ConfigError(f"{key}: room for {tokens} tokens is less than a page of {config.page_size}")
    return whole


def _gib(count: float) -> str:
    return f"{count / 2**30:.1f} GiB"
