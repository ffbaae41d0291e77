"""Token masks, applied to logits: what may not follow becomes minus infinity.

Knows addresses and bits. Does not know what allows a token. A mask has a bit for each token, in int32 words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from services.executor.kernels.vector import LANES, compiled, get_int, put

LONG = 8  # bytes of a row's number
_FLOAT, _INT, _BOOL = ir.FloatType(), ir.IntType(32), ir.IntType(1)
NEGATIVE_INFINITY = np.float32(-np.inf)


@intrinsic
def _store_forbidden(typing: Any, address: Any, bits: Any) -> Any:
    """Minus infinity to those of LANES float32 whose bit is 0; the others stay."""

    def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        floats, flags = ir.VectorType(_FLOAT, LANES), ir.VectorType(_BOOL, LANES)
        forbidden = builder.bitcast(builder.not_(builder.trunc(args[1], ir.IntType(LANES))), flags)
        arguments = [
            ir.Constant(floats, [float("-inf")] * LANES),
            builder.inttoptr(args[0], ir.PointerType()),
            ir.Constant(_INT, 4),
            forbidden,
        ]
        function = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
        name = f"llvm.masked.store.v{LANES}f32.p0"
        builder.call(cgutils.get_or_insert_function(builder.module, function, name), arguments)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), make


@compiled
def apply_masks(logits: int, stride: int, vocab_size: int, rows: Any, masks: int, words: int) -> None:
    """Apply the first mask to the first of these rows, and so on.

    Args:
        logits: (rows, vocab_size) float32, the rows `stride` bytes apart.
        rows: int64 array.
        masks: (masks, words) int32. Tokens beyond them are forbidden.
    """
    for index in range(len(rows)):
        row = logits + rows[index] * stride
        mask = masks + 4 * words * index
        whole = min(vocab_size // 32, words)
        for word in range(whole):
            bits = get_int(mask + 4 * word)
            if bits != -1:
                for lane in range(0, 32, LANES):
                    _store_forbidden(row + 4 * (32 * word + lane), bits >> lane)
        for token in range(32 * whole, vocab_size):
            bits = get_int(mask + 4 * (token // 32)) if token < 32 * words else 0
            if not (bits >> (token % 32)) & 1:
                put(row + 4 * token, NEGATIVE_INFINITY)
