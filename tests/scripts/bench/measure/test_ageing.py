from dataclasses import dataclass
from itertools import count

import pytest
import torch

from scripts.bench.measure.ageing import OCCUPANCY, Ageing
from scripts.bench.measure.inside import Inside, Passable
from scripts.bench.measure.mixture import Mixture
from services.executor.kv_pool import KvPool
from services.executor.radix_cache import RadixCache
from services.executor.slots import SlotAllocator
from services.executor.step import StepRunner

CAPACITY_TOKENS = 12_000


@dataclass(frozen=True)
class Shape:
    vocab_size: int = 50_000
    layers: int = 1
    kv_heads: int = 1
    head_dim: int = 2


class NeverComputed:
    shape = Shape()
    device = torch.device("cpu")
    dtype = torch.float32

    def forward(self, batch: object, keys: object, values: object) -> torch.Tensor:
        raise AssertionError("it is passed over")


class Bare(Inside):
    """Without weights and without a configuration."""

    def __init__(self) -> None:
        slots = SlotAllocator(CAPACITY_TOKENS)
        pool = KvPool(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2))
        self.model = Passable(NeverComputed())
        self.runner = StepRunner(self.model, pool, slots, RadixCache(slots), eos_token_ids=(), max_model_len=8192)
        self._steps, self._lanes = count(1), count()


@pytest.fixture(scope="module")
def aged() -> tuple[Bare, Ageing]:
    inside = Bare()
    ageing = Ageing(inside, Mixture(1))
    ageing.run(200)
    return inside, ageing


def test_requests_come_and_go_in_an_occupied_pool(aged: tuple[Bare, Ageing]):
    inside, ageing = aged
    assert ageing.finished >= 200
    assert inside.runner.running > 1
    counters = inside.runner.counters()
    assert counters.evicted_tokens > CAPACITY_TOKENS
    assert counters.hit_tokens > 0
    assert inside.runner.capacity().pinned_tokens > 0.5 * CAPACITY_TOKENS
    inside.runner.check_integrity()


def test_it_makes_room_for_those_who_come_to_be_measured(aged: tuple[Bare, Ageing]):
    inside, ageing = aged
    ageing.make_room(6000)
    assert 0 < inside.runner.capacity().pinned_tokens <= OCCUPANCY * CAPACITY_TOKENS - 6000
    inside.runner.check_integrity()


def test_contexts_in_an_old_pool_lie_in_pieces(aged: tuple[Bare, Ageing]):
    inside, ageing = aged
    ageing.make_room(6000)
    prompt = tuple(range(2000, 4000))
    (old,), (new,) = inside.take_up([prompt]), (fresh := Bare()).take_up([prompt])
    assert fresh.runs(new) == 1 < inside.runs(old)
    assert inside.runs(old, 0, 1) == 1
