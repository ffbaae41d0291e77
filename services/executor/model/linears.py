"""Linear layers of the torch forward pass: one call, behind it whichever form of the weights is best at hand.

Knows torch's operators for packed weights. Some of them are private, so each form is tried on a small matrix before it
is used, and `plain` works everywhere. Packed forms are faster at any number of rows, so there is no choice left to make
when one is called. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import linear

WeightForm: TypeAlias = Literal["float32", "float16"]

TOLERANCE = 1e-2  # between a form and `plain` on the small matrix: whether it works, not how exact it is


class Linear(Protocol):
    @property
    def num_bytes(self) -> int:
        """Memory of weights and bias."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """(rows, inputs) to (rows, outputs)."""


MakeLinear: TypeAlias = Callable[[Tensor, Tensor | None], Linear]  # of a weight (outputs, inputs) and a bias (outputs,)


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    weight: Tensor
    bias: Tensor | None

    @property
    def num_bytes(self) -> int:
        return self.weight.nbytes + _bytes(self.bias)

    def __call__(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight, self.bias)


class OneDnn:
    """Float32 in oneDNN's own order: the same weights, and sums that differ from `Plain`'s in rounding only."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        self._bias = bias
        self._apply = torch.ops.mkldnn._linear_pointwise.default
        self.num_bytes = weight.nbytes + _bytes(bias)

    def __call__(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self._apply(inputs, self._packed, self._bias, "none", [], "")
        return outputs


class Half:
    """Weights rounded to float16, arithmetic in float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._packed = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        self._apply = torch.ops.quantized.linear_dynamic_fp16.default
        self.num_bytes = weight.nbytes // 2 + _bytes(bias)

    def __call__(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self._apply(inputs, self._packed)
        return outputs


def choose(device: torch.device, dtype: torch.dtype, form: WeightForm) -> MakeLinear:
    """The fastest way to keep weights in this form here. Without it float16 becomes float32, packed becomes plain."""
    if device.type != "cpu" or dtype != torch.float32:
        return Plain
    packed = OneDnn if _works(OneDnn) else Plain
    return partial(half_or, packed) if form == "float16" and _works(Half) else packed


def half_or(otherwise: MakeLinear, weight: Tensor, bias: Tensor | None) -> Linear:
    """Float16, unless this matrix would lose more than a rounding."""
    return (Half if survives_half(weight) else otherwise)(weight, bias)


def survives_half(weight: Tensor) -> bool:
    """Whether float16 has these weights within half a unit of its last place, taken together.

    It has not if some are out of its range, or if most are so small that it has fewer digits for them.
    """
    half = weight.to(torch.float16)
    if not bool(half.isfinite().all()):
        return False
    lost = torch.linalg.vector_norm(half.to(torch.float32) - weight)
    return bool(lost <= torch.finfo(torch.float16).eps / 2 * torch.linalg.vector_norm(weight))


def _works(make: MakeLinear) -> bool:
    weight = torch.linspace(-1, 1, 24).view(6, 4)
    bias, inputs = torch.linspace(-1, 1, 6), torch.linspace(-1, 1, 12).view(3, 4)
    try:
        difference = make(weight, bias)(inputs) - linear(inputs, weight, bias)
    except (RuntimeError, AttributeError, TypeError):  # not built in, renamed, or with other arguments
        return False
    return bool(difference.abs().max() < TOLERANCE)


def _bytes(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.nbytes
