"""Vectors of int32 that hold pairs of 16-bit integers, the operands of the processor's dot products.

Knows how floats and stored weights become pairs: number k of a group of 32 in the low half of a lane or word, number
k + 16 in the high one, which is how a byte of Q4 holds them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from services.executor.kernels.vector import F32, FEATURES, LANES, Vector

SHORTS = LANES == 16 and "+avx512vnni" in FEATURES  # whether the processor multiplies pairs faster than floats

_BYTE, _INT, _FLOAT = ir.IntType(8), ir.IntType(32), ir.FloatType()
_BYTES, _INTS, _FLOATS = (ir.VectorType(element, LANES) for element in (_BYTE, _INT, _FLOAT))
PAIRS = Vector("int16 pairs", _INT)


def _all(value: int) -> ir.Constant:
    return ir.Constant(_INTS, [value] * LANES)


@intrinsic
def rounded(typing: Any, vector: Any) -> Any:
    """To whole numbers, ties to even; still float32."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        kind = ir.FunctionType(_FLOATS, [_FLOATS])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.rint.v{LANES}f32")
        return builder.call(function, args)

    return F32(F32), make


@intrinsic
def paired(typing: Any, low: Any, high: Any) -> Any:
    """Whole numbers within 16 bits as pairs."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return _joined(builder, *(builder.fptosi(arg, _INTS) for arg in args))

    return PAIRS(F32, F32), make


def split_nibbles(builder: ir.IRBuilder, numbers: ir.Value) -> ir.Value:
    """The two 4-bit numbers of each byte."""
    wide = builder.zext(numbers, _INTS)
    return builder.and_(builder.or_(wide, builder.shl(wide, _all(12))), _all(0x000F000F))


def join_int8(builder: ir.IRBuilder, low: ir.Value, high: ir.Value) -> ir.Value:
    return _joined(builder, builder.sext(low, _INTS), builder.sext(high, _INTS))


def _joined(builder: ir.IRBuilder, low: ir.Value, high: ir.Value) -> ir.Value:
    return builder.or_(builder.and_(low, _all(0xFFFF)), builder.shl(high, _all(16)))


@intrinsic
def store_pairs(typing: Any, address: Any, pairs: Any) -> Any:
    def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        builder.store(args[1], builder.inttoptr(args[0], ir.PointerType()), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, PAIRS), make
