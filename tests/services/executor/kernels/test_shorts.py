import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from services.executor.kernels.pairs import SHORTS
from services.executor.model.stored import StoredKind
from tests.support.packed import Matrix, random_rows, shortened
from tests.support.stored import make_stored

pytestmark = pytest.mark.skipif(not SHORTS, reason="the processor has no AVX-512 VNNI")
GROUPS = (StoredKind.Q8_0, StoredKind.Q4_0, StoredKind.Q4_1)
NUMBERS = st.floats(-1e6, 1e6, width=32)


def restored(row):
    """The numbers that a row in block fixed point stands for, and its groups' sums."""
    groups = row.reshape(-1, 32)
    pairs = np.ascontiguousarray(groups[:, :16]).view(np.int16).reshape(-1, 16, 2).swapaxes(1, 2).reshape(-1, 32)
    return pairs * groups[:, 16:17].astype(np.float64), groups[:, 17]


@settings(deadline=None)
@given(arrays.arrays(np.float32, 96, elements=NUMBERS))
def test_numbers_are_rounded_to_a_part_of_the_largest_in_their_group(row):
    values, sums = restored(shortened(row[None])[0])
    groups = row.reshape(-1, 32).astype(np.float64)
    peaks = np.abs(groups).max(axis=1, keepdims=True)
    assert (np.abs(values - groups) <= peaks / 32767 * 0.51 + 1e-30).all()
    np.testing.assert_allclose(sums, values.sum(axis=1), atol=1e-5 * peaks.max(), rtol=0)


def test_the_largest_numbers_stay_within_16_bits():
    row = np.tile(np.float32([1.0, -1.0]), 16)
    values, _ = restored(shortened(row[None])[0])
    np.testing.assert_allclose(values[0], row, rtol=1e-7)


@pytest.mark.parametrize("least", [0.0, 1e-38, 1e-44])
def test_what_is_next_to_nothing_is_zero(least):
    values, sums = restored(shortened(np.full((1, 32), least, np.float32))[0])
    assert not values.any()
    assert not sums.any()


@pytest.mark.parametrize("kind", GROUPS)
@settings(deadline=None, max_examples=20)
@given(
    rows=st.integers(1, 20),
    groups=st.sampled_from([1, 5, 18]),
    outputs=st.sampled_from([1, 32, 70]),
    has_bias=st.booleans(),
    adds=st.booleans(),
)
def test_computes_what_numpy_computes(kind, rows, groups, outputs, has_bias, adds):
    matrix = Matrix([make_stored(kind, outputs, groups * 32, rows)], has_bias)
    x, y = random_rows(rows, groups * 32), random_rows(rows, matrix.padded)
    expected = matrix.expected(x) + (y[:, :outputs] if adds else 0)
    matrix.multiply_shorts(x, y, adds)
    np.testing.assert_allclose(y[:, :outputs], expected, atol=3e-5 * matrix.magnitude(x), rtol=0)


@pytest.mark.parametrize("kind", GROUPS)
def test_of_numbers_that_need_no_rounding_the_product_is_that_of_floats(kind):
    matrix = Matrix([make_stored(kind, 64, 96, 0)], has_bias=False)
    x = np.random.default_rng(0).integers(-32767, 32768, (9, 96)).astype(np.float32)
    x[:, ::32] = 32767
    y = np.zeros((9, 64), np.float32)
    matrix.multiply_shorts(x, y, adds=False)
    np.testing.assert_allclose(y, matrix.expected(x), atol=1e-6 * matrix.magnitude(x), rtol=0)


@pytest.mark.parametrize("number", [-128, 127])
def test_sums_of_the_largest_numbers_fit(number):
    stored = make_stored(StoredKind.Q8_0, 32, 32, 0)
    stored.elements()["values"][...] = number
    matrix = Matrix([stored], has_bias=False)
    x, y = np.full((1, 32), 1.0, np.float32), np.zeros((1, 32), np.float32)
    matrix.multiply_shorts(x, y, adds=False)
    np.testing.assert_allclose(y, matrix.expected(x), rtol=1e-6)


@pytest.mark.parametrize("kind", GROUPS)
def test_a_rows_bits_do_not_depend_on_the_others(kind):
    matrix = Matrix([make_stored(kind, 64, 160, 0)], has_bias=False)
    x = random_rows(19, 160)
    together, alone = np.zeros((19, 64), np.float32), np.zeros((19, 64), np.float32)
    matrix.multiply_shorts(x, together, adds=False)
    for row in range(19):
        matrix.multiply_shorts(x[row : row + 1], alone[row : row + 1], adds=False)
    np.testing.assert_array_equal(together, alone)
