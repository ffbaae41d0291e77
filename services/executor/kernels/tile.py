"""The one tile of matrix multiplication that everything heavy here is made of: linear layers and attention.

    C (rows x PANEL)  =  A (rows x inner) @ B (inner x PANEL)          or added to what C holds

All float32. The tile of C stays in registers while the sum runs over `inner`. (Goto, van de Geijn: Anatomy of
High-Performance Matrix Multiplication, ACM TOMS 2008)
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from services.executor.kernels.vector import BYTES, LANES

PANEL = 2 * LANES
TILE_ROWS = 12 if LANES == 16 else 6  # with PANEL columns, what the registers hold

_I8, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
_VECTOR = ir.VectorType(_F32, LANES)
_POINTER = ir.PointerType()


@intrinsic
def multiply(
    typing: Any, a: Any, a_stride: Any, b: Any, b_stride: Any, inner: Any, c: Any, c_stride: Any, rows: Any, adds: Any
) -> Any:
    """One tile.

    Args:
        a, b, c: addresses of float32; a row of A is contiguous, and so are PANEL columns of a row of B and of C.
        a_stride, b_stride, c_stride: bytes from row to row.
        rows: 1 to TILE_ROWS.
        adds: whether to add to what C holds.
    """

    def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        *operands, row_count, adding = args
        done = builder.append_basic_block("done")
        switch = builder.switch(row_count, done)
        for rows in range(1, TILE_ROWS + 1):
            block = builder.append_basic_block(f"rows{rows}")
            switch.add_case(ir.Constant(_I64, rows), block)
            builder.position_at_end(block)
            builder.call(_tile_function(builder.module, rows), [*operands, adding])
            builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    number = types.int64
    return types.void(*[number] * 9), make


def _tile_function(module: ir.Module, rows: int) -> ir.Function:
    name = f"sapwood.tile.{rows}"
    found = module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_I64] * 8), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    _Tile(function, rows).write()
    return function


class _Tile:
    """Writes the function of one number of rows: entry, loop over `inner`, exit."""

    def __init__(self, function: ir.Function, rows: int) -> None:
        self._a, self._a_stride, self._b, self._b_stride, self._inner, self._c, self._c_stride, self._adds = (
            function.args
        )
        self._rows = rows
        self._entry, self._loop, self._exit = (function.append_basic_block(name) for name in ("entry", "loop", "exit"))
        self._builder = ir.IRBuilder(self._entry)

    def write(self) -> None:
        builder = self._builder
        starts, c_places = self._start()
        builder.branch(self._loop)
        builder.position_at_end(self._loop)
        step = builder.phi(_I64)
        sums = [builder.phi(_VECTOR) for _ in starts]
        new_sums = self._add_products(step, sums)
        next_step = builder.add(step, ir.Constant(_I64, 1))
        for phi, start, again in zip(
            [step, *sums], [ir.Constant(_I64, 0), *starts], [next_step, *new_sums], strict=True
        ):
            phi.add_incoming(start, self._entry)
            phi.add_incoming(again, self._loop)
        builder.cbranch(builder.icmp_signed("<", next_step, self._inner), self._loop, self._exit)
        builder.position_at_end(self._exit)
        for place, value in zip(c_places, new_sums, strict=True):
            builder.store(value, place, align=4)
        builder.ret_void()

    def _start(self) -> tuple[list[ir.Value], list[ir.Value]]:
        """What each sum starts from, and where it goes: two vectors a row."""
        builder = self._builder
        self._a_rows = [self._place(self._a, row, self._a_stride) for row in range(self._rows)]
        places = []
        for row in range(self._rows):
            left = self._place(self._c, row, self._c_stride)
            places += [left, builder.gep(left, [ir.Constant(_I64, BYTES)], source_etype=_I8)]
        adds = builder.icmp_signed("!=", self._adds, ir.Constant(_I64, 0))
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        # Loading what is not wanted is harmless: the place is C's own.
        starts = [builder.select(adds, builder.load(place, align=4, typ=_VECTOR), zero) for place in places]
        return starts, places

    def _add_products(self, step: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        builder = self._builder
        b_row = builder.inttoptr(builder.add(self._b, builder.mul(step, self._b_stride)), _POINTER)
        columns = [
            builder.load(builder.gep(b_row, [ir.Constant(_I64, half * BYTES)], source_etype=_I8), align=4, typ=_VECTOR)
            for half in range(2)
        ]
        results = []
        for row in range(self._rows):
            scalar = builder.load(builder.gep(self._a_rows[row], [step], source_etype=_F32), align=4, typ=_F32)
            spread = self._splat(scalar)
            results += [self._fma(spread, columns[half], sums[2 * row + half]) for half in range(2)]
        return results

    def _place(self, base: ir.Value, row: int, stride: ir.Value) -> ir.Value:
        builder = self._builder
        return builder.inttoptr(builder.add(base, builder.mul(ir.Constant(_I64, row), stride)), _POINTER)

    def _splat(self, scalar: ir.Value) -> ir.Value:
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        one = self._builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
        return self._builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))

    def _fma(self, left: ir.Value, right: ir.Value, more: ir.Value) -> ir.Value:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        function = cgutils.get_or_insert_function(self._builder.module, kind, f"llvm.fma.v{LANES}f32")
        return self._builder.call(function, [left, right, more])
