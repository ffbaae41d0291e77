import numpy as np
import pytest

from services.executor.kernels.tile import PANEL, TILE_ROWS, multiply
from services.executor.kernels.vector import compiled


@compiled
def product(
    a: int, a_stride: int, b: int, b_stride: int, inner: int, c: int, c_stride: int, rows: int, adds: int
) -> None:
    multiply(a, a_stride, b, b_stride, inner, c, c_stride, rows, adds)


@pytest.mark.parametrize("rows", range(1, TILE_ROWS + 1))
@pytest.mark.parametrize("inner", [1, 37])
@pytest.mark.parametrize("adds", [0, 1])
def test_a_tile_of_wider_matrices_and_nothing_beside_it(rows, inner, adds):
    rng = np.random.default_rng(rows)
    a, b, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((13, 40), (inner, 70), (13, 80)))
    expected = c.astype(np.float64)
    own = expected[:rows, :PANEL]
    own[...] = own * adds + a[:rows, :inner].astype(np.float64) @ b[:, :PANEL]
    product(a.ctypes.data, 160, b.ctypes.data, 280, inner, c.ctypes.data, 320, rows, adds)
    np.testing.assert_allclose(c, expected, atol=2e-5)
