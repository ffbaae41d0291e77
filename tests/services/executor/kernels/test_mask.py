import numpy as np
import pytest

from services.executor.kernels.mask import apply_masks


def expected(logits, rows, masks):
    result = logits.copy()
    for row, mask in zip(rows, masks, strict=True):
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[: logits.shape[1]]
        result[row, : len(bits)][bits == 0] = -np.inf
        result[row, len(bits) :] = -np.inf
    return result


def masks_of(kind, count, words, generator):
    if kind == "mixed":
        return generator.integers(-(2**31), 2**31, (count, words)).astype(np.int32)
    return np.full((count, words), {"all": -1, "none": 0}[kind], np.int32)


@pytest.mark.parametrize("kind", ["mixed", "all", "none"])
@pytest.mark.parametrize(
    ("vocab_size", "words"), [(96, 3), (100, 4), (100, 3), (100, 2), (100, 9), (31, 1), (49_152, 1536)]
)
def test_what_has_no_bit_becomes_minus_infinity(vocab_size, words, kind):
    generator = np.random.default_rng(1)
    logits = generator.standard_normal((5, vocab_size)).astype(np.float32)
    rows = np.array([3, 0, 4])
    masks = masks_of(kind, len(rows), words, generator)
    wanted = expected(logits, rows, masks)
    apply_masks(logits.ctypes.data, logits.strides[0], vocab_size, rows, masks.ctypes.data, words)
    np.testing.assert_array_equal(logits, wanted)


def test_nothing_beyond_a_row_is_touched():
    wide = np.ones((3, 128), np.float32)
    mask = np.zeros((1, 3), np.int32)
    apply_masks(wide.ctypes.data, wide.strides[0], 70, np.array([1]), mask.ctypes.data, 3)
    assert (wide[1] == -np.inf).sum() == 70
    assert (wide[[0, 2]] == 1).all()
    assert (wide[1, 70:] == 1).all()


def test_what_is_no_number_stays_where_it_may_follow():
    logits = np.full((1, 64), np.nan, np.float32)
    mask = np.array([[1, 0]], np.int32)
    apply_masks(logits.ctypes.data, logits.strides[0], 64, np.array([0]), mask.ctypes.data, 2)
    assert np.isnan(logits[0, 0])
    assert (logits[0, 1:] == -np.inf).all()
