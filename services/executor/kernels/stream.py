"""Few queries over rows of the pool, read in place: scores of neighbouring tokens, and weighted sums of values.

Knows where rows are from a table of places. Does not know what is shared, seen or summed up before.

The rows of some tokens are read side by side, a vector of each, and multiplied with every query; sums stay in
registers. The lanes of several sums are added up together, by adding and turning in one. Written out for each number
of queries and each type of the pool.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from services.executor.kernels.transpose import bfloats, floats, halves
from services.executor.kernels.vector import LANES

FEW = 4  # queries at most
LINE = 64  # bytes
SUMS = 24 if LANES == 16 else 12  # that the registers hold beside the rest

_I8, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
_VECTOR = ir.VectorType(_F32, LANES)
_POINTER = ir.PointerType()
_LOADERS = (floats, halves, bfloats)  # by PackedKind
_SIZES = (4, 2, 2)


@intrinsic
def score_rows(
    typing: Any,
    kind: Any,
    count: Any,
    tokens: Any,
    head_dim: Any,
    table: Any,
    keys: Any,
    next_table: Any,
    next_rows: Any,
    queries: Any,
    query_stride: Any,
    scores: Any,
    score_stride: Any,
) -> Any:
    """The products of each query with each key.

    Args:
        kind: of the rows: a PackedKind, float32, float16 or bfloat16.
        count: of queries, 1 to FEW.
        tokens: a multiple of LANES.
        table: address of int64: where each token's row is, in bytes from `keys`.
        next_table, next_rows: as many rows that are read soon, and are asked for meanwhile.
        queries, scores: addresses of float32; strides in bytes from query to query.
    """
    return types.void(*[types.int64] * 12), _choosing("score", _Scores)


@intrinsic
def add_rows(
    typing: Any,
    kind: Any,
    count: Any,
    tokens: Any,
    head_dim: Any,
    table: Any,
    values: Any,
    next_table: Any,
    next_rows: Any,
    weights: Any,
    weight_stride: Any,
    outputs: Any,
    output_stride: Any,
) -> Any:
    """To each query's output, the values by its weights; of at least one token, else as with scores."""
    return types.void(*[types.int64] * 12), _choosing("add", _Values)


def _choosing(name: str, writer: type[_Rows]) -> Any:
    def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        kind, count, *operands = args
        done = builder.append_basic_block("done")
        number = builder.add(builder.mul(kind, ir.Constant(_I64, FEW)), count)
        switch = builder.switch(number, done)
        for case in range(len(_LOADERS) * FEW):
            block = builder.append_basic_block(f"case{case}")
            switch.add_case(ir.Constant(_I64, case + 1), block)
            builder.position_at_end(block)
            builder.call(_function(builder.module, name, writer, case // FEW, case % FEW + 1), operands)
            builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return make


def _function(module: ir.Module, name: str, writer: type[_Rows], kind: int, count: int) -> ir.Function:
    name = f"sapwood.stream.{name}.{kind}.{count}"
    found = module.globals.get(name)
    if found is not None:
        return found
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_I64] * 10), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    writer(function, kind, count).write()
    return function


class _Rows:
    """What both functions are written with; the x are queries or weights, the y scores or outputs."""

    def __init__(self, function: ir.Function, kind: int, count: int) -> None:
        self._function, self._count = function, count
        self._tokens, self._head_dim, self._table, self._base, self._next_table, self._next_rows = function.args[:6]
        self._x, self._x_stride, self._y, self._y_stride = function.args[6:]
        self._load, self._size = _LOADERS[kind], _SIZES[kind]
        self._builder = ir.IRBuilder(function.append_basic_block("entry"))

    def write(self) -> None:
        raise NotImplementedError

    def _row(self, token: ir.Value, table: ir.Value, base: ir.Value) -> ir.Value:
        """The address of a token's row."""
        builder = self._builder
        place = builder.gep(self._pointer(table), [token], source_etype=_I64)
        return builder.add(base, builder.load(place, align=8, typ=_I64))

    def _ask(self, row: ir.Value, dim: ir.Value) -> None:
        builder = self._builder
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        hints = [ir.Constant(_I32, hint) for hint in (0, 2, 1)]  # read; into the second-level cache; data
        builder.call(function, [self._at(row, dim, self._size), *hints])

    def _at(self, base: ir.Value, index: ir.Value, size: int) -> ir.Value:
        return self._pointer(self._builder.add(base, self._builder.mul(index, ir.Constant(_I64, size))))

    def _strided(self, base: ir.Value, number: int, stride: ir.Value) -> ir.Value:
        return self._builder.add(base, self._builder.mul(stride, ir.Constant(_I64, number)))

    def _pointer(self, address: ir.Value) -> ir.Value:
        return self._builder.inttoptr(address, _POINTER)

    def _fma(self, left: ir.Value, right: ir.Value, more: ir.Value) -> ir.Value:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        function = cgutils.get_or_insert_function(self._builder.module, kind, f"llvm.fma.v{LANES}f32")
        return self._builder.call(function, [left, right, more])

    def _loop(self, end: ir.Value, step: int, starts: list[ir.Value], body: Any) -> list[ir.Value]:
        """`body(index, values) -> values`, for indexes below `end`, of which there is one."""
        builder = self._builder
        before = builder.block
        loop, after = (self._function.append_basic_block(name) for name in ("loop", "after"))
        builder.branch(loop)
        builder.position_at_end(loop)
        index = builder.phi(_I64)
        values = [builder.phi(start.type) for start in starts]
        results = body(index, values)
        following = builder.add(index, ir.Constant(_I64, step))
        firsts = [ir.Constant(_I64, 0), *starts]
        for phi, first, again in zip([index, *values], firsts, [following, *results], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(again, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, end), loop, after)
        builder.position_at_end(after)
        return results


class _Scores(_Rows):
    def write(self) -> None:
        self._block = max(size for size in (1, 2, 4, 8, 16) if size <= LANES and size * self._count <= SUMS)
        self._loop(self._tokens, self._block, [], self._score_block)
        self._builder.ret_void()

    def _score_block(self, token: ir.Value, _nothing: list[ir.Value]) -> list[ir.Value]:
        builder = self._builder
        tokens = [builder.add(token, ir.Constant(_I64, number)) for number in range(self._block)]
        rows = [self._row(tokens[number], self._table, self._base) for number in range(self._block)]
        places = [self._strided(self._x, number, self._x_stride) for number in range(self._count)]

        following = [self._row(each, self._next_table, self._next_rows) for each in tokens]

        def add_products(dim: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            for row in following:
                self._ask(row, dim)
            parts = [builder.load(self._at(place, dim, 4), align=4, typ=_VECTOR) for place in places]
            added = []
            for number, row in enumerate(rows):
                key = self._load(builder, self._at(row, dim, self._size))
                own = sums[number * self._count : (number + 1) * self._count]
                added += [self._fma(part, key, each) for part, each in zip(parts, own, strict=True)]
            return added

        zeros = [ir.Constant(_VECTOR, [0.0] * LANES)] * (self._block * self._count)
        sums = self._loop(self._head_dim, LANES, zeros, add_products)
        for number in range(self._count):
            target = self._at(self._strided(self._y, number, self._y_stride), token, 4)
            builder.store(self._totals(sums[number :: self._count]), target, align=4)
        return []

    def _totals(self, vectors: list[ir.Value]) -> ir.Value:
        """The sums of each vector's lanes, as lanes."""
        builder, block = self._builder, len(vectors) // 2
        while block:
            lower = [lane if not lane & block else LANES + lane - block for lane in range(LANES)]
            upper = [lane + block if not lane & block else LANES + lane for lane in range(LANES)]
            vectors = [
                builder.fadd(
                    self._shuffle(vectors[number], vectors[number + block], lower),
                    self._shuffle(vectors[number], vectors[number + block], upper),
                    flags=["fast"],
                )
                for number in range(block)
            ]
            block //= 2
        vector, width = vectors[0], LANES
        while width > self._block:
            width //= 2
            halves = [list(range(start, start + width)) for start in (0, width)]
            vector = builder.fadd(*(self._shuffle(vector, vector, half) for half in halves))
        return vector

    def _shuffle(self, left: ir.Value, right: ir.Value, lanes: list[int]) -> ir.Value:
        return self._builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(_I32, len(lanes)), lanes))


class _Values(_Rows):
    def write(self) -> None:
        """As many columns at once as there are registers for; the last ones one vector at a time."""
        builder = self._builder
        head_dim = self._head_dim
        wide = max(size for size in (1, 2, 4) if size * self._count <= SUMS)
        step = ir.Constant(_I64, wide * LANES)
        whole = builder.mul(builder.sdiv(head_dim, step), step)
        self._columns(ir.Constant(_I64, 0), whole, wide)
        self._columns(whole, head_dim, 1)
        builder.ret_void()

    def _columns(self, first: ir.Value, end: ir.Value, wide: int) -> None:
        builder = self._builder

        def add_column(offset: ir.Value, _nothing: list[ir.Value]) -> list[ir.Value]:
            self._add_values(builder.add(first, offset), wide)
            return []

        with builder.if_then(builder.icmp_signed("<", first, end)):
            self._loop(builder.sub(end, first), wide * LANES, [], add_column)

    def _add_values(self, column: ir.Value, wide: int) -> None:
        builder = self._builder
        columns = [builder.add(column, ir.Constant(_I64, part * LANES)) for part in range(wide)]
        rows = [self._strided(self._y, number, self._y_stride) for number in range(self._count)]
        targets = [self._at(row, place, 4) for row in rows for place in columns]
        own = [self._strided(self._x, number, self._x_stride) for number in range(self._count)]

        def add_token(token: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            row = self._row(token, self._table, self._base)
            next_row = self._row(token, self._next_table, self._next_rows)
            for place in columns[:: max(1, LINE // (LANES * self._size))]:
                self._ask(next_row, place)
            parts = [self._load(builder, self._at(row, place, self._size)) for place in columns]
            added = []
            for number, place in enumerate(own):
                weight = self._splat(builder.load(self._at(place, token, 4), align=4, typ=_F32))
                before = sums[number * wide : (number + 1) * wide]
                added += [self._fma(weight, part, each) for part, each in zip(parts, before, strict=True)]
            return added

        starts = [builder.load(target, align=4, typ=_VECTOR) for target in targets]
        for target, value in zip(targets, self._loop(self._tokens, 1, starts, add_token), strict=True):
            builder.store(value, target, align=4)

    def _splat(self, scalar: ir.Value) -> ir.Value:
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        one = self._builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
        return self._builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))
