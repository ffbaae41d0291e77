from __future__ import annotations

from dataclasses import dataclass

import psutil
import pytest
import torch

from services.executor.kv_pool import bytes_per_token, decide_capacity, make_pool
from shared.config import ConfigError, ExecutorConfig

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Shape:
    layers: int = 4
    kv_heads: int = 2
    head_dim: int = 64


def decide(config: ExecutorConfig, *, available: int, on_cpu: bool = True, max_model_len: int = 100) -> int:
    return decide_capacity(
        config,
        token_bytes=1000,
        weight_bytes=1_000_000,
        available_bytes=available,
        max_model_len=max_model_len,
        on_cpu=on_cpu,
    )


def test_the_tensors_have_a_place_for_each_token() -> None:
    pool = make_pool(Shape(), 10, device=CPU, dtype=torch.float16)
    assert pool.keys.shape == pool.values.shape == (4, 10, 2, 64)
    assert pool.capacity_tokens == 10
    assert (pool.keys.nbytes + pool.values.nbytes) == 10 * bytes_per_token(Shape(), torch.float16)


def test_untouched_memory_costs_nothing() -> None:
    before = psutil.Process().memory_info().rss
    pool = make_pool(Shape(), 500_000, device=CPU, dtype=torch.float32)
    assert pool.keys.nbytes == 500_000 * 4 * 2 * 64 * 4
    assert psutil.Process().memory_info().rss - before < 50_000_000  # of 2 GB


def test_the_default_is_the_share_of_memory_less_the_weights() -> None:
    assert decide(ExecutorConfig(mem_fraction_static=0.5), available=9_000_000, on_cpu=False) == 4000


def test_on_a_cpu_the_default_is_bounded_but_holds_a_whole_context() -> None:
    plenty = 10**12
    assert decide(ExecutorConfig(), available=plenty) == 65_536
    assert decide(ExecutorConfig(), available=plenty, max_model_len=100_000) == 100_000
    assert decide(ExecutorConfig(), available=plenty, on_cpu=False) > 65_536
    assert decide(ExecutorConfig(mem_fraction_static=0.85), available=plenty) > 65_536  # it was offered


def test_whole_pages() -> None:
    assert decide(ExecutorConfig(max_total_tokens=1000, page_size=16), available=10**9) == 992


@pytest.mark.parametrize(
    ("config", "available", "key"),
    [
        (ExecutorConfig(max_total_tokens=2000), 1_000_000, "executor.max_total_tokens"),
        (ExecutorConfig(max_total_tokens=10, page_size=16), 10**9, "executor.max_total_tokens"),
        (ExecutorConfig(mem_fraction_static=0.1), 1_000_000, "executor.mem_fraction_static"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_key(config: ExecutorConfig, available: int, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        decide(config, available=available)
