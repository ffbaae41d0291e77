"""All weights of a model packed for the kernels, and the tables by which these find them.

Knows the layout of a layer's record. Knows nothing of steps or of arithmetic.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from services.executor.kernels.forward import (
    DOWN,
    GATE,
    INPUT_NORM,
    KEY_NORM,
    OUTPUT,
    POST_ATTENTION_NORM,
    QKV,
    QUERY_NORM,
    RECORD_BYTES,
    UP,
)
from services.executor.kernels.linear import ENTRY_BYTES
from services.executor.kernels.pairs import SHORTS
from services.executor.kernels.piece import LONG
from services.executor.kernels.tile import PANEL
from services.executor.model.linears import survives_half
from services.executor.model.packing import ALIGNMENT, PackedKind, aligned, pack
from services.executor.model.stored import Bytes, Floats, Stored, stored
from services.executor.model.stored_weights import StoredLayer, StoredLinear, StoredWeights

PackedForm: TypeAlias = Literal["native", "float16", "float32"]

Longs = NDArray[np.int64]

ARENA_BYTES = 32 << 20  # so large that the system backs it with huge pages, if it does that at all


class PackedWeights:
    """Args:
    form: native, as they are stored; or all as floats of one size.
    """

    def __init__(self, weights: StoredWeights, form: PackedForm) -> None:
        self._form = form
        self._kept: list[Bytes] = []  # what the addresses point to
        self._used = 0  # of the last one
        self.num_bytes = weights.embedding.num_bytes
        self.embedding = weights.embedding
        self.records = np.zeros((len(weights.layers), RECORD_BYTES // LONG), np.int64)
        for record, layer in zip(self.records, weights.layers, strict=True):
            self._layer(record, layer)
        self.final_norm = self._keep(weights.norm)
        self.head = np.zeros(ENTRY_BYTES // LONG, np.int64)
        self._matrix(self.head, 0, weights.head.matrices, weights.head.bias)

    def _layer(self, record: Longs, layer: StoredLayer) -> None:
        gate, up = layer.gate_up.matrices
        self._linear(record, QKV, layer.qkv)
        self._linear(record, OUTPUT, layer.output)
        self._matrix(record, GATE, (gate,), None)
        self._matrix(record, UP, (up,), None)
        self._linear(record, DOWN, layer.down)
        norms = {
            INPUT_NORM: layer.input_norm,
            POST_ATTENTION_NORM: layer.post_attention_norm,
            QUERY_NORM: layer.query_norm,
            KEY_NORM: layer.key_norm,
        }
        for offset, norm in norms.items():
            record[offset // LONG] = 0 if norm is None else self._keep(norm)

    def _linear(self, record: Longs, offset: int, linear: StoredLinear) -> None:
        self._matrix(record, offset, linear.matrices, linear.bias)

    def _matrix(self, record: Longs, offset: int, matrices: tuple[Stored, ...], bias: Floats | None) -> None:
        """Write its table entry."""
        packed = pack([self._formed(matrix) for matrix in matrices], PANEL)
        panels = packed.num_bytes // packed.panel_bytes
        padded = None if bias is None else np.concatenate((bias, np.zeros(panels * PANEL - len(bias), np.float32)))
        data, bias_at = self._keep(packed.data), self._address(padded)
        shortens = SHORTS and packed.kind in (PackedKind.Q8, PackedKind.Q4)
        entry = (packed.kind, data, packed.panel_bytes, packed.inputs, bias_at, panels, shortens)
        record[offset // LONG : offset // LONG + len(entry)] = entry

    def _formed(self, matrix: Stored) -> Stored:
        if self._form == "native":
            return matrix
        values = matrix.dequantised()
        halves = self._form == "float16" and survives_half(torch.from_numpy(values))
        return stored(values.astype(np.float16) if halves else values)

    def _address(self, values: Floats | None) -> int:
        return 0 if values is None else self._keep(values)

    def _keep(self, values: NDArray[Any]) -> int:
        """A copy behind the others, at a cache line."""
        whole_lines = -(-values.nbytes // ALIGNMENT) * ALIGNMENT
        if not self._kept or whole_lines > len(self._kept[-1]) - self._used:
            self._kept.append(aligned(max(whole_lines, ARENA_BYTES)))
            self._used = 0
        place = self._kept[-1][self._used : self._used + values.nbytes]
        place[:] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self._used += whole_lines
        self.num_bytes += values.nbytes
        return int(place.ctypes.data)
