"""Arithmetic, comparisons and conversions: in a thread, a tile is the vector of its elements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.dialects import math as M
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects.arith.base import ArithOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp, is_set
from tilewright.dialects.upstream import arith as S
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.dialects.upstream.arith.floats import ROUNDING_MODES, TruncFOp
from tilewright.lowering.nvgpu.rounding import computed, direction, redirected, to_odd, to_tf32
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import (
    I32,
    I64,
    scalar_of,
    vector_like,
    width_of,
)
from tilewright.numerics.element_types import FORMATS, signed
from tilewright.numerics.floats import bits_to_float

#: Operations of ``arith`` and ``math`` that exist for per-thread code under the same name.
_SAME: dict[str, type[Operation]] = {
    op.name: op for op in (*S.load().operations, *M.Math.operations)
}

_PLAIN = (
    *("addi", "subi", "muli", "maxsi", "maxui", "minsi", "minui", "andi", "ori", "xori"),
    *("extsi", "extui", "trunci", "negf", "remf"),
    # PTX orders -0 before +0 in all four, as Tile IR does.
    *("maximumf", "minimumf", "maxnumf", "minnumf"),
)
#: Undefined for some divisors.
_DIVISIONS = ("divsi", "divui", "ceildivsi", "ceildivui", "floordivsi", "remsi", "remui")
_PLAIN_MATH = (
    *("absi", "absf", "ceil", "floor", "cos", "sin", "tan", "cosh", "sinh", "exp", "log"),
    *("log2", "atan2", "powf", "tanh"),
)


def _result_type(low: ThreadLowering, op: Operation) -> Attribute:
    return low.type_of(op.results[0].type)


def apply(low: ThreadLowering, kind: type[Operation], op: Operation) -> SSAValue:
    """Build the operation ``kind`` on the operands of ``op``, with its rounding mode and flushing."""
    ty = _result_type(low, op)
    operands = [low.operand(value, ty) for value in op.operands]
    return computed(low, op, operands, lambda given: low.one(kind, given, ty))


@lowers(*(f"arith.{name}" for name in _PLAIN), *(f"math.{name}" for name in _PLAIN_MATH))
def plain(low: ThreadLowering, op: ArithOp) -> None:
    """The operation of the same name on the thread's vector."""
    low.bind(op.results[0], apply(low, _SAME[op.name], op))


@lowers("arith.sitofp", "arith.uitofp")
def convert_integer(low: ThreadLowering, op: ArithOp) -> None:
    """Converts to tf32 and 8-bit floats, and to bf16 before ``_MAKES_BF16``, through f32 and rounds once.

    The integer is first reduced to 24 bits, which f32 holds exactly; the bits dropped are kept as a sticky bit, so that
    the second rounding is that of the integer itself.
    """
    name = T.element_name(T.element_of(op.results[0].type))
    if name not in _ROUNDED_BY_F32 and (name != "bf16" or low.options.compute >= _MAKES_BF16):
        low.bind(op.results[0], apply(low, _SAME[op.name], op))
        return
    ty = _result_type(low, op)
    single = vector_like(ty, b.Float32Type())
    given = _in_24_bits(low, low.operand(op.operands[0], ty), signed=op.name == "arith.sitofp")
    found = computed(low, op, [given], lambda parts: low.one(_SAME[op.name], parts, single))
    low.bind(op.results[0], float_cast(low, found, ty, "f32", name))


@lowers("arith.fptosi", "arith.fptoui")
def to_integer(low: ThreadLowering, op: ArithOp) -> None:
    """8-bit floats are converted through f32, which holds all of their values."""
    ty, given = _result_type(low, op), op.operands[0]
    name, value = T.element_name(T.element_of(given.type)), low.operand(given, ty)
    if FORMATS[name].bits == 8:
        value = float_cast(low, value, vector_like(value.type, b.Float32Type()), name, "f32")
    low.bind(op.results[0], low.one(_SAME[op.name], (value,), ty))


_ROUNDED_BY_F32 = frozenset({"tf32", "f8E4M3FN", "f8E5M2"})
#: The first architecture with a conversion of integers to bf16; without it LLVM rounds twice.
_MAKES_BF16 = 90
#: Steps of ``_in_24_bits``: from magnitude 2**power on, the lowest ``count`` bits are replaced by a sticky bit, which
#: says whether any of them was set. The 24 bits that remain fit into f32. Half a unit in the last place of tf32 is at
#: least 2**power >> 11, above what these bits can contribute.
_STICKY = ((24, 9), (32, 21), (44, 33), (56, 41))


def _in_24_bits(low: ThreadLowering, value: SSAValue, *, signed: bool) -> SSAValue:
    """Integers that f32 represents exactly, and that round to tf32 and narrower formats as the given ones do."""
    found, width = value, width_of(value.type)
    for power, count in _STICKY:
        if power >= width:
            break
        dropped = low.binary(A.AndIOp, value, (1 << count) - 1)
        some = low.compare("ne", dropped, 0)
        kept = low.binary(A.AndIOp, value, -(1 << count))
        told = low.binary(A.OrIOp, kept, 1 << count - 1)
        # In [-2**power, 2**power) iff, after adding 2**power, below 2**(power + 1) unsigned.
        moved = low.binary(A.AddiOp, value, 1 << power) if signed else value
        large = low.compare("uge", moved, 1 << power + signed)
        found = low.select(large, low.select(some, told, kept), found)
    return found


@lowers(*(f"arith.{name}" for name in _DIVISIONS))
def divide(low: ThreadLowering, op: ArithOp) -> None:
    """Integer division. In a divergent branch inactive lanes divide by 1, as their divisor may be zero."""
    ty = _result_type(low, op)
    left, right = (low.operand(value, ty) for value in op.operands)
    if low.chosen is not None:
        right = low.select(low.chosen, right, low.constant(1, ty))
    low.bind(op.results[0], low.one(_SAME[op.name], (left, right), ty))


def bits_constant(low: ThreadLowering, bits: int, name: str, ty: Attribute) -> SSAValue:
    """The scalar or splat constant whose elements have these bits."""
    fmt = FORMATS[name]
    if name[0] == "i":
        number = bits - (1 << fmt.bits) if bits >> (fmt.bits - 1) and fmt.bits > 1 else bits
        return low.constant(number, ty)
    value = bits_to_float(bits, fmt)
    if value == value:
        return low.constant(value, ty)
    # A NaN keeps its payload, so it is built from its bits.
    integer = b.IntegerType(width_of(ty))
    number = signed(held_bits(bits, name), integer.width.data)
    made = low.constant(number, vector_like(ty, integer))
    return low.one(A.BitcastOp, (made,), ty)


def held_bits(bits: int, name: str) -> int:
    """The bits as a thread holds them: a tf32 is an f32 whose low bits are zero."""
    return bits << 13 if name == "tf32" else bits


@lowers("math.fpowi")
def integer_power(low: ThreadLowering, op: ArithOp) -> None:
    """``fpowi``; a narrow exponent is sign-extended to 32 bits."""
    ty = _result_type(low, op)
    base, exponent = (low.operand(value, ty) for value in op.operands)
    wide = vector_like(ty, I32)
    if width_of(exponent.type) < 32:
        exponent = low.one(V.ExtSIOp, (exponent,), wide)
    low.bind(op.results[0], low.one(M.FPowIOp, (base, exponent), ty))


@lowers("arith.cmpi")
def compare_integers(low: ThreadLowering, op: Operation) -> None:
    """The same predicate: both dialects use upstream's numbers."""
    _compare(low, op, V.CmpiOp)


@lowers("arith.cmpf")
def compare_floats(low: ThreadLowering, op: Operation) -> None:
    """The same predicate: both dialects use upstream's numbers."""
    _compare(low, op, V.CmpfOp)


def _compare(low: ThreadLowering, op: Operation, kind: type[Operation]) -> None:
    ty = _result_type(low, op)
    operands = [low.operand(value, ty) for value in op.operands]
    low.bind(op.results[0], low.one(kind, operands, ty, {"predicate": op.properties["predicate"]}))


@lowers("arith.select")
def select(low: ThreadLowering, op: Operation) -> None:
    """Selects per element; a scalar condition selects whole tiles."""
    condition, yes, no = op.operands
    ty = _result_type(low, op)
    low.bind(
        op.results[0],
        low.select(low.value(condition), low.operand(yes, ty), low.operand(no, ty)),
    )


@lowers("arith.shli", "arith.shrui", "arith.shrsi")
def shift(low: ThreadLowering, op: ArithOp) -> None:
    """Shifts by the width or more yield zeros, or copies of the sign, as Tile IR defines; upstream's are undefined."""
    ty = _result_type(low, op)
    value, amount = (low.operand(v, ty) for v in op.operands)
    width = width_of(ty)
    kind = _SAME[op.name]
    if op.name == "arith.shrsi":
        most = low.constant(width - 1, ty)
        amount = low.one(A.MinUIOp, (amount, most), ty)
        low.bind(op.results[0], low.one(kind, (value, amount), ty))
        return
    fits = low.compare("ult", amount, low.constant(width, ty)) if width > 1 else None
    if fits is None:
        fits = low.compare("eq", amount, low.constant(0, ty))
    safe = low.select(fits, amount, low.constant(0, ty))
    shifted = low.one(kind, (value, safe), ty)
    low.bind(op.results[0], low.select(fits, shifted, low.constant(0, ty)))


@lowers("arith.index_cast", "arith.index_castui")
def index_cast(low: ThreadLowering, op: ArithOp) -> None:
    """Truncates or extends, as ``index`` is an i64 here."""
    ty = _result_type(low, op)
    value = low.operand(op.operands[0], ty)
    widths = width_of(value.type), width_of(ty)
    if widths[0] == widths[1]:
        low.bind(op.results[0], value)
    elif widths[0] > widths[1]:
        low.bind(op.results[0], low.one(V.TruncIOp, (value,), ty))
    else:
        kind = V.ExtUIOp if op.name == "arith.index_castui" else V.ExtSIOp
        low.bind(op.results[0], low.one(kind, (value,), ty))


@lowers("arith.bitcast")
def bitcast(low: ThreadLowering, op: ArithOp) -> None:
    """Reinterprets the bits; builds nothing if the types are the same."""
    low.bind(op.results[0], cast_bits(low, low.value(op.operands[0]), _result_type(low, op)))


def cast_bits(low: ThreadLowering, value: SSAValue, ty: Attribute) -> SSAValue:
    """Reinterpret a value as another type of the same width."""
    return value if value.type == ty else low.one(A.BitcastOp, (value,), ty)


# Operations of nv_tileaa.

_FLOATS: dict[str, type[Operation]] = {
    "addf": A.AddfOp,
    "subf": A.SubfOp,
    "mulf": A.MulfOp,
    "divf": A.DivfOp,
    "sqrt": M.SqrtOp,
    "rsqrt": M.RsqrtOp,
    "exp2": M.Exp2Op,
    "fma": M.FmaOp,
}


@lowers(*_FLOATS)
def float_operation(low: ThreadLowering, op: TileAAOp) -> None:
    """The operation with its rounding mode and flushing: upstream's operation or an NVVM intrinsic."""
    low.bind(op.results[0], apply(low, _FLOATS[op.mnemonic()], op))


@lowers("clampf")
def clamp(low: ThreadLowering, op: TileAAOp) -> None:
    """``min(max(source, lower), upper)``. With ``propagate_nan`` a NaN operand yields NaN, else the other operand."""
    ty = _result_type(low, op)
    source, lower, upper = (low.operand(value, ty) for value in op.operands)
    kinds = (
        (A.MaximumfOp, A.MinimumfOp) if is_set(op, "propagate_nan") else (A.MaxnumfOp, A.MinnumfOp)
    )
    raised = low.one(kinds[0], (source, lower), ty)
    low.bind(op.results[0], low.one(kinds[1], (raised, upper), ty))


@lowers("mulhiui")
def high_half(low: ThreadLowering, op: TileAAOp) -> None:
    """The upper half of the unsigned product: through twice the width, or for 64 bits from four 32-bit products."""
    ty = _result_type(low, op)
    left, right = (low.operand(value, ty) for value in op.operands)
    width = width_of(ty)
    if width < 64:
        wide = vector_like(ty, b.IntegerType(2 * width))
        product = low.binary(
            A.MuliOp, *(low.one(V.ExtUIOp, (value,), wide) for value in (left, right))
        )
        high = low.binary(A.ShRUIOp, product, width)
        low.bind(op.results[0], low.one(V.TruncIOp, (high,), ty))
        return
    mask = (1 << 32) - 1
    low_bits = [low.binary(A.AndIOp, value, mask) for value in (left, right)]
    high_bits = [low.binary(A.ShRUIOp, value, 32) for value in (left, right)]
    lows = low.times(low_bits[0], low_bits[1])
    cross = low.plus(low.times(high_bits[0], low_bits[1]), low.binary(A.ShRUIOp, lows, 32))
    middle = low.plus(low.binary(A.AndIOp, cross, mask), low.times(low_bits[0], high_bits[1]))
    top = low.plus(low.times(high_bits[0], high_bits[1]), low.binary(A.ShRUIOp, cross, 32))
    low.bind(op.results[0], low.plus(top, low.binary(A.ShRUIOp, middle, 32)))


@lowers("fp_to_fp")
def convert_float(low: ThreadLowering, op: TileAAOp) -> None:
    """Rounds to nearest even, or in the mode of the operation. ``f8E8M0FNU``, which has only an exponent, is a case of
    its own.
    """
    source, ty = low.value(op.operands[0]), _result_type(low, op)
    names = [T.element_name(T.element_of(v.type)) for v in (op.operands[0], op.results[0])]
    if names[1] == "f8E8M0FNU":
        low.bind(op.results[0], _to_scale(low, source, names[0], direction(op), ty))
        return
    low.bind(op.results[0], _rounded(low, source, ty, names, direction(op)))


def _rounded(
    low: ThreadLowering, source: SSAValue, ty: Attribute, names: Sequence[str], mode: str
) -> SSAValue:
    """Convert floats from the first format of ``names`` to the second, of type ``ty``, rounded once by ``mode``."""
    given, wanted = names
    f32 = vector_like(ty, b.Float32Type())
    if wanted == "tf32":
        if given == "f64":
            return to_tf32(low, to_odd(low, source, f32), mode)
        return to_tf32(low, float_cast(low, source, f32, given, "f32"), mode)
    held, holding = FORMATS[given], FORMATS[wanted]
    exact = held.exponent_bits <= holding.exponent_bits and held.precision <= holding.precision
    if not mode or exact:
        return float_cast(low, source, ty, given, wanted)
    if given != "f64":
        # f16 and bf16, and two 8-bit formats, do not contain each other; f32 contains all of them.
        source, given = float_cast(low, source, f32, given, "f32"), "f32"

    def widen(value: SSAValue) -> SSAValue:
        return float_cast(low, value, source.type, wanted, given)

    return redirected(low, source, float_cast(low, source, ty, given, wanted), widen, mode)


def _to_scale(
    low: ThreadLowering, source: SSAValue, given: str, mode: str, ty: Attribute
) -> SSAValue:
    """Convert to ``f8E8M0FNU``: the magnitude is rounded to a power of two, through f32."""
    single = vector_like(ty, b.Float32Type())
    found = float_cast(low, source, single, given, "f32")
    if given == "f64":
        size = low.one(M.AbsFOp, (source,), source.type)
        found = low.one(A.TruncFOp, (size,), single)
        if mode:
            found = redirected(
                low, size, found, lambda value: low.one(A.ExtFOp, (value,), source.type), mode
            )
    found = low.one(M.AbsFOp, (found,), single)
    rounding = {"rz": "toward_zero", "rp": "upward"}.get(mode, "to_nearest_even")
    properties = {"roundingmode": b.IntegerAttr(ROUNDING_MODES.index(rounding), I32)}
    return low.one(TruncFOp, (found,), ty, properties)


def float_cast(
    low: ThreadLowering, source: SSAValue, ty: Attribute, given: str, wanted: str
) -> SSAValue:
    """Convert floats from the format ``given`` to ``wanted``, names of ``FORMATS``, to nearest even.

    ``ty`` is the type of the result.
    """
    if given == wanted:
        return source
    if wanted == "tf32":
        return to_tf32(low, float_cast(low, source, ty, given, "f32"))
    if given == "tf32":
        return float_cast(low, source, ty, "f32", wanted)
    widths = FORMATS[given].bits, FORMATS[wanted].bits
    if widths[0] < widths[1]:
        return low.one(A.ExtFOp, (source,), ty)
    if widths[0] > widths[1]:
        return low.one(A.TruncFOp, (source,), ty)
    # f16 and bf16, and two 8-bit formats, do not contain each other; f32 contains all of them.
    f32 = vector_like(ty, b.Float32Type())
    return low.one(A.TruncFOp, (low.one(A.ExtFOp, (source,), f32),), ty)


@lowers("addptr")
def add_pointer(low: ThreadLowering, op: TileAAOp) -> None:
    """Address arithmetic in i64; the offset is signed and counts elements."""
    ty = _result_type(low, op)
    base, offset = (low.operand(value, ty) for value in op.operands)
    pointee = T.element_of(op.operands[0].type)
    assert isinstance(pointee, T.PtrType)
    size = pointee_bytes(low, pointee)
    if scalar_of(offset.type) != I64:
        offset = low.one(V.ExtSIOp, (offset,), vector_like(offset.type, I64))
    low.bind(op.results[0], low.plus(base, low.times(offset, size)))


def pointee_bytes(low: ThreadLowering, pointer: T.PtrType) -> int:
    """The size of a pointee in bytes.

    Raises ``TileIRError`` (``not-lowered-to-threads``) for elements that share bytes.
    """
    fmt = FORMATS.get(T.element_name(pointer.pointee))
    if fmt is None or (fmt.bits < 8 and fmt.name != "i1"):
        raise low.refuse(f"elements of '{pointer.pointee}' share their bytes")
    return max(fmt.storage_bits // 8, 1)


@lowers("int_to_ptr", "ptr_to_int")
def pointer_number(low: ThreadLowering, op: TileAAOp) -> None:
    """Binds the same value: pointers are i64 already."""
    low.bind(op.results[0], low.value(op.operands[0]))
