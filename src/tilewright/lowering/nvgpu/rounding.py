"""Operations with directed rounding, or that flush subnormals.

They map to NVVM intrinsics, which are single instructions for f32 and f64, except correctly rounded division and
square root; f16 and bf16 go through f32. Approximate exponentials and hyperbolic tangents carry a flag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.dialects import math as M
from xdsl.dialects import vector
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.arithmetic import (
    AddFOp,
    DivFOp,
    Exp2Op,
    FmaOp,
    MulFOp,
    RsqrtOp,
    SqrtOp,
    SubFOp,
)
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.dialects.upstream.llvm.calls import CallIntrinsicOp
from tilewright.dialects.upstream.nvvm.conversions import (
    ROUNDS_TO_TF32,
    CvtFloatToTF32Op,
    FPRoundingMode,
    FPRoundingModeAttr,
)
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.types import I32, I64, element_bytes, scalar_of, vector_like

_HALF_UNIT, _KEPT = 1 << 12, -(1 << 13)
_MAGNITUDE = (1 << 31) - 1
_INFINITY, _NAN = 0x7F800000, 0x7FC00000
#: The modes that a full computation to nearest satisfies.
_NEAREST = frozenset({"", "nearest_even", "full", "approx"})
_DIRECTIONS = {"zero": "rz", "negative_inf": "rm", "positive_inf": "rp"}
#: Stems of the intrinsics that exist for every direction.
_INTRINSICS = {
    AddFOp.name: "add",
    SubFOp.name: "add",
    MulFOp.name: "mul",
    DivFOp.name: "div",
    FmaOp.name: "fma",
    SqrtOp.name: "sqrt",
}
#: Stems of the f32 intrinsics to nearest or approximate, by operation and mode: before and after `.ftz`.
_NEAR = {
    (DivFOp.name, "full"): ("div.full", ""),
    (DivFOp.name, "approx"): ("div.approx", ".f"),
    (SqrtOp.name, "approx"): ("sqrt.approx", ".f"),
    (RsqrtOp.name, ""): ("rsqrt.approx", ".f"),
    (Exp2Op.name, ""): ("ex2.approx", ".f"),
}
#: Those of minimum and maximum, where `.nan` follows `.ftz`.
_CHOSEN = {
    "arith.maximumf": ("fmax", ".nan.f"),
    "arith.minimumf": ("fmin", ".nan.f"),
    "arith.maxnumf": ("fmax", ".f"),
    "arith.minnumf": ("fmin", ".f"),
}
#: Functions with an approximate form.
_FUNCTIONS = frozenset({M.ExpOp.name, M.TanhOp.name})
_HALVES = (b.Float16Type(), b.BFloat16Type())

Compute = Callable[[Sequence[SSAValue]], SSAValue]


def direction(op: Operation) -> str:
    """The rounding mode of an operation as PTX spells it; empty for to nearest."""
    mode = _mode(op)
    return "" if mode in _NEAREST else _DIRECTIONS.get(mode, mode)


def _mode(op: Operation) -> str:
    return enum_property(op, "rounding_mode")  # pyright: ignore[reportArgumentType]


def computed(
    low: ThreadLowering, op: Operation, operands: Sequence[SSAValue], plain: Compute
) -> SSAValue:
    """The operation on these operands, with its rounding mode and flushing.

    ``plain`` builds it to nearest, without flushing. Raises ``TileIRError`` (``not-lowered-to-threads``) for a
    rounding that the operation cannot have here.
    """
    given = list(operands)
    if is_set(op, "flush_to_zero") or (
        _mode(op) in ("full", "approx") and op.name not in _FUNCTIONS
    ):
        return _by_intrinsic(low, op, given)
    mode = direction(op)
    found = _directed(low, op, given, mode) if mode else plain(given)
    if _mode(op) == "approx" and isinstance(made := found.owner, Operation):
        made.properties["fastmath"] = A.FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])
    return found


def _by_intrinsic(low: ThreadLowering, op: Operation, operands: list[SSAValue]) -> SSAValue:
    """An f32 operation that flushes or is approximate, as an intrinsic.

    With `.ftz` subnormal operands and results become zeros of the same sign.
    """
    ty = operands[0].type
    if not isinstance(scalar_of(ty), b.Float32Type):
        raise low.refuse("only f32 has flushing and approximate forms")
    flush = ".ftz" if is_set(op, "flush_to_zero") else ""
    near = _CHOSEN.get(op.name) or _NEAR.get((op.name, _mode(op).replace("nearest_even", "")))
    if near is not None:
        stem, behind = near
    elif op.name in _INTRINSICS:
        stem, behind = f"{_INTRINSICS[op.name]}.{direction(op) or 'rn'}", ".f"
        operands = _of_sum(low, op, operands)
    else:
        raise low.refuse(f"'{op.name}' has no instruction that flushes subnormals")
    return intrinsic(low, f"llvm.nvvm.{stem}{flush}{behind}", operands, ty)


def _of_sum(low: ThreadLowering, op: Operation, operands: list[SSAValue]) -> list[SSAValue]:
    """The operands of an addition that computes ``op``: for a difference the second is negated."""
    if not isinstance(op, SubFOp):
        return operands
    left, right = operands
    return [left, low.one(A.NegfOp, (right,), right.type)]


def _directed(low: ThreadLowering, op: Operation, operands: list[SSAValue], mode: str) -> SSAValue:
    stem = _INTRINSICS.get(op.name)
    element = scalar_of(operands[0].type)
    if stem is not None and element in _HALVES:
        # Rounding twice in the same direction is exact.
        f32, ty = vector_like(operands[0].type, b.Float32Type()), operands[0].type
        wide = [low.one(A.ExtFOp, (value,), f32) for value in operands]
        found = _directed(low, op, wide, mode)
        nearest = low.one(A.TruncFOp, (found,), ty)
        return redirected(low, found, nearest, lambda v: low.one(A.ExtFOp, (v,), f32), mode)
    letters = {b.Float32Type(): "f", b.Float64Type(): "d"}
    if stem is None or mode not in ("rz", "rm", "rp") or element not in letters:
        raise low.refuse(f"'{mode}' has no instruction for '{element}'")
    name = f"llvm.nvvm.{stem}.{mode}.{letters[element]}"
    return intrinsic(low, name, _of_sum(low, op, operands), operands[0].type)


def intrinsic(
    low: ThreadLowering, name: str, operands: Sequence[SSAValue], ty: Attribute
) -> SSAValue:
    """A call of an intrinsic, per element."""
    sizes = b.DenseArrayBase.from_list(I32, [len(operands), 0])
    properties = {"intrin": b.StringAttr(name), "operandSegmentSizes": sizes}
    return low.one(CallIntrinsicOp, operands, ty, properties)


def redirected(
    low: ThreadLowering,
    source: SSAValue,
    nearest: SSAValue,
    widen: Callable[[SSAValue], SSAValue],
    mode: str,
) -> SSAValue:
    """Correct a conversion to nearest into one with rounding ``mode``: ``rz``, ``rp``, ``rm`` or ``nearest_away``.

    ``widen`` converts a result back to the type of ``source``, exactly. Where ``nearest`` is on the wrong side of
    ``source``, its neighbour on the other side is the result, whose bits are one more or one less. Raises
    ``TileIRError`` (``not-lowered-to-threads``) for another mode.
    """
    seen = widen(nearest)
    words = vector_like(nearest.type, b.IntegerType(8 * element_bytes(scalar_of(nearest.type))))
    bits = low.one(A.BitcastOp, (nearest,), words)
    zero = low.constant(0.0, source.type)
    one = low.constant(1, words)
    half = low.constant(0.5, source.type)

    def seen_of(pattern: SSAValue) -> SSAValue:
        return widen(low.one(A.BitcastOp, (pattern,), nearest.type))

    away, back = low.plus(bits, one), low.binary(A.SubiOp, bits, one)
    below, above = (_compare(low, name, seen, source) for name in ("olt", "ogt"))
    is_negative = _compare(low, "olt", source, zero)
    if mode == "rz":
        beyond = low.select(is_negative, below, above)
        chosen = low.select(beyond, back, bits)
    elif mode == "rp":
        chosen = low.select(below, low.select(is_negative, back, away), bits)
    elif mode == "rm":
        chosen = low.select(above, low.select(is_negative, away, back), bits)
    elif mode == "nearest_away":
        # Only ties differ: the source is midway between the neighbours.
        beyond = low.select(is_negative, below, above)
        inner = low.select(beyond, back, bits)
        outer = low.plus(inner, one)
        middle = low.binary(A.MulfOp, low.binary(A.AddfOp, seen_of(inner), seen_of(outer)), half)
        chosen = low.select(_compare(low, "oeq", middle, source), outer, bits)
    else:
        raise low.refuse(f"conversions do not support rounding mode '{mode}' here")
    return low.one(A.BitcastOp, (chosen,), nearest.type)


def _compare(low: ThreadLowering, predicate: str, left: SSAValue, right: SSAValue) -> SSAValue:
    number = V.FLOAT_PREDICATES.index(predicate)
    ty = V.i1_like(left.type)
    return low.one(V.CmpfOp, (left, right), ty, {"predicate": b.IntegerAttr(number, I64)})


def to_odd(low: ThreadLowering, source: SSAValue, ty: Attribute) -> SSAValue:
    """Convert f64 to f32 with rounding to odd: an inexact result is the neighbour with an odd bit pattern.

    A further rounding to a narrower format then has the result of rounding the f64 once.
    """

    def widen(value: SSAValue) -> SSAValue:
        return low.one(A.ExtFOp, (value,), source.type)

    nearest = low.one(A.TruncFOp, (source,), ty)
    inner = redirected(low, source, nearest, widen, "rz")
    words = vector_like(ty, I32)
    bits = low.one(A.BitcastOp, (inner,), words)
    inexact = _compare(low, "one", widen(inner), source)
    odd = low.select(inexact, low.binary(A.OrIOp, bits, 1), bits)
    return low.one(A.BitcastOp, (odd,), ty)


def to_tf32(low: ThreadLowering, value: SSAValue, mode: str = "") -> SSAValue:
    """Round f32 to tf32, held as f32 with 13 zero bits: to nearest even, or by ``mode`` as for ``redirected``.

    NaNs become the canonical one. Raises ``TileIRError`` (``not-lowered-to-threads``) for another mode.
    """
    if not mode and low.options.compute >= ROUNDS_TO_TF32:
        return _by_instruction(low, value)
    words = vector_like(value.type, I32)
    bits = low.one(A.BitcastOp, (value,), words)
    kept = low.binary(A.AndIOp, bits, _KEPT)
    if mode == "rz":
        added = bits
    elif mode == "nearest_away":
        added = low.plus(bits, _HALF_UNIT)
    elif mode in ("rp", "rm"):
        negative = low.compare("slt", bits, 0)
        units = [low.constant(number, words) for number in (0, 2 * _HALF_UNIT - 1)]
        added = low.plus(bits, low.select(negative, *(units if mode == "rp" else units[::-1])))
    elif not mode:
        odd = low.binary(A.AndIOp, low.binary(A.ShRUIOp, bits, 13), 1)
        added = low.plus(low.plus(bits, _HALF_UNIT - 1), odd)
    else:
        raise low.refuse(f"conversions to tf32 do not support rounding mode '{mode}' here")
    # The carry must not change infinities. The payload of a NaN may be in the dropped bits alone, so it is replaced.
    magnitude = low.binary(A.AndIOp, bits, _MAGNITUDE)
    rounded = kept
    if mode != "rz":
        finite = low.compare("ult", magnitude, _INFINITY)
        rounded = low.select(finite, low.binary(A.AndIOp, added, _KEPT), kept)
    no_number = low.compare("ugt", magnitude, _INFINITY)
    found = low.select(no_number, low.constant(_NAN, words), rounded)
    return low.one(A.BitcastOp, (found,), value.type)


def _by_instruction(low: ThreadLowering, value: SSAValue) -> SSAValue:
    """Round to tf32, to nearest even, by ``cvt``."""
    mode = {"rnd": FPRoundingModeAttr(FPRoundingMode.RN)}
    if not isinstance(value.type, b.VectorType):
        bits = low.one(CvtFloatToTF32Op, (value,), I32, mode)
        return low.one(A.BitcastOp, (bits,), value.type)
    found = value
    for number in range(value.type.get_shape()[0]):
        taken = vector.ExtractOp(value, [number], b.Float32Type())
        low.add(taken)
        rounded = _by_instruction(low, taken.results[0])
        insert = vector.InsertOp(rounded, found, [number])
        found = low.add(insert).results[0]
    return found
