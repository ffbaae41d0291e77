"""SIMD vectors of float32 and raw memory for functions that numba compiles.

Knows LLVM's vector types. A vector has LANES float32; LLVM maps it to whatever registers the processor has. Memory is
addressed by plain integers, in bytes: nothing checks them. The names here stand for single instructions, or a few.
"""

from __future__ import annotations

import platform
from typing import Any

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

FEATURES = frozenset((numba.config.CPU_FEATURES or binding.get_host_cpu_features().flatten()).split(","))
LANES = 16 if "+avx512f" in FEATURES else 8
NEEDED = {"x86_64": ("avx2", "fma", "f16c"), "AMD64": ("avx2", "fma", "f16c"), "aarch64": (), "arm64": ()}
BYTES = 4 * LANES

_FLOAT, _HALF, _BYTE, _INT, _LONG = ir.FloatType(), ir.HalfType(), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_SHORT = ir.IntType(16)


def processor_lacks() -> list[str]:
    """What the kernels need and this processor has not; without it they would be slow, or not run at all."""
    needed = NEEDED.get(platform.machine())
    return [platform.machine()] if needed is None else [name for name in needed if f"+{name}" not in FEATURES]


def _of(element: ir.Type) -> ir.VectorType:
    return ir.VectorType(element, LANES)


class Vector(types.Type):
    """LANES elements in registers."""

    def __init__(self, name: str, element: ir.Type) -> None:
        super().__init__(name=f"Vector({name} x {LANES})")
        self.element = element


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, _of(vector.element))


F32 = Vector("float32", _FLOAT)
U8 = Vector("uint8", _BYTE)


def _pointer(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.inttoptr(address, ir.PointerType())


def _load(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type, align: int) -> ir.Value:
    return builder.load(_pointer(builder, address), align=align, typ=kind)


def _store(builder: ir.IRBuilder, address: ir.Value, value: ir.Value, align: int) -> None:
    builder.store(value, _pointer(builder, address), align=align)


def _splat(builder: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    vector = _of(scalar.type)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(_INT, 0))
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), ir.Constant(_of(_INT), [0] * LANES))


def _constant(element: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(_of(element), [value] * LANES)


def _call(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """An intrinsic function of LLVM."""
    function = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), arguments)


# --- memory ----------------------------------------------------------------------------------------------------------


@intrinsic
def load(typing: Any, address: Any) -> Any:
    """LANES float32 from memory."""
    return F32(types.int64), lambda _c, builder, _s, args: _load(builder, args[0], _of(_FLOAT), 4)


@intrinsic
def load_half(typing: Any, address: Any) -> Any:
    """LANES float16 from memory, as float32."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return builder.fpext(_load(builder, args[0], _of(_HALF), 2), _of(_FLOAT))

    return F32(types.int64), make


@intrinsic
def load_bfloat(typing: Any, address: Any) -> Any:
    """LANES bfloat16 from memory, as float32."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        wide = builder.zext(_load(builder, args[0], _of(_SHORT), 2), _of(_INT))
        return builder.bitcast(builder.shl(wide, _constant(_INT, 16)), _of(_FLOAT))

    return F32(types.int64), make


@intrinsic
def load_int8(typing: Any, address: Any) -> Any:
    """LANES int8 from memory, as float32."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        wide = builder.sext(_load(builder, args[0], _of(_BYTE), 1), _of(_INT))
        return builder.sitofp(wide, _of(_FLOAT))

    return F32(types.int64), make


@intrinsic
def load_bytes(typing: Any, address: Any) -> Any:
    """LANES uint8 from memory: pairs of 4-bit numbers."""
    return U8(types.int64), lambda _c, builder, _s, args: _load(builder, args[0], _of(_BYTE), 1)


@intrinsic
def low_bits(typing: Any, pairs: Any) -> Any:
    """The low 4 bits of each byte, as float32."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        wide = builder.zext(args[0], _of(_INT))
        return builder.sitofp(builder.and_(wide, _constant(_INT, 15)), _of(_FLOAT))

    return F32(U8), make


@intrinsic
def high_bits(typing: Any, pairs: Any) -> Any:
    """The high 4 bits of each byte, as float32."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        wide = builder.zext(args[0], _of(_INT))
        return builder.sitofp(builder.lshr(wide, _constant(_INT, 4)), _of(_FLOAT))

    return F32(U8), make


@intrinsic
def store(typing: Any, address: Any, vector: Any) -> Any:
    def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        _store(builder, args[0], args[1], 4)
        return context.get_dummy_value()

    return types.void(types.int64, F32), make


@intrinsic
def store_half(typing: Any, address: Any, vector: Any) -> Any:
    """As float16, rounded to nearest."""

    def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        _store(builder, args[0], builder.fptrunc(args[1], _of(_HALF)), 2)
        return context.get_dummy_value()

    return types.void(types.int64, F32), make


@intrinsic
def store_bfloat(typing: Any, address: Any, vector: Any) -> Any:
    """As bfloat16, rounded to nearest, ties to even."""

    def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        bits = builder.bitcast(args[1], _of(_INT))
        odd = builder.and_(builder.lshr(bits, _constant(_INT, 16)), _constant(_INT, 1))
        rounded = builder.add(bits, builder.add(odd, _constant(_INT, 0x7FFF)))
        _store(builder, args[0], builder.trunc(builder.lshr(rounded, _constant(_INT, 16)), _of(_SHORT)), 2)
        return context.get_dummy_value()

    return types.void(types.int64, F32), make


@intrinsic
def splat_at(typing: Any, address: Any) -> Any:
    """One float32 from memory in all lanes."""
    return F32(types.int64), lambda _c, builder, _s, args: _splat(builder, _load(builder, args[0], _FLOAT, 4))


@intrinsic
def get(typing: Any, address: Any) -> Any:
    """One float32 from memory."""
    return types.float32(types.int64), lambda _c, builder, _s, args: _load(builder, args[0], _FLOAT, 4)


@intrinsic
def put(typing: Any, address: Any, value: Any) -> Any:
    """One float32 to memory."""

    def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        _store(builder, args[0], args[1], 4)
        return context.get_dummy_value()

    return types.void(types.int64, types.float32), make


@intrinsic
def get_int(typing: Any, address: Any) -> Any:
    """One int32 from memory."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return builder.sext(_load(builder, args[0], _INT, 4), _LONG)

    return types.int64(types.int64), make


@intrinsic
def get_long(typing: Any, address: Any) -> Any:
    """One int64 from memory."""
    return types.int64(types.int64), lambda _c, builder, _s, args: _load(builder, args[0], _LONG, 8)


@intrinsic
def prefetch(typing: Any, address: Any) -> Any:
    """Ask for a cache line that will be read soon."""

    def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        void = ir.VoidType()
        hints = [ir.Constant(_INT, hint) for hint in (0, 3, 1)]  # read, keep, data
        _call(builder, "llvm.prefetch.p0", void, _pointer(builder, args[0]), *hints)
        return context.get_dummy_value()

    return types.void(types.int64), make


@intrinsic
def put_long(typing: Any, address: Any, value: Any) -> Any:
    """One int64 to memory."""

    def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        _store(builder, args[0], args[1], 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), make


# --- arithmetic ------------------------------------------------------------------------------------------------------


@intrinsic
def splat(typing: Any, scalar: Any) -> Any:
    return F32(types.float32), lambda _c, builder, _s, args: _splat(builder, args[0])


@intrinsic
def add(typing: Any, left: Any, right: Any) -> Any:
    return F32(F32, F32), lambda _c, builder, _s, args: builder.fadd(*args)


@intrinsic
def sub(typing: Any, left: Any, right: Any) -> Any:
    return F32(F32, F32), lambda _c, builder, _s, args: builder.fsub(*args)


@intrinsic
def mul(typing: Any, left: Any, right: Any) -> Any:
    return F32(F32, F32), lambda _c, builder, _s, args: builder.fmul(*args)


@intrinsic
def div(typing: Any, left: Any, right: Any) -> Any:
    return F32(F32, F32), lambda _c, builder, _s, args: builder.fdiv(*args)


@intrinsic
def fma(typing: Any, left: Any, right: Any, more: Any) -> Any:
    """left * right + more, rounded once."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return _call(builder, f"llvm.fma.v{LANES}f32", _of(_FLOAT), *args)

    return F32(F32, F32, F32), make


@intrinsic
def larger(typing: Any, left: Any, right: Any) -> Any:
    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return F32(F32, F32), make


@intrinsic
def total(typing: Any, vector: Any) -> Any:
    """The sum of all lanes."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        return _fold(builder, args[0], builder.fadd)

    return types.float32(F32), make


@intrinsic
def largest(typing: Any, vector: Any) -> Any:
    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        def maximum(left: ir.Value, right: ir.Value) -> ir.Value:
            return builder.select(builder.fcmp_ordered(">", left, right), left, right)

        return _fold(builder, args[0], maximum)

    return types.float32(F32), make


@intrinsic
def exceeds(typing: Any, vector: Any, bound: Any) -> Any:
    """Whether any lane is larger than a number."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        larger = builder.fcmp_ordered(">", args[0], _splat(builder, args[1]))
        bits = ir.IntType(LANES)
        return builder.icmp_unsigned("!=", builder.bitcast(larger, bits), ir.Constant(bits, 0))

    return types.boolean(F32, types.float32), make


def _fold(builder: ir.IRBuilder, vector: ir.Value, combine: Any) -> ir.Value:
    """Halves upon halves, until one lane is left."""
    lanes = LANES
    while lanes > 1:
        lanes //= 2
        undefined = ir.Constant(vector.type, ir.Undefined)
        halves = [
            builder.shuffle_vector(
                vector, undefined, ir.Constant(ir.VectorType(_INT, lanes), list(range(start, start + lanes)))
            )
            for start in (0, lanes)
        ]
        vector = combine(*halves)
    return builder.extract_element(vector, ir.Constant(_INT, 0))


_EXP = (1.8775767e-3, 8.9893397e-3, 5.5826318e-2, 2.4015361e-1, 6.9315308e-1, 9.9999994e-1)  # of 2^f, f in [0, 1)


@intrinsic
def exp(typing: Any, vector: Any) -> Any:
    """e to the power of each lane, to about 2e-7 of its size; below -87 it is that of -87."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        lowest, highest = _constant(_FLOAT, -87.0), _constant(_FLOAT, 88.0)
        clamped = builder.select(builder.fcmp_ordered(">", args[0], lowest), args[0], lowest)
        clamped = builder.select(builder.fcmp_ordered("<", clamped, highest), clamped, highest)
        return _power_of_two(builder, builder.fmul(clamped, _constant(_FLOAT, 1.4426950408889634)))

    return F32(F32), make


@intrinsic
def exp2(typing: Any, vector: Any) -> Any:
    """2 to the power of each lane, to about 2e-7 of its size; below -126 it is that of -126."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        lowest = _constant(_FLOAT, -126.0)
        return _power_of_two(builder, builder.select(builder.fcmp_ordered(">", args[0], lowest), args[0], lowest))

    return F32(F32), make


def _power_of_two(builder: ir.IRBuilder, power: ir.Value) -> ir.Value:
    """2^whole is put into the exponent's bits; 2^fraction is a polynomial (minimax, of degree 5)."""
    whole = _call(builder, f"llvm.floor.v{LANES}f32", _of(_FLOAT), power)
    fraction = builder.fsub(power, whole)
    result: ir.Value = _constant(_FLOAT, _EXP[0])
    for coefficient in _EXP[1:]:
        more = _constant(_FLOAT, coefficient)
        result = _call(builder, f"llvm.fma.v{LANES}f32", _of(_FLOAT), result, fraction, more)
    exponent = builder.add(builder.fptosi(whole, _of(_INT)), _constant(_INT, 127))
    scale = builder.bitcast(builder.shl(exponent, _constant(_INT, 23)), _of(_FLOAT))
    return builder.fmul(result, scale)


# --- between threads -------------------------------------------------------------------------------------------------


@intrinsic
def fetch_add(typing: Any, address: Any, amount: Any) -> Any:
    """Add to an int64 in memory that all threads see; what it was before."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        pointer = builder.inttoptr(args[0], _LONG.as_pointer())
        return builder.atomic_rmw("add", pointer, args[1], "seq_cst")

    return types.int64(types.int64, types.int64), make


@intrinsic
def shared_get(typing: Any, address: Any) -> Any:
    """An int64 that another thread may just have changed."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        pointer = builder.inttoptr(args[0], _LONG.as_pointer())
        return builder.load_atomic(pointer, "seq_cst", 8)

    return types.int64(types.int64), make


@intrinsic
def shared_put(typing: Any, address: Any, value: Any) -> Any:
    def make(context: Any, builder: Any, _signature: Any, args: Any) -> ir.Value:
        pointer = builder.inttoptr(args[0], _LONG.as_pointer())
        builder.store_atomic(args[1], pointer, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), make


def compiled(function: Any) -> Any:
    """As numba compiles it for the step: without the GIL, kept on disk, summing in any order."""
    return numba.njit(nogil=True, cache=True, fastmath=True, boundscheck=False, error_model="numpy")(function)
