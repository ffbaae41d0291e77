import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.executor.model.packing import ALIGNMENT, PackedKind, pack
from services.executor.model.stored import Q4_0, Stored, StoredKind, stored
from tests.support.stored import make_stored, unpacked

FLOATS = (StoredKind.F32, StoredKind.F16, StoredKind.BF16)
BYTES = {  # of one input of one row, with its part of the group's scales
    PackedKind.FLOAT32: 4,
    PackedKind.FLOAT16: 2,
    PackedKind.BFLOAT16: 2,
    PackedKind.Q8: 34 / 32,
    PackedKind.Q4: 20 / 32,
}


@st.composite
def stacks(draw):
    """Matrices with one number of inputs, mostly of one kind."""
    kind = draw(st.sampled_from(StoredKind))
    inputs = draw(st.integers(1, 70)) if kind in FLOATS else 32 * draw(st.integers(1, 3))
    others = [kind] if inputs % 32 else [kind, kind, *StoredKind]
    shapes = draw(st.lists(st.tuples(st.sampled_from(others), st.integers(1, 40)), max_size=2))
    shapes.append((kind, draw(st.integers(1, 40))))
    return [make_stored(kind, outputs, inputs, seed) for seed, (kind, outputs) in enumerate(shapes)]


@given(stacks(), st.sampled_from([1, 8, 16, 32]))
def test_a_packed_weight_is_the_stored_one(matrices, panel):
    packed = pack(matrices, panel)
    expected = np.concatenate([matrix.dequantised() for matrix in matrices])
    assert (packed.outputs, packed.inputs) == expected.shape
    np.testing.assert_array_equal(unpacked(packed), expected)


@given(stacks(), st.sampled_from([16, 32]))
def test_panels_are_whole_aligned_and_as_large_as_their_kind(matrices, panel):
    packed = pack(matrices, panel)
    panels = -(-packed.outputs // panel)
    assert packed.panel_bytes == panel * packed.inputs * BYTES[packed.kind]
    assert packed.num_bytes == panels * packed.panel_bytes
    assert packed.data.ctypes.data % ALIGNMENT == 0
    assert packed.data.flags.c_contiguous


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["F32"], PackedKind.FLOAT32),
        (["F16", "F16"], PackedKind.FLOAT16),
        (["BF16", "BF16"], PackedKind.BFLOAT16),
        (["Q8_0", "Q8_0"], PackedKind.Q8),
        (["Q4_1", "Q4_0"], PackedKind.Q4),
        (["Q4_1", "Q8_0"], PackedKind.FLOAT32),
        (["F16", "BF16"], PackedKind.FLOAT32),
    ],
)
def test_matrices_of_one_kind_keep_it(kinds, expected):
    assert pack([make_stored(StoredKind(kind), 5, 32) for kind in kinds], 16).kind == expected


@pytest.mark.parametrize(("scale", "expected"), [(8184.0, PackedKind.Q4), (8200.0, PackedKind.FLOAT32)])
def test_a_scale_that_leaves_no_room_for_its_minimum_makes_floats(scale, expected):
    """Eight times 8,184 is 65,472, a float16; 65,600 is beyond it."""
    groups = np.zeros((3, 2), Q4_0)
    groups["scale"] = scale
    groups["nibbles"] = np.random.default_rng(0).integers(0, 256, (3, 2, 16))
    matrix = Stored(StoredKind.Q4_0, groups.view(np.uint8))
    packed = pack([matrix], 16)
    assert packed.kind == expected
    np.testing.assert_array_equal(unpacked(packed), matrix.dequantised())


def test_the_smallest_scales_keep_their_minimum():
    bits = np.array([[1, 0x8001, 0x03FF, 0x0400]], np.uint16)  # subnormal ones and the smallest normal one
    groups = np.zeros((1, 4), Q4_0)
    groups["scale"] = bits.view(np.float16)
    groups["nibbles"] = np.arange(64).reshape(1, 4, 16) * 4
    matrix = Stored(StoredKind.Q4_0, groups.view(np.uint8))
    packed = pack([matrix], 16)
    assert packed.kind == PackedKind.Q4
    np.testing.assert_array_equal(unpacked(packed), matrix.dequantised())


def test_rows_that_fill_up_the_last_panel_are_zero():
    packed = pack([make_stored(StoredKind.Q4_1, 17, 32)], 16)
    rest = packed.data[packed.panel_bytes :].view([("scales", "<f2", 16), ("minima", "<f2", 16), ("rest", "u1", 256)])
    assert (rest["scales"][0, 1:] == 0).all()
    assert (rest["minima"][0, 1:] == 0).all()


def test_what_has_other_inputs_is_not_stacked():
    with pytest.raises(ValueError, match=r"\[3, 4\] inputs"):
        pack([stored(np.ones((2, 3), np.float32)), stored(np.ones((2, 4), np.float32))], 16)
