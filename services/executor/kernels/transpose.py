"""Square blocks of vectors turned on their diagonal, in registers, on the way from one memory to another.

Knows where the block's rows are from a table. Knows nothing of what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from services.executor.kernels.vector import LANES

_I8, _I16, _I32, _I64 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_FLOATS, _INTS = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(_I32, LANES)
_Loader = Callable[[ir.IRBuilder, ir.Value], ir.Value]


def floats(builder: ir.IRBuilder, place: ir.Value) -> ir.Value:
    return builder.load(place, align=4, typ=_FLOATS)


def halves(builder: ir.IRBuilder, place: ir.Value) -> ir.Value:
    return builder.fpext(builder.load(place, align=2, typ=ir.VectorType(ir.HalfType(), LANES)), _FLOATS)


def bfloats(builder: ir.IRBuilder, place: ir.Value) -> ir.Value:
    wide = builder.zext(builder.load(place, align=2, typ=ir.VectorType(_I16, LANES)), _INTS)
    return builder.bitcast(builder.shl(wide, ir.Constant(_INTS, [16] * LANES)), _FLOATS)


def _transposing(load: _Loader) -> Any:
    @intrinsic
    def transpose(typing: Any, table: Any, base: Any, target: Any, stride: Any) -> Any:
        """LANES rows of LANES elements become LANES columns, in float32.

        Args:
            table: address of LANES int64: where each row is, in bytes from `base`.
            target, stride: address of the result's first row, and bytes from row to row.
        """

        def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
            table, base, target, stride = args
            rows = [load(builder, _at(builder, base, _entry(builder, table, row))) for row in range(LANES)]
            for row, vector in enumerate(_transposed(builder, rows)):
                offset = builder.mul(stride, ir.Constant(_I64, row))
                builder.store(vector, _at(builder, target, offset), align=4)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), make

    return transpose


transpose = _transposing(floats)
transpose_half = _transposing(halves)
transpose_bfloat = _transposing(bfloats)


def _transposed(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """Swaps the blocks beside the diagonal: halves of the whole, then of each quarter, down to single elements."""
    block = LANES // 2
    while block:
        lower = [lane if not lane & block else LANES + lane - block for lane in range(LANES)]
        upper = [lane + block if not lane & block else LANES + lane for lane in range(LANES)]
        swapped = list(rows)
        for row in range(LANES):
            if not row & block:
                pair = rows[row], rows[row + block]
                swapped[row] = builder.shuffle_vector(*pair, ir.Constant(_INTS, lower))
                swapped[row + block] = builder.shuffle_vector(*pair, ir.Constant(_INTS, upper))
        rows, block = swapped, block // 2
    return rows


def _entry(builder: ir.IRBuilder, table: ir.Value, row: int) -> ir.Value:
    place = _at(builder, table, ir.Constant(_I64, 8 * row))
    return builder.load(place, align=8, typ=_I64)


def _at(builder: ir.IRBuilder, base: ir.Value, offset: ir.Value) -> ir.Value:
    return builder.inttoptr(builder.add(base, offset), ir.PointerType())
