from dataclasses import dataclass

from scripts.bench.measure.ceilings import Ceilings
from scripts.bench.measure.work import attention_flops, chunk_pairs, kv_bytes, linear_flops


@dataclass(frozen=True)
class Shape:
    """SmolLM2-135M's."""

    layers: int = 30
    hidden_size: int = 576
    intermediate_size: int = 1536
    heads: int = 9
    kv_heads: int = 3
    head_dim: int = 64
    vocab_size: int = 49152


def test_what_one_token_of_the_bundled_model_costs():
    assert round(linear_flops(Shape(), 1, 0) / 1e9, 2) == 0.21
    assert linear_flops(Shape(), 1, 1) - linear_flops(Shape(), 1, 0) == 2 * 576 * 49152
    assert kv_bytes(Shape(), 1, itemsize=2) == 11_520 * 2
    assert attention_flops(Shape(), 5) == 5 * 4 * 30 * 576


def test_pairs_of_a_chunk():
    assert chunk_pairs(3, 10) == 11 + 12 + 13
    assert chunk_pairs(1, 0) == 1


def test_the_longer_of_reading_and_computing_bounds():
    top = Ceilings(read_bytes_s=10.0, gemm_flop_s=100.0)
    assert top.bound_s(read_bytes=50, flops=100) == 5.0
    assert top.bound_s(read_bytes=5, flops=100) == 1.0


def test_the_better_of_two_ceilings_counts():
    assert Ceilings(10.0, 90.0).or_better(Ceilings(9.0, 100.0)) == Ceilings(10.0, 100.0)
