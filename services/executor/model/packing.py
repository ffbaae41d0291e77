"""Weight matrices in the order in which a kernel reads them: in panels of neighbouring output rows.

Knows the layouts that the kernels expect, and which kinds of stored weights become which. Exact: a packed weight is
the stored one. Knows nothing of models or of the kernels' arithmetic.

With P rows in a panel and K inputs, a panel holds, input by input, the P weights that belong to it:

    FLOAT32, FLOAT16, BFLOAT16    [K][P] floats, or their bits
    Q8    for each group of 32 inputs: P scales, [32][P] int8                        weight = scale * value
    Q4    for each group of 32 inputs: P scales, P minima, [16][P] bytes             weight = scale * value + minimum
          byte j of a row: input j of the group in the low half, input j + 16 in the high one

Scales and minima are float16. Panels lie one behind the other; the rows that fill up the last one are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from services.executor.model.stored import ELEMENTS, GROUP, Q4_1, Bytes, Elements, Stored, StoredKind, stored

ALIGNMENT = 64  # bytes; a cache line


class PackedKind(IntEnum):
    """The kernels know them by number."""

    FLOAT32 = 0
    FLOAT16 = 1
    BFLOAT16 = 2
    Q8 = 3
    Q4 = 4


_PACKED = {
    StoredKind.F32: PackedKind.FLOAT32,
    StoredKind.F16: PackedKind.FLOAT16,
    StoredKind.BF16: PackedKind.BFLOAT16,
    StoredKind.Q8_0: PackedKind.Q8,
    StoredKind.Q4_1: PackedKind.Q4,
}


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    kind: PackedKind
    outputs: int  # without those that fill up the last panel
    inputs: int
    panel: int  # rows in each
    data: Bytes  # (panels * panel_bytes,), aligned

    @property
    def panel_bytes(self) -> int:
        return self.num_bytes * self.panel // _whole(self.outputs, self.panel)

    @property
    def num_bytes(self) -> int:
        return self.data.nbytes


def pack(matrices: Sequence[Stored], panel: int) -> Packed:
    """The matrices one above the other. Those of different kinds are kept in float32.

    Raises:
        ValueError: they do not have the same number of inputs.
    """
    if len({matrix.inputs for matrix in matrices}) != 1:
        raise ValueError(f"matrices with {[matrix.inputs for matrix in matrices]} inputs cannot be stacked")
    matrices = _alike(matrices)
    kind, outputs = _PACKED[matrices[0].kind], sum(matrix.outputs for matrix in matrices)
    elements = _stacked(matrices, _whole(outputs, panel) - outputs)  # (padded outputs, elements of a row)
    panels = elements.reshape(-1, panel, elements.shape[1]).swapaxes(1, 2)  # (panels, elements of a row, panel)
    return Packed(kind, outputs, matrices[0].inputs, panel, _laid_out(kind, panels))


def _alike(matrices: Sequence[Stored]) -> list[Stored]:
    """All of one kind that can be packed."""
    able = [_with_minimum(matrix) if matrix.kind == StoredKind.Q4_0 else matrix for matrix in matrices]
    if len({matrix.kind for matrix in able}) == 1:
        return able
    return [stored(matrix.dequantised()) for matrix in able]


def _with_minimum(matrix: Stored) -> Stored:
    """Q4_0 as Q4_1: the same weights, with a minimum of eight times the scale below zero.

    In float32 if that is too large for a float16.
    """
    groups = matrix.elements()
    wider = np.empty(groups.shape, Q4_1)
    wider["scale"], wider["nibbles"] = groups["scale"], groups["nibbles"]
    minimum = -8 * groups["scale"].astype(np.float32)
    if np.abs(minimum).max(initial=0) > np.finfo(np.float16).max:
        return stored(matrix.dequantised())
    wider["minimum"] = minimum
    return Stored(StoredKind.Q4_1, wider.view(np.uint8))


def _stacked(matrices: list[Stored], padding: int) -> Elements:
    kind, row_bytes = matrices[0].kind, matrices[0].raw.shape[1]
    if padding:
        matrices = [*matrices, Stored(kind, np.zeros((padding, row_bytes), np.uint8))]
    return np.concatenate([matrix.raw for matrix in matrices]).view(ELEMENTS[kind][0])


def _laid_out(kind: PackedKind, panels: Elements) -> Bytes:
    count, elements, panel = panels.shape
    layout = _layout(kind, panels.dtype, panel)
    data = aligned(count * elements * layout.itemsize)
    target = data.view(layout).reshape(count, elements)
    if kind == PackedKind.Q8:
        target["scales"] = panels["scale"]
        target["values"] = panels["values"].swapaxes(2, 3)
    elif kind == PackedKind.Q4:
        target["scales"], target["minima"] = panels["scale"], panels["minimum"]
        target["nibbles"] = panels["nibbles"].swapaxes(2, 3)
    else:
        target["values"] = panels
    return data


def _layout(kind: PackedKind, element: np.dtype[Any], panel: int) -> np.dtype[Any]:
    """What a panel has for each input, or for each group of them."""
    scales, minima = ("scales", "<f2", (panel,)), ("minima", "<f2", (panel,))
    if kind == PackedKind.Q8:
        return np.dtype([scales, ("values", "i1", (GROUP, panel))])
    if kind == PackedKind.Q4:
        return np.dtype([scales, minima, ("nibbles", "u1", (GROUP // 2, panel))])
    return np.dtype([("values", element, (panel,))])


def aligned(num_bytes: int) -> Bytes:
    """Memory that starts at a cache line."""
    memory = np.empty(num_bytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + num_bytes]


def _whole(outputs: int, panel: int) -> int:
    return -(-outputs // panel) * panel
