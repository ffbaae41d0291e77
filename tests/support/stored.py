"""Random stored matrices, and packed ones read back by the layout as `packing.py` describes it."""

from __future__ import annotations

import gguf
import numpy as np

from services.executor.model.packing import Packed, PackedKind
from services.executor.model.stored import GROUP, Floats, Stored, StoredKind


def make_stored(kind: StoredKind, outputs: int, inputs: int, seed: int = 0) -> Stored:
    """As the gguf library quantises random floats; groups need a multiple of 32 inputs."""
    values = np.random.default_rng(seed).standard_normal((outputs, inputs), dtype=np.float32)
    quantised = gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind])
    return Stored(kind, quantised.view(np.uint8))


def unpacked(packed: Packed) -> Floats:
    """(outputs, inputs), panel by panel and byte by byte."""
    panels = packed.data.reshape(-1, packed.panel_bytes)
    rows = [_panel(packed, panel.tobytes()) for panel in panels]
    return np.concatenate(rows)[: packed.outputs]


def _panel(packed: Packed, content: bytes) -> Floats:
    """(panel, inputs)"""
    width = packed.panel
    match packed.kind:
        case PackedKind.FLOAT32:
            return np.frombuffer(content, np.float32).reshape(-1, width).T
        case PackedKind.FLOAT16:
            return np.frombuffer(content, np.float16).reshape(-1, width).T.astype(np.float32)
        case PackedKind.BFLOAT16:
            bits = np.frombuffer(content, np.uint16).reshape(-1, width).T
            return (bits.astype(np.uint32) << 16).view(np.float32)
    stride = width * (2 + GROUP) if packed.kind == PackedKind.Q8 else width * (4 + GROUP // 2)
    groups = [content[start : start + stride] for start in range(0, len(content), stride)]
    return np.concatenate(
        [_q8(group, width) if packed.kind == PackedKind.Q8 else _q4(group, width) for group in groups]
    ).T


def _q8(group: bytes, width: int) -> Floats:
    """(32, panel)"""
    scales = np.frombuffer(group[: 2 * width], np.float16).astype(np.float32)
    return np.frombuffer(group[2 * width :], np.int8).reshape(GROUP, width) * scales


def _q4(group: bytes, width: int) -> Floats:
    """(32, panel)"""
    scales, minima = np.frombuffer(group[: 4 * width], np.float16).astype(np.float32).reshape(2, width)
    halves = np.frombuffer(group[4 * width :], np.uint8).reshape(GROUP // 2, width)
    return np.concatenate((halves & 15, halves >> 4)) * scales + minima
