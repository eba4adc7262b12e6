"""Matrix operations of a warp: `ldmatrix`, `mma.sync`, `mma.sp.sync`; and `rcp`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nvgpu.ops.matrix import LdMatrixOp, MmaOp
from tilewright.dialects.upstream.base.shapes import bit_width
from tilewright.gpu.architectures import BYTE_FLOAT_PRODUCTS, HALF_SUMS, ORDERED_SPARSE
from tilewright.gpu.codegen import ir
from tilewright.gpu.codegen.arith import map_parts
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value
from tilewright.gpu.codegen.math import by_element

_I4, _I8 = IntegerType(4), IntegerType(8)
#: The element types of A and B in PTX.
_PTX_TYPES: dict[Attribute, str] = {
    Float16Type(): "f16",
    BFloat16Type(): "bf16",
    Float32Type(): "tf32",
    Float64Type(): "f64",
    Float8E4M3FNType(): "e4m3",
    Float8E5M2Type(): "e5m2",
    _I8: "s8",
    _I4: "s4",
}
_ACCUMULATORS: dict[Attribute, str] = {
    Float16Type(): "f16",
    Float32Type(): "f32",
    Float64Type(): "f64",
    IntegerType(32): "s32",
}
#: Sparse products whose metadata comes from all lanes, so that there is no selector.
_WHOLE_METADATA: dict[Attribute, int] = {_I8: 64, _I4: 128}


@lowers("nvgpu.ldmatrix")
def _ldmatrix(f: Function, op: Operation) -> None:
    assert isinstance(op, LdMatrixOp)
    count = int_property(op, "numTiles")
    transposed = ".trans" if int_property(op, "transpose") else ""
    address = f.element_address(op.srcMemref, op.indices)
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{transposed}.b16.p3"
    types = [ir.I32] * count
    result = ir.I32 if count == 1 else "{ " + ", ".join(types) + " }"
    found = f.code.call(name, result, [address])
    words = [found] if count == 1 else [f.code.extract(found, ir.I32, i) for i in range(count)]
    rows = zip(words, f.types(op.res), strict=True)
    f.set(op.res, *(f.code.cast("bitcast", word, ty) for word, ty in rows))


def _registers(f: Function, value: SSAValue) -> list[Value]:
    """The registers of A or B: 32-bit registers with a row each, or 64-bit numbers."""
    assert isinstance(value.type, VectorType)
    rows = f.parts(value)
    if bit_width(value.type.element_type) == 64:
        return [f.code.element(row, ir.F64, ir.integer(ir.I32, 0)) for row in rows]
    return [f.code.cast("bitcast", row, ir.I32) for row in rows]


def _accumulator(f: Function, value: SSAValue) -> list[Value]:
    """The registers of C: with a row each for f16, else with a number each."""
    assert isinstance(value.type, VectorType)
    rows = f.parts(value)
    if bit_width(value.type.element_type) == 16:
        return [f.code.cast("bitcast", row, ir.I32) for row in rows]
    element = {"<2 x float>": ir.F32, "<2 x double>": ir.F64, "<2 x i32>": ir.I32}[rows[0].type]
    return [f.code.element(row, element, ir.integer(ir.I32, i)) for row in rows for i in range(2)]


def _set_accumulator(f: Function, value: SSAValue, registers: Sequence[Value]) -> None:
    types = f.types(value)
    if len(types) == len(registers):
        pairs = zip(registers, types, strict=True)
        f.set(value, *(f.code.cast("bitcast", word, ty) for word, ty in pairs))
        return
    rows = []
    for place, ty in enumerate(types):
        row = Value(ty, "poison")
        for i in range(2):
            row = f.code.with_element(row, registers[2 * place + i], ir.integer(ir.I32, i))
        rows.append(row)
    f.set(value, *rows)


def braces(first: int, count: int) -> str:
    """A brace-enclosed list of PTX operands: ``{$2, $3}``."""
    return "{" + ", ".join(f"${first + i}" for i in range(count)) + "}"


@lowers("nvgpu.mma.sync", "nvgpu.mma.sp.sync")
def _mma(f: Function, op: Operation) -> None:
    assert isinstance(op, MmaOp)
    a, b, c, *metadata = op.operands
    assert isinstance(a.type, VectorType) and isinstance(c.type, VectorType)
    assert isinstance(b.type, VectorType)
    element, total = a.type.element_type, _ACCUMULATORS[c.type.element_type]
    if isinstance(element, Float32Type) and op.properties.get("tf32Enabled") is None:
        raise f.refuse(
            op,
            "of f32 operands needs tf32Enabled: tensor cores use 19 bits of them",
            help="write {mmaShape = ..., tf32Enabled}",
        )
    m, n, k = op.shape
    kinds = [_PTX_TYPES[element], _PTX_TYPES[b.type.element_type]]
    if "e4m3" in kinds or "e5m2" in kinds:
        f.require(op, BYTE_FLOAT_PRODUCTS if total == "f32" else HALF_SUMS)
    for side, letter in enumerate("AB"):
        if op.properties.get(f"unsigned{letter}") is not None:
            kinds[side] = "u" + kinds[side][1:]
    saturates = total == "s32" and op.properties.get("wraps") is None
    satfinite = ".satfinite" if saturates else ""
    accumulator = _accumulator(f, c)
    groups = [_registers(f, a), _registers(f, b), accumulator]
    operands, place = [braces(0, len(accumulator))], len(accumulator)
    for group in groups:
        operands.append(braces(place, len(group)))
        place += len(group)
    given = [register for group in groups for register in group]
    stem = "mma.sync"
    if metadata:
        stem = _sparse(f, op, element, k)
        given.append(f.code.cast("bitcast", f.value(metadata[0]), ir.I32))
        operands += [f"${place}", hex(int_property(op, "sparsitySelector"))]
    text = (
        f"{stem}.aligned.m{m}n{n}k{k}.row.col{satfinite}.{total}.{'.'.join(kinds)}.{total} "
        f"{', '.join(operands)};"
    )
    result = f.code.asm(text, [register.type for register in accumulator], given, pure=True)
    _set_accumulator(f, op.results[0], result)


def _sparse(f: Function, op: MmaOp, element: Attribute, k: int) -> str:
    """The name of a sparse instruction. Raises ``TileIRError`` for a selector that it does not have."""
    if _WHOLE_METADATA.get(element) == k and int_property(op, "sparsitySelector"):
        raise f.refuse(
            op, f"has no sparsitySelector but 0 at k = {k}: every lane gives metadata there"
        )
    # From Hopper on the form without ordered metadata is slow.
    if f.unit.arch.number < 90:
        return "mma.sp.sync"
    f.require(op, ORDERED_SPARSE)
    return "mma.sp::ordered_metadata.sync"


@lowers("nvgpu.rcp")
def _rcp(f: Function, op: Operation) -> None:
    def one(a: Value) -> Value:
        return f.code.call("llvm.nvvm.rcp.approx.ftz.f", ir.F32, [a])

    map_parts(f, op, by_element(f, one))
