import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from services.executor.kernels.vector import (
    LANES,
    compiled,
    exp,
    exp2,
    get,
    largest,
    load,
    load_bfloat,
    load_half,
    put,
    store,
    store_bfloat,
    store_half,
    total,
)


def vectors(least, most):
    return arrays.arrays(np.float32, LANES, elements=st.floats(least, most, width=32))


@compiled
def powers(source: int, of_e: int, of_two: int) -> None:
    store(of_e, exp(load(source)))
    store(of_two, exp2(load(source)))


@compiled
def there_and_back(source: int, halves: int, bits: int, from_halves: int, from_bits: int) -> None:
    store_half(halves, load(source))
    store_bfloat(bits, load(source))
    store(from_halves, load_half(halves))
    store(from_bits, load_bfloat(bits))


@compiled
def fold(source: int, sums: int) -> None:
    put(sums, total(load(source)))
    put(sums + 4, largest(load(source)))
    put(sums + 8, get(source + 4))


@settings(deadline=None)
@given(vectors(-80, 80))
def test_powers(x):
    of_e, of_two = np.zeros(LANES, np.float32), np.zeros(LANES, np.float32)
    powers(x.ctypes.data, of_e.ctypes.data, of_two.ctypes.data)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(of_two, np.exp2(wide), rtol=3e-7)
    np.testing.assert_allclose(of_e, np.exp(wide), rtol=3e-7 + 1.3e-7 * np.abs(wide).max())


def test_powers_of_what_is_far_below_are_next_to_nothing():
    x, of_e, of_two = np.full(LANES, -1e30, np.float32), np.ones(LANES, np.float32), np.ones(LANES, np.float32)
    powers(x.ctypes.data, of_e.ctypes.data, of_two.ctypes.data)
    assert (of_e < 1e-37).all()
    assert (of_two < 1.2e-38).all()


@settings(deadline=None)
@given(vectors(-60000, 60000))
def test_halves_are_rounded_to_nearest(x):
    halves, bits = np.zeros(LANES, np.float16), np.zeros(LANES, np.uint16)
    from_halves, from_bits = np.zeros(LANES, np.float32), np.zeros(LANES, np.float32)
    there_and_back(*(array.ctypes.data for array in (x, halves, bits, from_halves, from_bits)))
    np.testing.assert_array_equal(halves, x.astype(np.float16))
    np.testing.assert_array_equal(from_halves, halves.astype(np.float32))
    np.testing.assert_array_equal(from_bits, (bits.astype(np.uint32) << 16).view(np.float32))
    np.testing.assert_allclose(from_bits, x, rtol=2**-8, atol=1e-40)


@settings(deadline=None)
@given(vectors(-1000, 1000))
def test_folds(x):
    sums = np.zeros(3, np.float32)
    fold(x.ctypes.data, sums.ctypes.data)
    np.testing.assert_allclose(sums[0], x.astype(np.float64).sum(), atol=1e-6 * np.abs(x).sum() + 1e-40)
    assert sums[1] == x.max()
    assert sums[2] == x[1]
