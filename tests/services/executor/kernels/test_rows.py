import numpy as np
import pytest

from services.executor.kernels.linear import BFLOAT16, FLOAT16, FLOAT32
from services.executor.kernels.rows import gate, keep, norm, rotate

LENGTHS = [16, 48, 576]


def numbers(length, seed=0):
    return (np.random.default_rng(seed).standard_normal(length) * 3).astype(np.float32)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e4])
def test_norm_divides_by_the_root_of_the_mean_square(length, scale):
    x, weight, y = numbers(length) * np.float32(scale), numbers(length, 1), np.zeros(length, np.float32)
    norm(x.ctypes.data, weight.ctypes.data, y.ctypes.data, length, 1e-5)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y, wide / np.sqrt((wide**2).mean() + 1e-5) * weight, rtol=2e-6)


@pytest.mark.parametrize("half", [8, 16, 20, 24, 32, 40, 64])
def test_rotate_turns_real_and_imaginary_parts(half):
    head, angles = numbers(2 * half), numbers(half, 1)
    cosines, sines = np.cos(angles), np.sin(angles)
    turned = (head[:half] + 1j * head[half:]) * (cosines + 1j * sines)
    rotate(head.ctypes.data, cosines.ctypes.data, sines.ctypes.data, half)
    np.testing.assert_allclose(head, np.concatenate((turned.real, turned.imag)), atol=2e-6)


@pytest.mark.parametrize("length", LENGTHS)
def test_keep_writes_the_pools_type(length):
    x = numbers(length)
    whole, half, bits = np.zeros(length, np.float32), np.zeros(length, np.float16), np.zeros(length, np.uint16)
    for target, kind in ((whole, FLOAT32), (half, FLOAT16), (bits, BFLOAT16)):
        keep(x.ctypes.data, target.ctypes.data, length, kind)
    np.testing.assert_array_equal(whole, x)
    np.testing.assert_array_equal(half, x.astype(np.float16))
    np.testing.assert_allclose((bits.astype(np.uint32) << 16).view(np.float32), x, rtol=2**-8)


@pytest.mark.parametrize("length", LENGTHS)
def test_gate_is_silu_times_ups(length):
    gates, ups = numbers(length) * 5, numbers(length, 1)
    gates[:3] = 0, -200, 200
    wide = gates.astype(np.float64)
    expected = wide / (1 + np.exp(-wide)) * ups
    gate(gates.ctypes.data, ups.ctypes.data, length)
    np.testing.assert_allclose(gates, expected, rtol=1e-5, atol=1e-30)
