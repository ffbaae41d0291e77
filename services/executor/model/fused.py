"""The forward pass of the CPU: one call of a compiled function for each step.

Computes what `forward.Model` computes, in float32, from packed weights. Knows the buffers of a step. Knows nothing of
how the kernels compute, of requests, or of who owns a slot.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from services.executor.attention.cpu import POOL_KINDS
from services.executor.attention.pieces import AttentionPlan, Workspace, plan_attention
from services.executor.kernels.attention import MAX_QUERIES, scratch_bytes
from services.executor.kernels.forward import GATE_ROWS, PANEL_BYTES, ModelFrame, Rows, StepFrame, forward
from services.executor.kernels.team import LINE, Team
from services.executor.kernels.tile import PANEL
from services.executor.model.config import ModelShape, read_shape
from services.executor.model.forward import Batch
from services.executor.model.packed_weights import PackedForm, PackedWeights
from services.executor.model.packing import aligned
from services.executor.model.rope import inverse_frequencies
from services.executor.model.stored_weights import StoredWeights, load_stored
from shared.invariant import BrokenInvariant

MULTIPLE = 16  # of sizes: whole vectors on any processor
KEPT_LOGITS = 256  # rows; what a long prompt's log-probabilities take beyond is given back


def computes(shape: ModelShape) -> bool:
    """Whether the kernels can compute a model of this shape."""
    sizes = shape.hidden_size, shape.intermediate_size, shape.head_dim
    group, rest = divmod(shape.heads, shape.kv_heads)
    return not rest and group <= MAX_QUERIES and all(size % MULTIPLE == 0 for size in sizes)


def load_fused(folder: Path, *, form: PackedForm, threads: int) -> FusedModel:
    """Raises ConfigError if the folder's model cannot be read or is not one that the forward pass computes."""
    shape = read_shape(folder)
    return FusedModel(shape, load_stored(folder, shape), form, Team(threads))


class FusedModel:
    device = torch.device("cpu")
    dtype = torch.float32
    kv_dtype = torch.float16

    def __init__(self, shape: ModelShape, weights: StoredWeights, form: PackedForm, team: Team) -> None:
        self.shape = shape
        self._team = team
        self._weights = PackedWeights(weights, form)
        self._angles = _angles(shape)  # cosines and sines
        self._buffers = _Buffers(shape, team.threads)
        self._workspace = Workspace()
        self._frame = ModelFrame(
            shape.layers,
            self._weights.records.ctypes.data,
            self._weights.final_norm,
            self._weights.head.ctypes.data,
            shape.heads,
            shape.kv_heads,
            shape.head_dim,
            shape.hidden_size,
            *(table.ctypes.data for table in self._angles),
        )

    @property
    def weight_bytes(self) -> int:
        return self._weights.num_bytes

    def forward(self, batch: Batch, keys: Tensor, values: Tensor) -> Tensor:
        """Compute the batch's tokens.

        Args:
            keys, values: the KV pool, (layers, slots, kv_heads, head_dim); `batch.slots` are written in each layer.

        Returns:
            (rows, vocab_size) float32, the logits of `batch.logits_rows`, until the next call.
        """
        self._check(batch, keys, values)
        rows, shape, buffers = len(batch.token_ids), self.shape, self._buffers
        buffers.hold(rows, len(batch.logits_rows))
        buffers.hidden[:rows, : shape.hidden_size] = self._weights.embedding.rows(batch.token_ids.numpy())
        plan = plan_attention(
            batch.segments, shape.heads, shape.kv_heads, shape.head_dim, self._team.threads, self._workspace
        )
        self._team.run(forward, self._frame, _frame(batch, buffers, plan, keys, values), shape.rms_norm_eps)
        return torch.from_numpy(buffers.logits[: len(batch.logits_rows), : shape.vocab_size])

    def _check(self, batch: Batch, keys: Tensor, values: Tensor) -> None:
        """The kernels trust every number that they are given."""
        rows = len(batch.token_ids)
        for numbers, end in (
            (batch.token_ids, self.shape.vocab_size),
            (batch.positions, self.shape.max_position),
            (batch.slots, keys.shape[1]),
            (batch.logits_rows, rows),
        ):
            if len(numbers) > rows or (len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < end):
                raise BrokenInvariant(f"{numbers.tolist()} of a batch of {rows} rows are not all in [0, {end})")
        if keys.shape != values.shape or not (keys.is_contiguous() and values.is_contiguous()):
            raise BrokenInvariant(
                f"the pool's parts are {tuple(keys.shape)} and {tuple(values.shape)}, or not contiguous"
            )


def _frame(batch: Batch, buffers: _Buffers, plan: AttentionPlan, keys: Tensor, values: Tensor) -> StepFrame:
    """The tensors must stay until the step is over."""
    return StepFrame(
        rows=len(batch.token_ids),
        positions=batch.positions.data_ptr(),
        slots=batch.slots.data_ptr(),
        hidden=_rows(buffers.hidden),
        normed=_rows(buffers.normed),
        qkv=_rows(buffers.qkv),
        attended=_rows(buffers.attended),
        gated=_rows(buffers.gated),
        wanted=batch.logits_rows.data_ptr(),
        wanted_rows=len(batch.logits_rows),
        logits=_rows(buffers.logits),
        keys=keys.data_ptr(),
        values=values.data_ptr(),
        pool_stride=keys.stride(0) * keys.element_size(),
        pool_kind=POOL_KINDS[keys.dtype],
        plan=plan.address,
        pieces=plan.pieces,
        merges=int(plan.partials),
        scratch=buffers.scratch,
        scratch_stride=buffers.scratch_stride,
    )


class _Buffers:
    """Memory that is used again in every step, and grows with the largest."""

    def __init__(self, shape: ModelShape, threads: int) -> None:
        heads = shape.heads + 2 * shape.kv_heads
        self._widths = {
            "hidden": shape.hidden_size,
            "normed": shape.hidden_size,
            "qkv": heads * shape.head_dim,
            "attended": shape.heads * shape.head_dim,
            "gated": shape.intermediate_size,
        }
        self._vocab_size = shape.vocab_size
        self.hidden = self.normed = self.qkv = self.attended = self.gated = np.empty((0, 0), np.float32)
        self.logits = _panels(0, shape.vocab_size)
        inputs = max(self._widths.values())
        linear_bytes = (GATE_ROWS + inputs) * PANEL_BYTES
        self.scratch_stride = -(-max(linear_bytes, scratch_bytes(shape.head_dim)) // LINE) * LINE
        self._scratch = aligned(threads * self.scratch_stride)
        self.scratch = int(self._scratch.ctypes.data)

    def hold(self, rows: int, wanted: int) -> None:
        """All of them grow, or none does."""
        if rows > len(self.hidden):
            for name, buffer in {name: _panels(rows, width) for name, width in self._widths.items()}.items():
                setattr(self, name, buffer)
        if not wanted <= len(self.logits) <= max(2 * wanted, KEPT_LOGITS):
            self.logits = _panels(wanted, self._vocab_size)


def _panels(rows: int, width: int) -> NDArray[np.float32]:
    """What is behind a row's width is written, and read by nobody."""
    return np.zeros((rows + rows // 4, -(-width // PANEL) * PANEL), np.float32)


def _rows(buffer: NDArray[np.float32]) -> Rows:
    return Rows(buffer.ctypes.data, buffer.strides[0])


def _angles(shape: ModelShape) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Cosines and sines of all positions, (max_position, head_dim / 2) each."""
    angles = torch.outer(torch.arange(shape.max_position, dtype=torch.float32), inverse_frequencies(shape))
    return angles.cos().numpy(), angles.sin().numpy()
