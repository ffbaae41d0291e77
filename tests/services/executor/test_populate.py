from __future__ import annotations

from dataclasses import dataclass

import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from services.executor.kv_pool import make_pool
from services.executor.populate import middles_first, populate


@dataclass(frozen=True)
class Shape:
    layers: int = 4
    kv_heads: int = 2
    head_dim: int = 64


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_pool_has_its_memory_and_keeps_what_was_written(dtype: torch.dtype) -> None:
    pool = make_pool(Shape(), 60_001, device=torch.device("cpu"), dtype=dtype)  # so much is never memory used before
    pool.keys[1, 17] = 3.0
    before = psutil.Process().memory_info().rss
    populate(pool).join()
    assert psutil.Process().memory_info().rss - before > 0.8 * (pool.keys.nbytes + pool.values.nbytes)
    assert (pool.keys[1, 17] == 3.0).all()


def test_a_pool_on_another_device_is_left_alone() -> None:
    populate(make_pool(Shape(), 100, device=torch.device("meta"), dtype=torch.float16)).join()


def test_the_middle_comes_first_then_those_of_the_halves() -> None:
    assert list(middles_first(8)) == [4, 2, 6, 1, 3, 5, 7, 0]


@given(st.integers(0, 300))
def test_every_number_comes_once(count: int) -> None:
    assert sorted(middles_first(count)) == list(range(count))
