"""The tile of matrix multiplication in 16-bit integers: rows in block fixed point by a panel of weights.

    C (rows x PANEL)  =  sum over groups of  (integers of A @ integers of B) * scales + minima * sums of A

or added to what C holds. A group's sum is of int32 and exact; C is float32 and stays in registers. Knows the layouts of
a group of either side (`shorts.py`, `packing.py`). Emits nothing on processors without these instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from services.executor.kernels.linear import Q4, Q8
from services.executor.kernels.pairs import SHORTS, join_int8, split_nibbles
from services.executor.kernels.tile import PANEL
from services.executor.kernels.vector import BYTES, LANES

SHORT_ROWS = 8  # with PANEL columns, what the registers hold: integers and floats
WORDS = 16  # pairs of a group
UNROLLED = 8  # pairs, by rows
ROW_GROUP_BYTES = 128
SCALE, SUM = 4 * WORDS, 4 * WORDS + 4  # in a row's group

_I8, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
_BYTES, _HALFS, _INTS, _FLOATS = (ir.VectorType(element, LANES) for element in (_I8, ir.HalfType(), _I32, _F32))


_Body: TypeAlias = Callable[[ir.Value, list[ir.Value]], list[ir.Value]]


@dataclass(frozen=True, slots=True)
class _Form:
    """Where things are in a group of a panel, in bytes. Its scales come first."""

    minima: int | None
    numbers: int
    group_bytes: int


_FORMS = {
    Q8: _Form(None, PANEL * 2, PANEL * 34),
    Q4: _Form(PANEL * 2, PANEL * 4, PANEL * 20),
}


@intrinsic
def multiply_pairs(
    typing: Any, kind: Any, a: Any, a_stride: Any, b: Any, groups: Any, c: Any, c_stride: Any, rows: Any, adds: Any
) -> Any:
    """One tile.

    Args:
        kind: of B, Q8 or Q4.
        a: address of rows in block fixed point; `a_stride` bytes from row to row.
        b: address of `groups` groups of a packed panel.
        c: address of float32 rows.
        rows: 1 to SHORT_ROWS.
        adds: whether to add to what C holds.
    """

    def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        kind, *operands, row_count, adding = args
        done = builder.append_basic_block("done")
        number = builder.add(builder.mul(kind, ir.Constant(_I64, SHORT_ROWS + 1)), row_count)
        switch = builder.switch(number, done)
        for form, rows in product(_FORMS, range(1, SHORT_ROWS + 1)) if SHORTS else ():
            block = builder.append_basic_block(f"form{form}_rows{rows}")
            switch.add_case(ir.Constant(_I64, form * (SHORT_ROWS + 1) + rows), block)
            builder.position_at_end(block)
            builder.call(_tile_function(builder.module, form, rows), [*operands, adding])
            builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 9), make


def _tile_function(module: ir.Module, kind: int, rows: int) -> ir.Function:
    name = f"sapwood.short_tile.{kind}.{rows}"
    found = module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_I64] * 7), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    _Tile(function, kind, rows).write()
    return function


class _Tile:
    """Writes the function of one form and number of rows: entry, loop over groups, exit."""

    def __init__(self, function: ir.Function, kind: int, rows: int) -> None:
        self._a, self._a_stride, self._b, self._groups, self._c, self._c_stride, self._adds = function.args
        self._form = _FORMS[kind]
        self._rows = range(rows)
        self._builder = ir.IRBuilder(function.append_basic_block("entry"))

    def write(self) -> None:
        builder = self._builder
        starts, places = self._start()
        sums = self._repeat("group", self._groups, starts, self._add_group)
        for place, value in zip(places, sums, strict=True):
            builder.store(value, self._pointer(place), align=4)
        builder.ret_void()

    def _repeat(self, name: str, turns: ir.Value, starts: list[ir.Value], body: _Body) -> list[ir.Value]:
        """A loop that makes new values of old ones; what they are at the end."""
        builder = self._builder
        before, loop, after = builder.block, builder.append_basic_block(name), builder.append_basic_block(f"{name}_end")
        builder.branch(loop)
        builder.position_at_end(loop)
        phis = [builder.phi(start.type) for start in (turns, *starts)]
        values = body(phis[0], phis[1:])
        following = builder.add(phis[0], ir.Constant(_I64, 1))
        for phi, start, again in zip(phis, [ir.Constant(_I64, 0), *starts], [following, *values], strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(again, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, turns), loop, after)
        builder.position_at_end(after)
        return values

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
        builder, form = self._builder, self._form
        group = builder.add(self._b, builder.mul(step, ir.Constant(_I64, form.group_bytes)))
        offset = builder.mul(step, ir.Constant(_I64, ROW_GROUP_BYTES))
        rows = [builder.add(row, offset) for row in self._a_rows]
        integers = self._products(group, rows)
        scales = self._floats(group, 0)
        minima = None if form.minima is None else self._floats(group, form.minima)
        results = []
        for number, row in enumerate(rows):
            scale, total = (self._splat(self._load(row, at, _F32)) for at in (SCALE, SUM))
            for half in range(2):
                exact = builder.sitofp(integers[2 * number + half], _FLOATS)
                result = self._fma(exact, builder.fmul(scales[half], scale), sums[2 * number + half])
                results.append(result if minima is None else self._fma(minima[half], total, result))
        return results

    def _products(self, group: ir.Value, rows: list[ir.Value]) -> list[ir.Value]:
        """Of a group's integers: two vectors a row. Unrolled as far as it takes to keep the processor busy."""
        at_once = next(count for count in (8, 4, 2, 1) if count * len(rows) <= UNROLLED)
        size = ir.Constant(_I64, at_once)

        def add_words(step: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            first = self._builder.mul(step, size)
            numbers = self._moved(group, PANEL, first)
            pairs = [self._moved(row, 4, first) for row in rows]
            for word in range(at_once):
                sums = self._add_word(numbers, pairs, word, sums)
            return sums

        zeros = [ir.Constant(_INTS, [0] * LANES)] * (2 * len(rows))
        return self._repeat("word", ir.Constant(_I64, WORDS // at_once), zeros, add_words)

    def _add_word(self, group: ir.Value, rows: list[ir.Value], word: int, sums: list[ir.Value]) -> list[ir.Value]:
        columns = [self._column(group, word, half) for half in range(2)]
        results = []
        for number, row in enumerate(rows):
            pair = self._splat(self._load(row, 4 * word, _I32))
            results += [self._dot(sums[2 * number + half], columns[half], pair) for half in range(2)]
        return results

    def _column(self, group: ir.Value, word: int, half: int) -> ir.Value:
        """The pairs of LANES columns of B."""
        place = self._form.numbers + word * PANEL + half * LANES
        low = self._load(group, place, _BYTES)
        if self._form == _FORMS[Q4]:
            return split_nibbles(self._builder, low)
        return join_int8(self._builder, low, self._load(group, place + WORDS * PANEL, _BYTES))

    def _floats(self, group: ir.Value, at: int) -> list[ir.Value]:
        """Scales or minima of all columns."""
        halfs = [self._load(group, at + half * 2 * LANES, _HALFS) for half in range(2)]
        return [self._builder.fpext(half, _FLOATS) for half in halfs]

    def _moved(self, base: ir.Value, row: int, stride: ir.Value) -> ir.Value:
        return self._builder.add(base, self._builder.mul(ir.Constant(_I64, row), stride))

    def _pointer(self, address: ir.Value) -> ir.Value:
        return self._builder.inttoptr(address, ir.PointerType())

    def _load(self, address: ir.Value, offset: int, kind: ir.Type) -> ir.Value:
        place = self._builder.gep(self._pointer(address), [ir.Constant(_I64, offset)], source_etype=_I8)
        return self._builder.load(place, align=1, typ=kind)

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
