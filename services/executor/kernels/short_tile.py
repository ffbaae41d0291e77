"""The tile of matrix multiplication in 16-bit integers: rows in block fixed point by a panel of unpacked weights.

    C (rows x PANEL)  =  sum over groups of  (integers of A @ integers of B) * scales + minima * sums of A

or added to what C holds. A group's sum is of int32 and exact; C is float32 and stays in registers. Knows the layouts of
a group of either side, which `shorts.py` describes. Emits nothing on processors without these instructions.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from services.executor.kernels.pairs import SHORTS
from services.executor.kernels.tile import PANEL
from services.executor.kernels.vector import BYTES, LANES

SHORT_ROWS = 6  # with PANEL columns, what the registers hold: integers and floats
WORDS = 16  # pairs of a group
ROW_GROUP_BYTES = 128
SCALE, SUM = 4 * WORDS, 4 * WORDS + 4  # in a row's group
SCALES = WORDS * PANEL * 4  # in a panel's group
MINIMA = SCALES + PANEL * 4
GROUP_BYTES = MINIMA + PANEL * 4

_I8, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
_INTS, _FLOATS = ir.VectorType(_I32, LANES), ir.VectorType(_F32, LANES)


@intrinsic
def multiply_pairs(
    typing: Any, a: Any, a_stride: Any, b: Any, groups: Any, c: Any, c_stride: Any, rows: Any, adds: Any
) -> Any:
    """One tile.

    Args:
        a: address of rows in block fixed point; `a_stride` bytes from row to row.
        b: address of `groups` unpacked groups of a panel.
        c: address of float32 rows.
        rows: 1 to SHORT_ROWS.
        adds: whether to add to what C holds.
    """

    def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        *operands, row_count, adding = args
        done = builder.append_basic_block("done")
        switch = builder.switch(row_count, done)
        for rows in range(1, SHORT_ROWS + 1 if SHORTS else 1):
            block = builder.append_basic_block(f"rows{rows}")
            switch.add_case(ir.Constant(_I64, rows), block)
            builder.position_at_end(block)
            builder.call(_tile_function(builder.module, rows), [*operands, adding])
            builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 8), make


def _tile_function(module: ir.Module, rows: int) -> ir.Function:
    name = f"sapwood.short_tile.{rows}"
    found = module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_I64] * 7), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    _Tile(function, rows).write()
    return function


class _Tile:
    """Writes the function of one number of rows: entry, loop over groups, exit."""

    def __init__(self, function: ir.Function, rows: int) -> None:
        self._a, self._a_stride, self._b, self._groups, self._c, self._c_stride, self._adds = function.args
        self._rows = range(rows)
        self._entry, self._loop, self._exit = (function.append_basic_block(name) for name in ("entry", "loop", "exit"))
        self._builder = ir.IRBuilder(self._entry)

    def write(self) -> None:
        builder = self._builder
        starts, places = self._start()
        builder.branch(self._loop)
        builder.position_at_end(self._loop)
        step = builder.phi(_I64)
        sums = [builder.phi(_FLOATS) for _ in starts]
        new_sums = self._add_group(step, sums)
        next_step = builder.add(step, ir.Constant(_I64, 1))
        for phi, start, again in zip(
            [step, *sums], [ir.Constant(_I64, 0), *starts], [next_step, *new_sums], strict=True
        ):
            phi.add_incoming(start, self._entry)
            phi.add_incoming(again, self._loop)
        builder.cbranch(builder.icmp_signed("<", next_step, self._groups), self._loop, self._exit)
        builder.position_at_end(self._exit)
        for place, value in zip(places, new_sums, strict=True):
            builder.store(value, self._pointer(place), align=4)
        builder.ret_void()

    def _start(self) -> tuple[list[ir.Value], list[ir.Value]]:
        """What each sum starts from, and the address it goes to: two vectors a row."""
        builder = self._builder
        self._a_rows = [self._moved(self._a, row, self._a_stride) for row in self._rows]
        places = []
        for row in self._rows:
            left = self._moved(self._c, row, self._c_stride)
            places += [left, builder.add(left, ir.Constant(_I64, BYTES))]
        adds = builder.icmp_signed("!=", self._adds, ir.Constant(_I64, 0))
        zero = ir.Constant(_FLOATS, [0.0] * LANES)
        # Loading what is not wanted is harmless: the place is C's own.
        return [builder.select(adds, self._load(place, 0, _FLOATS), zero) for place in places], places

    def _add_group(self, step: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        builder = self._builder
        group = builder.add(self._b, builder.mul(step, ir.Constant(_I64, GROUP_BYTES)))
        offset = builder.mul(step, ir.Constant(_I64, ROW_GROUP_BYTES))
        rows = [builder.add(row, offset) for row in self._a_rows]
        integers = self._products(group, rows)
        scales, minima = (
            [self._load(group, at + half * BYTES, _FLOATS) for half in range(2)] for at in (SCALES, MINIMA)
        )
        results = []
        for number, row in enumerate(rows):
            scale, total = (self._splat(self._load(row, at, _F32)) for at in (SCALE, SUM))
            for half in range(2):
                product = builder.sitofp(integers[2 * number + half], _FLOATS)
                result = self._fma(product, builder.fmul(scales[half], scale), sums[2 * number + half])
                results.append(self._fma(minima[half], total, result))
        return results

    def _products(self, group: ir.Value, rows: list[ir.Value]) -> list[ir.Value]:
        """Of a group's integers: two vectors a row."""
        results: list[ir.Value] = [ir.Constant(_INTS, [0] * LANES)] * (2 * len(rows))
        for word in range(WORDS):
            columns = [self._load(group, word * PANEL * 4 + half * BYTES, _INTS) for half in range(2)]
            for number, row in enumerate(rows):
                pair = self._splat(self._load(row, 4 * word, _I32))
                for half in range(2):
                    results[2 * number + half] = self._dot(results[2 * number + half], columns[half], pair)
        return results

    def _moved(self, base: ir.Value, row: int, stride: ir.Value) -> ir.Value:
        return self._builder.add(base, self._builder.mul(ir.Constant(_I64, row), stride))

    def _pointer(self, address: ir.Value) -> ir.Value:
        return self._builder.inttoptr(address, ir.PointerType())

    def _load(self, address: ir.Value, offset: int, kind: ir.Type) -> ir.Value:
        place = self._builder.gep(self._pointer(address), [ir.Constant(_I64, offset)], source_etype=_I8)
        return self._builder.load(place, align=4, typ=kind)

    def _splat(self, scalar: ir.Value) -> ir.Value:
        undefined = ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined)
        one = self._builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
        return self._builder.shuffle_vector(one, undefined, ir.Constant(_INTS, [0] * LANES))

    def _fma(self, left: ir.Value, right: ir.Value, more: ir.Value) -> ir.Value:
        return self._call(f"llvm.fma.v{LANES}f32", _FLOATS, left, right, more)

    def _dot(self, more: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        return self._call("llvm.x86.avx512.vpdpwssd.512", _INTS, more, left, right)

    def _call(self, name: str, kind: ir.Type, *arguments: ir.Value) -> ir.Value:
        function = ir.FunctionType(kind, [kind] * len(arguments))
        return self._builder.call(cgutils.get_or_insert_function(self._builder.module, function, name), arguments)
