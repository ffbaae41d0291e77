import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.executor.model import stored as stored_module
from services.executor.model.stored import Stored, StoredKind, stored
from tests.support.stored import make_stored


def as_the_library_reads(matrix: Stored) -> np.ndarray:
    return gguf.quants.dequantize(matrix.raw, gguf.GGMLQuantizationType[matrix.kind])


@given(st.sampled_from(StoredKind), st.integers(1, 40), st.integers(1, 4), st.integers(0, 1000))
def test_means_what_the_gguf_library_says(kind, outputs, groups, seed):
    matrix = make_stored(kind, outputs, 32 * groups, seed)
    assert (matrix.outputs, matrix.inputs) == (outputs, 32 * groups)
    found = matrix.dequantised()
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, as_the_library_reads(matrix))


@given(st.sampled_from(StoredKind), st.lists(st.integers(0, 19), max_size=30))
def test_rows_are_those_of_the_whole(kind, ids):
    matrix = make_stored(kind, 20, 64)
    found = matrix.rows(np.array(ids, np.int64))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, matrix.dequantised()[ids])


@pytest.mark.parametrize("kind", StoredKind)
def test_a_large_matrix_is_dequantised_block_by_block(kind, monkeypatch):
    monkeypatch.setattr(stored_module, "BLOCK_WEIGHTS", 200)  # three rows of 64
    matrix = make_stored(kind, 10, 64)
    np.testing.assert_array_equal(matrix.dequantised(), as_the_library_reads(matrix))


@pytest.mark.parametrize(
    ("kind", "bytes_per_group"),
    [("F32", 128), ("F16", 64), ("BF16", 64), ("Q8_0", 34), ("Q4_1", 20), ("Q4_0", 18)],
)
def test_takes_the_room_of_its_kind(kind, bytes_per_group):
    assert make_stored(StoredKind(kind), 3, 64).num_bytes == 3 * 2 * bytes_per_group


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_floats_stay_as_they_are(dtype):
    values = np.arange(15, dtype=dtype).reshape(5, 3).T  # not contiguous
    found = stored(values)
    assert found.elements().dtype == dtype
    np.testing.assert_array_equal(found.elements(), values)
    np.testing.assert_array_equal(found.dequantised(), values.astype(np.float32))
