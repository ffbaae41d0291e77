"""What the compiled forward pass refuses; what it computes is in test_forward.py, beside torch's."""

import dataclasses

import pytest
import torch

from services.executor.attention.base import Segment, SlotRun
from services.executor.model.forward import Batch
from services.executor.model.fused import KEPT_LOGITS, computes, load_fused
from shared.invariant import BrokenInvariant
from tests.support.tiny_model import VOCAB_SIZE, make_tiny_model

SLOTS = 8
PLACES = torch.arange(SLOTS)
WHOLE = Batch(PLACES, PLACES, PLACES, (Segment(0, SLOTS, (SlotRun(0, SLOTS),), causal=True),), PLACES)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load_fused(make_tiny_model(tmp_path_factory.mktemp("model")), form="native", threads=2)


def pool(model, slots=SLOTS):
    return torch.zeros(2, model.shape.layers, slots, model.shape.kv_heads, model.shape.head_dim)


@pytest.mark.parametrize(
    "changes",
    [
        {"token_ids": PLACES + VOCAB_SIZE},
        {"positions": PLACES + 1020},
        {"positions": PLACES - 1},
        {"slots": PLACES + 1},
        {"logits_rows": PLACES + 1},
        {"logits_rows": torch.zeros(SLOTS + 1, dtype=torch.int64)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_numbers_that_lie_outside_are_refused_before_the_kernels_see_them(model, changes):
    with pytest.raises(BrokenInvariant):
        model.forward(dataclasses.replace(WHOLE, **changes), *pool(model))


def test_a_pool_that_is_a_view_is_refused(model):
    keys, values = pool(model, 2 * SLOTS)
    with pytest.raises(BrokenInvariant):
        model.forward(WHOLE, keys[:, ::2], values[:, ::2])


def test_room_for_the_logits_of_a_long_prompt_is_given_back(model):
    count = KEPT_LOGITS + 400
    places = torch.arange(count)
    long = Batch(places % VOCAB_SIZE, places, places, (Segment(0, count, (SlotRun(0, count),), causal=True),), places)
    assert len(model.forward(long, *pool(model, count))) == count
    model.forward(WHOLE, *pool(model))
    assert len(model._buffers.logits) < KEPT_LOGITS


def test_shapes_that_the_kernels_compute(model):
    shape = model.shape
    assert computes(shape)
    for changes in ({"hidden_size": 72}, {"head_dim": 24}, {"heads": 5, "kv_heads": 2}, {"heads": 400, "kv_heads": 1}):
        values = {name: getattr(shape, name) for name in shape.__struct_fields__} | changes
        assert not computes(type(shape)(**values)), changes
