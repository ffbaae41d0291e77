"""A weight matrix in the form in which its file stores it, and what that form means in float32.

Knows the kinds that are kept as they are: plain floats, and GGUF's groups of 32 neighbours in a row with a scale of
their own. Knows nothing of files, of torch or of how a kernel wants its weights.
Format of the groups: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Floats: TypeAlias = NDArray[np.float32]
Elements: TypeAlias = NDArray[Any]  # what rows are made of: floats, their bits, or groups

GROUP = 32  # neighbours in a row that share a scale
BLOCK_WEIGHTS = 1 << 20  # dequantised at a time, so that what lies in between stays small


class StoredKind(StrEnum):
    """Named as GGUF names them."""

    F32 = "F32"
    F16 = "F16"
    BF16 = "BF16"
    Q8_0 = "Q8_0"  # scale * value
    Q4_0 = "Q4_0"  # scale * (value - 8)
    Q4_1 = "Q4_1"  # scale * value + minimum


Q8_0 = np.dtype([("scale", "<f2"), ("values", "i1", (GROUP,))])
Q4_0 = np.dtype([("scale", "<f2"), ("nibbles", "u1", (GROUP // 2,))])  # low ones first, then all high ones
Q4_1 = np.dtype([("scale", "<f2"), ("minimum", "<f2"), ("nibbles", "u1", (GROUP // 2,))])

ELEMENTS: dict[StoredKind, tuple[np.dtype[Any], int]] = {  # what a row is made of, and the weights in each
    StoredKind.F32: (np.dtype("<f4"), 1),
    StoredKind.F16: (np.dtype("<f2"), 1),
    StoredKind.BF16: (np.dtype("<u2"), 1),
    StoredKind.Q8_0: (Q8_0, GROUP),
    StoredKind.Q4_0: (Q4_0, GROUP),
    StoredKind.Q4_1: (Q4_1, GROUP),
}


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    kind: StoredKind
    raw: Bytes  # (outputs, bytes of a row); rows lie whole in memory

    @property
    def outputs(self) -> int:
        return len(self.raw)

    @property
    def inputs(self) -> int:
        return int(self.elements().shape[1]) * ELEMENTS[self.kind][1]

    @property
    def num_bytes(self) -> int:
        return int(self.raw.nbytes)

    def elements(self) -> Elements:
        """A view: (outputs, inputs) of floats or their bits, (outputs, inputs / 32) of groups."""
        return self.raw.view(ELEMENTS[self.kind][0])

    def dequantised(self) -> Floats:
        """(outputs, inputs), a copy."""
        values = np.empty((self.outputs, self.inputs), np.float32)
        step = max(1, BLOCK_WEIGHTS // max(1, self.inputs))
        for start in range(0, self.outputs, step):
            values[start : start + step] = _dequantised(self.kind, self.raw[start : start + step])
        return values

    def rows(self, ids: NDArray[np.int64]) -> Floats:
        """(ids, inputs): the named rows alone."""
        return _dequantised(self.kind, self.raw[ids])


def stored(values: NDArray[np.float32] | NDArray[np.float16]) -> Stored:
    """Floats (outputs, inputs) as they are."""
    kind = StoredKind.F16 if values.dtype == np.float16 else StoredKind.F32
    return Stored(kind, np.ascontiguousarray(values).view(np.uint8))


def _dequantised(kind: StoredKind, raw: Bytes) -> Floats:
    element, weights = ELEMENTS[kind]
    elements = raw.view(element)
    match kind:
        case StoredKind.F32 | StoredKind.F16:
            values: Floats = elements.astype(np.float32)
        case StoredKind.BF16:
            values = (elements.astype(np.uint32) << 16).view(np.float32)
        case StoredKind.Q8_0:
            values = _scale(elements) * elements["values"]
        case StoredKind.Q4_0:
            values = _scale(elements) * (_nibbles(elements).astype(np.int8) - np.int8(8))
        case StoredKind.Q4_1:
            minimum = elements["minimum"].astype(np.float32)[..., None]
            values = _scale(elements) * _nibbles(elements) + minimum
        case unknown:
            assert_never(unknown)
    return values.reshape(len(elements), elements.shape[1] * weights)


def _scale(groups: Elements) -> Floats:
    scale: Floats = groups["scale"].astype(np.float32)[..., None]
    return scale


def _nibbles(groups: Elements) -> Bytes:
    """(rows, groups, 32), in the order of the inputs."""
    return np.concatenate((groups["nibbles"] & 15, groups["nibbles"] >> 4), axis=-1)
