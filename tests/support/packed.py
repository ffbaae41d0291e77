"""A matrix as the kernels find it: packed, with a table entry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.executor.kernels.linear import ENTRY_BYTES, linear
from services.executor.kernels.shorts import linear_of_shorts, shorten
from services.executor.kernels.tile import PANEL
from services.executor.model.packing import pack
from services.executor.model.stored import Floats, Stored


def random_rows(rows: int, width: int) -> Floats:
    """Of different magnitudes, as those of a model are."""
    rng = np.random.default_rng(rows * width)
    values = rng.standard_normal((rows, width)) * 10.0 ** rng.integers(-2, 2, (rows, width))
    return values.astype(np.float32)


class Matrix:
    def __init__(self, matrices: Sequence[Stored], has_bias: bool) -> None:
        self._packed = pack(matrices, PANEL)
        self._values = np.concatenate([matrix.dequantised() for matrix in matrices]).astype(np.float64)
        self.panels = -(-self._packed.outputs // PANEL)
        self.padded = self.panels * PANEL
        self._bias = np.arange(self.padded, dtype=np.float32) if has_bias else np.zeros(self.padded, np.float32)
        bias = self._bias.ctypes.data if has_bias else 0
        data, inputs = self._packed.data.ctypes.data, self._packed.inputs
        words = [self._packed.kind, data, self._packed.panel_bytes, inputs, bias, self.panels]
        self._entry = np.array(words + [0] * (ENTRY_BYTES // 8 - len(words)), np.int64)
        self._scratch = np.zeros((inputs, PANEL), np.float32)

    def expected(self, x: Floats) -> NDArray[np.float64]:
        product: NDArray[np.float64] = x.astype(np.float64) @ self._values.T + self._bias[: self._packed.outputs]
        return product

    def magnitude(self, x: Floats) -> float:
        """Of the largest sum's parts: errors are small beside it."""
        return float((np.abs(x).astype(np.float64) @ np.abs(self._values).T).max() + self.padded)

    def multiply(self, x: Floats, y: Floats, adds: bool) -> None:
        entry, scratch = self._entry.ctypes.data, self._scratch.ctypes.data
        for panel in range(self.panels):
            operands = x.ctypes.data, x.strides[0], len(x), y.ctypes.data, y.strides[0]
            linear(panel, entry, *operands, int(adds), scratch)

    def multiply_shorts(self, x: Floats, y: Floats, adds: bool) -> None:
        x = shortened(x)
        for panel in range(self.panels):
            operands = x.ctypes.data, x.strides[0], len(x), y.ctypes.data, y.strides[0]
            linear_of_shorts(panel, self._entry.ctypes.data, *operands, int(adds))


def shortened(x: Floats) -> Floats:
    """A copy in block fixed point."""
    copy = np.array(x, order="C")
    for row in copy:
        shorten(row.ctypes.data, len(row))
    return copy
