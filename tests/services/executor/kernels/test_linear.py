import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.executor.model.stored import StoredKind
from tests.support.packed import Matrix, random_rows
from tests.support.stored import make_stored

GROUPS = (StoredKind.Q8_0, StoredKind.Q4_0, StoredKind.Q4_1)


@pytest.mark.parametrize("kind", StoredKind)
@settings(deadline=None, max_examples=15)
@given(
    rows=st.sampled_from([1, 2, 5, 12, 16, 17, 40]),
    groups=st.sampled_from([1, 5, 7]),
    outputs=st.sampled_from([1, 32, 70]),
    has_bias=st.booleans(),
    adds=st.booleans(),
)
def test_computes_what_numpy_computes(kind, rows, groups, outputs, has_bias, adds):
    matrix = Matrix([make_stored(kind, outputs, groups * 32, rows)], has_bias)
    x, y = random_rows(rows, groups * 32), random_rows(rows, matrix.padded)
    expected = matrix.expected(x) + (y[:, :outputs] if adds else 0)
    matrix.multiply(x, y, adds)
    np.testing.assert_allclose(y[:, :outputs], expected, atol=2e-6 * matrix.magnitude(x), rtol=0)


@pytest.mark.parametrize("kind", GROUPS)
def test_the_smallest_and_largest_numbers_of_a_group_count(kind):
    stored = make_stored(kind, 32, 32, 0)
    values = stored.elements()["values" if kind == StoredKind.Q8_0 else "nibbles"]
    values[...] = np.resize([-128, 127] if kind == StoredKind.Q8_0 else [0x00, 0xF0, 0x0F, 0xFF], values.shape)
    matrix = Matrix([stored], has_bias=False)
    for rows in (1, 3):
        x, y = random_rows(rows, 32), random_rows(rows, 32)
        matrix.multiply(x, y, adds=False)
        np.testing.assert_allclose(y, matrix.expected(x), atol=2e-6 * matrix.magnitude(x), rtol=0)
