"""`arith`: scalars, and vectors element by element."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    FloatAttr,
    FloatTF32Type,
    IntegerAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.arith.syntax import FLOAT_PREDICATES, INTEGER_PREDICATES
from tilewright.dialects.upstream.base.shapes import element_of as element_type
from tilewright.gpu.codegen import ir, layout
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value
from tilewright.numerics.convert import written_floats
from tilewright.numerics.element_types import signed

#: The names in ``numerics`` of floats without LLVM arithmetic.
NARROW_NAMES: dict[type[Attribute], str] = {
    FloatTF32Type: "tf32",
    Float8E4M3FNType: "f8E4M3FN",
    Float8E5M2Type: "f8E5M2",
    Float8E8M0FNUType: "f8E8M0FNU",
    Float4E2M1FNType: "f4E2M1FN",
}
LLVM_FLOATS = frozenset({"half", "bfloat", "float", "double"})
_SUFFIXES = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
_VECTOR = re.compile(r"<(\d+) x ([^<>]+)>")


def element_of(ty: str) -> str:
    """The element of an LLVM vector type; a scalar type itself."""
    found = _VECTOR.fullmatch(ty)
    return found[2] if found else ty


def like(ty: str, element: str) -> str:
    """A type of the same shape with ``element`` as elements."""
    found = _VECTOR.fullmatch(ty)
    return f"<{found[1]} x {element}>" if found else element


def mangled(ty: str) -> str:
    """A type as it is spelled in the names of intrinsics."""
    found = _VECTOR.fullmatch(ty)
    element = found[2] if found else ty
    if element.startswith("ptr"):
        element = f"p{re.sub(r'[^0-9]', '', element) or 0}"
    return (f"v{found[1]}" if found else "") + _SUFFIXES.get(element, element)


def splat(value: Value, ty: str) -> Value:
    """A constant broadcast to a vector type; itself for a scalar type."""
    found = _VECTOR.fullmatch(ty)
    if not found:
        return value
    return Value(ty, "<" + ", ".join([str(value)] * int(found[1])) + ">")


def check_arithmetic(f: Function, op: Operation, *values: SSAValue) -> None:
    """Raises ``TileIRError`` (``gpu-unsupported``) for floats that can only be moved and converted."""
    for value in values:
        ty = element_type(value.type)
        if isinstance(ty, AnyFloat) and (
            isinstance(ty, FloatTF32Type) or layout.scalar(ty) not in LLVM_FLOATS
        ):
            raise f.refuse(
                op, f"is not computed for '{format_type(ty)}'", help="convert to f32 and back"
            )


def fast_flags(op: Operation) -> str:
    """The fast-math flags of an operation, as LLVM writes them before the type."""
    found = op.properties.get("fastmath")
    if not isinstance(found, arith.FastMathFlagsAttr):
        return ""
    flags = sorted(flag.value for flag in found.data)
    every = {"reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn"}
    if every <= set(flags):
        return "fast "
    return "".join(f"{flag} " for flag in flags)


def overflow_flags(op: Operation) -> str:
    """``nuw`` and ``nsw`` as LLVM writes them before operands, each followed by a space."""
    found = op.properties.get("overflowFlags") or op.properties.get("overflow_flags")
    if not isinstance(found, arith.IntegerOverflowAttr):
        return ""
    return "".join(f"{flag.value} " for flag in found.data)


def map_parts(f: Function, op: Operation, make: Callable[..., Value]) -> None:
    """Compute each part of the result from the same part of every operand."""
    rows = zip(*(f.parts(operand) for operand in op.operands), strict=True)
    f.set(op.results[0], *(make(*row) for row in rows))


# Constants


def constant_parts(f: Function, op: Operation, attribute: Attribute, ty: Attribute) -> list[Value]:
    """The parts of a constant (``layout.parts``): for a vector a value per row.

    Raises ``TileIRError`` (``gpu-unsupported``) for attributes other than numbers and dense lists of them.
    """
    types = layout.parts(ty)
    if isinstance(attribute, IntegerAttr):
        return [_number(types[0], attribute.value.data)]
    if isinstance(attribute, FloatAttr):
        return [_float_constant(f, op, ty, types[0], attribute.value.data)]
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        raise f.refuse(op, f"has a constant that cannot be compiled: {attribute}")
    found = list(attribute.get_values())
    count = sum(int(_VECTOR.fullmatch(part)[1]) for part in types)  # pyright: ignore[reportOptionalSubscript]
    if len(found) == 1:
        found *= count
    per_row = count // len(types)
    rows: list[Value] = []
    for row, part in enumerate(types):
        element = element_of(part)
        numbers = found[row * per_row : (row + 1) * per_row]
        if isinstance(element_type(ty), AnyFloat):
            values = [_float_constant(f, op, ty, element, float(n)) for n in numbers]
        else:
            values = [_number(element, n) for n in numbers]
        rows.append(Value(part, "<" + ", ".join(map(str, values)) + ">"))
    return rows


def _float_constant(f: Function, op: Operation, ty: Attribute, llvm: str, number: float) -> Value:
    """A float constant; for narrow types the bit pattern of the nearest number."""
    kind = type(element_type(ty))
    name = NARROW_NAMES.get(kind)
    if name is not None:
        made = written_floats(np.array([number]), name)
        if llvm in LLVM_FLOATS:
            return ir.floating(llvm, float(made[0]))
        return _number(llvm, int(made.view(np.uint8)[0]))
    check_arithmetic(f, op, op.results[0])
    return ir.floating(llvm, number)


def _number(ty: str, number: float) -> Value:
    """An integer constant, in the signed range of LLVM's text."""
    number = int(number)
    if ty == "i1":
        return Value(ty, "true" if number & 1 else "false")
    width = int(ty[1:])
    number &= (1 << width) - 1
    return ir.integer(ty, signed(number, width))


@lowers("arith.constant")
def _constant(f: Function, op: Operation) -> None:
    assert isinstance(op, arith.ConstantOp)
    f.set(op.result, *constant_parts(f, op, op.value, op.result.type))


@lowers("ub.poison")
def _poison(f: Function, op: Operation) -> None:
    (result,) = op.results
    f.set(result, *(Value(ty, "poison") for ty in f.types(result)))


# Integers

_INTEGERS = {
    "arith.addi": "add",
    "arith.subi": "sub",
    "arith.muli": "mul",
    "arith.divsi": "sdiv",
    "arith.divui": "udiv",
    "arith.remsi": "srem",
    "arith.remui": "urem",
    "arith.andi": "and",
    "arith.ori": "or",
    "arith.xori": "xor",
    "arith.shli": "shl",
    "arith.shrsi": "ashr",
    "arith.shrui": "lshr",
}
_INTEGER_INTRINSICS = {
    "arith.minsi": "smin",
    "arith.maxsi": "smax",
    "arith.minui": "umin",
    "arith.maxui": "umax",
}


@lowers(*_INTEGERS)
def _integer(f: Function, op: Operation) -> None:
    opcode = f"{_INTEGERS[op.name]} {overflow_flags(op)}".rstrip()
    map_parts(f, op, lambda a, b: f.code.binary(opcode, a, b))


@lowers(*_INTEGER_INTRINSICS)
def _extreme(f: Function, op: Operation) -> None:
    stem = _INTEGER_INTRINSICS[op.name]
    map_parts(f, op, lambda a, b: intrinsic(f, stem, a, b))


def intrinsic(f: Function, stem: str, *args: Value, flags: str = "") -> Value:
    """Call an LLVM intrinsic that is overloaded by its type."""
    ty = args[0].type
    return f.code.call(f"llvm.{stem}.{mangled(ty)}", ty, args, flags)


@lowers("arith.ceildivui")
def _ceil_div_unsigned(f: Function, op: Operation) -> None:
    def make(a: Value, b: Value) -> Value:
        quotient, rest = f.code.binary("udiv", a, b), f.code.binary("urem", a, b)
        more = f.code.op(like(a.type, "i1"), f"icmp ne {rest}, zeroinitializer")
        return f.code.add(quotient, f.code.cast("zext", more, a.type))

    map_parts(f, op, make)


@lowers("arith.ceildivsi", "arith.floordivsi")
def _rounded_div(f: Function, op: Operation) -> None:
    """The quotient toward zero, adjusted by one if it is inexact and on the other side."""
    is_ceil = op.name == "arith.ceildivsi"

    def make(a: Value, b: Value) -> Value:
        bit = like(a.type, "i1")
        quotient, rest = f.code.binary("sdiv", a, b), f.code.binary("srem", a, b)
        inexact = f.code.op(bit, f"icmp ne {rest}, zeroinitializer")
        signs = f.code.binary("xor", a, b)
        negative = f.code.op(bit, f"icmp slt {signs}, zeroinitializer")
        if is_ceil:
            positive = f.code.op(bit, f"icmp sge {signs}, zeroinitializer")
            moved = f.code.binary("and", inexact, positive)
            return f.code.binary("add", quotient, f.code.cast("zext", moved, a.type))
        moved = f.code.binary("and", inexact, negative)
        return f.code.binary("sub", quotient, f.code.cast("zext", moved, a.type))

    map_parts(f, op, make)


@lowers("arith.mulsi_extended", "arith.mului_extended")
def _wide_product(f: Function, op: Operation) -> None:
    extend = "sext" if op.name == "arith.mulsi_extended" else "zext"
    low, high = [], []
    for a, b in zip(*map(f.parts, op.operands), strict=True):
        width = int(element_of(a.type)[1:])
        wide = like(a.type, f"i{2 * width}")
        product = f.code.binary("mul", *(f.code.cast(extend, value, wide) for value in (a, b)))
        shift = splat(ir.integer(f"i{2 * width}", width), wide)
        low.append(f.code.cast("trunc", product, a.type))
        high.append(f.code.cast("trunc", f.code.binary("lshr", product, shift), a.type))
    f.set(op.results[0], *low)
    f.set(op.results[1], *high)


@lowers("arith.addui_extended")
def _sum_with_carry(f: Function, op: Operation) -> None:
    sums, carries = [], []
    for a, b in zip(*map(f.parts, op.operands), strict=True):
        sums.append(f.code.binary("add", a, b))
        carries.append(f.code.op(like(a.type, "i1"), f"icmp ult {sums[-1]}, {a.ref}"))
    f.set(op.results[0], *sums)
    f.set(op.results[1], *carries)


@lowers("arith.cmpi")
def _compare_integers(f: Function, op: Operation) -> None:
    predicate = INTEGER_PREDICATES[int_property(op, "predicate")]  # pyright: ignore[reportArgumentType]
    map_parts(f, op, lambda a, b: f.code.op(like(a.type, "i1"), f"icmp {predicate} {a}, {b.ref}"))


# Floats

_FLOATS = {"arith.addf": "fadd", "arith.subf": "fsub", "arith.mulf": "fmul", "arith.divf": "fdiv"}
_FLOAT_INTRINSICS = {
    "arith.maximumf": "maximum",
    "arith.minimumf": "minimum",
    "arith.maxnumf": "maxnum",
    "arith.minnumf": "minnum",
}


@lowers(*_FLOATS)
def _float(f: Function, op: Operation) -> None:
    check_arithmetic(f, op, op.operands[0])
    opcode = f"{_FLOATS[op.name]} {fast_flags(op)}".rstrip()
    map_parts(f, op, lambda a, b: f.code.binary(opcode, a, b))


@lowers(*_FLOAT_INTRINSICS)
def _float_extreme(f: Function, op: Operation) -> None:
    check_arithmetic(f, op, op.operands[0])
    stem, flags = _FLOAT_INTRINSICS[op.name], fast_flags(op)
    map_parts(f, op, lambda a, b: intrinsic(f, stem, a, b, flags=flags))


@lowers("arith.negf")
def _negate(f: Function, op: Operation) -> None:
    check_arithmetic(f, op, op.operands[0])
    map_parts(f, op, lambda a: f.code.op(a.type, f"fneg {fast_flags(op)}{a}"))


@lowers("arith.cmpf")
def _compare_floats(f: Function, op: Operation) -> None:
    check_arithmetic(f, op, op.operands[0])
    predicate = fast_flags(op) + FLOAT_PREDICATES[int_property(op, "predicate")]  # pyright: ignore[reportArgumentType]
    map_parts(f, op, lambda a, b: f.code.op(like(a.type, "i1"), f"fcmp {predicate} {a}, {b.ref}"))


@lowers("arith.select")
def _select(f: Function, op: Operation) -> None:
    condition = f.parts(op.operands[0])
    pairs = list(zip(*(f.parts(value) for value in op.operands[1:]), strict=True))
    chosen = condition if len(condition) == len(pairs) else condition * len(pairs)
    f.set(op.results[0], *(f.code.select(c, a, b) for c, (a, b) in zip(chosen, pairs, strict=True)))


# Casts

_CASTS = {
    "arith.extsi": "sext",
    "arith.extui": "zext",
    "arith.trunci": "trunc",
    "arith.sitofp": "sitofp",
    "arith.uitofp": "uitofp",
    "arith.bitcast": "bitcast",
}


@lowers(*_CASTS)
def _cast(f: Function, op: Operation) -> None:
    if op.name != "arith.bitcast":
        check_arithmetic(f, op, op.operands[0], op.results[0])
    types = f.types(op.results[0])
    given = f.parts(op.operands[0])
    opcode = _CASTS[op.name]
    f.set(op.results[0], *(f.code.cast(opcode, a, ty) for a, ty in zip(given, types, strict=True)))


@lowers("arith.index_cast", "arith.index_castui")
def _index_cast(f: Function, op: Operation) -> None:
    extend = "sext" if op.name == "arith.index_cast" else "zext"
    made = []
    for value, ty in zip(f.parts(op.operands[0]), f.types(op.results[0]), strict=True):
        narrower = int(element_of(ty)[1:]) < int(element_of(value.type)[1:])
        made.append(f.code.cast("trunc" if narrower else extend, value, ty))
    f.set(op.results[0], *made)
