"""Float arithmetic, rounded once: f16 and bf16 through f32, flushing, min and max, comparisons.

Rounding to nearest, the sum, difference, product, quotient and root of f16 or bf16 numbers is the f32 result rounded
again, because 24 >= 2 * 11 + 2 bits. Other directions are in ``directed``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial

from llvmlite import ir

from tilewright.cpu.codegen.elementwise import directed
from tilewright.cpu.codegen.elementwise.formats import (
    narrow,
    narrow_result,
    narrow_slow,
    splat_bits,
    widen,
)
from tilewright.cpu.codegen.elementwise.table import PREDICATES, emitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import FLOAT, I32, Element
from tilewright.cpu.codegen.ir.types import Builder as B
from tilewright.cpu.codegen.ir.types import Constant, Type
from tilewright.cpu.codegen.ir.types import Value as V
from tilewright.numerics import FORMATS
from tilewright.numerics.floats import bits_to_float

_APPROXIMATIONS = ("approx", "full")


def flush(b: B, x: V) -> V:
    """f32 subnormals replaced by zeros of the same sign."""
    small = b.fcmp_ordered("<", llvm.intrinsic(b, "fabs", [x]), splat_bits(x.type, 0x00800000))
    words = llvm.shaped(I32, x.type)
    sign = b.and_(b.bitcast(x, words), llvm.number(words, -(1 << 31)))
    return b.select(small, b.bitcast(sign, x.type), x)


def _nearest(op: str, b: B, *wide: V) -> V:
    if op == "sqrt":
        return llvm.intrinsic(b, "sqrt", wide)
    if op == "fma":
        return llvm.intrinsic(b, "fma", wide)
    return {"addf": b.fadd, "subf": b.fsub, "mulf": b.fmul, "divf": b.fdiv}[op](*wide)


def _rounded(op: str, b: B, values: tuple[V, ...], element: Element, rounding: str) -> V:
    half = element.name in ("f16", "bf16")
    if rounding != "nearest_even" or (half and op == "fma"):
        return directed.rounded(op, b, values, element, rounding)
    if not half:
        return _nearest(op, b, *values)
    found = _nearest(op, b, *(widen(b, v, element) for v in values))
    back = narrow_slow if op in ("divf", "sqrt") else narrow_result
    return back(b, found, element)


def _arithmetic(
    op: str,
    b: B,
    *values: V,
    element: Element,
    rounding: str = "nearest_even",
    flush_to_zero: bool = False,
) -> V:
    approximate = rounding in _APPROXIMATIONS
    direction = "nearest_even" if approximate else rounding
    if flush_to_zero:
        flushed = tuple(flush(b, v) for v in values)
        result = flush(b, _rounded(op, b, flushed, element, direction))
    else:
        result = _rounded(op, b, values, element, direction)
    if op == "divf" and rounding == "approx":
        return _lost_divisors(b, values[0], values[1], result)
    return result


def _lost_divisors(b: B, lhs: V, rhs: V, quotient: V) -> V:
    """The reciprocal of a divisor beyond 2**126 underflows: a signed zero, NaN for an infinity."""
    magnitude = llvm.intrinsic(b, "fabs", [rhs])
    large = b.fcmp_ordered(">", magnitude, splat_bits(rhs.type, 0x7E800000))
    finite = b.fcmp_ordered("<", magnitude, splat_bits(rhs.type, 0x7F800000))
    zero = llvm.intrinsic(b, "copysign", [llvm.number(rhs.type, 0.0), rhs])
    return b.select(b.and_(large, finite), b.fmul(lhs, zero), quotient)


for _op in ("addf", "subf", "mulf", "divf", "fma", "sqrt"):
    emitter(_op)(partial(_arithmetic, _op))


def _bits(b: B, x: V) -> tuple[V, Type]:
    """The bits of a float in register form."""
    scalar = llvm.scalar_of(x.type)
    if isinstance(scalar, ir.IntType):
        return x, x.type
    width = {"half": 16, "float": 32, "double": 64}[str(scalar)]
    words = llvm.shaped(ir.IntType(width), x.type)
    return b.bitcast(x, words), words


def _on_bits(operation: Callable[[B, V, Type], V], b: B, x: V, *, element: Element) -> V:
    bits, words = _bits(b, x)
    result = operation(b, bits, words)
    return result if words == x.type else b.bitcast(result, x.type)


def _clear_sign(b: B, bits: V, words: Type) -> V:
    return b.and_(bits, llvm.number(words, (1 << llvm.scalar_of(words).width - 1) - 1))


def _flip_sign(b: B, bits: V, words: Type) -> V:
    return b.xor(bits, llvm.number(words, -(1 << llvm.scalar_of(words).width - 1)))


emitter("absf")(partial(_on_bits, _clear_sign))
emitter("negf")(partial(_on_bits, _flip_sign))


def _integral(name: str, b: B, x: V, *, element: Element) -> V:
    wide = llvm.intrinsic(b, name, [widen(b, x, element)])
    return narrow(b, wide, element)


emitter("ceil")(partial(_integral, "ceil"))
emitter("floor")(partial(_integral, "floor"))


class Nans(IntEnum):
    """The NaN that a value can hold."""

    ANY = 0
    QUIET = 1
    CANONICAL = 2


#: The instruction's selector: the sign of what was chosen; 0 the smaller, 1 the larger operand.
_RANGE_SIGN = 0b0100
_RANGE_ROUNDING = 4


def _number_extremum(b: B, larger: bool, wide: list[V], nans: Sequence[Nans]) -> V | None:
    """One instruction of AVX512DQ that orders zeros and prefers numbers to NaN, but for those that signal: they are made quiet
    first. Of two NaNs it gives the first one: a canonical one, if an operand has no other. None without it."""
    ty = wide[0].type
    lanes, scalar = llvm.lanes_of(ty), llvm.scalar_of(ty)
    bits = 32 if scalar == FLOAT else 64
    if lanes * bits < 512 or not llvm.target_of(b).has("avx512dq"):
        return None
    wide = [
        canonical_nan(b, v) if held is Nans.ANY else v for v, held in zip(wide, nans, strict=True)
    ]
    if nans[0] is Nans.QUIET:
        wide.reverse()
    return llvm.by_registers(b, wide, bits, lambda values: _ranged(b, values, bits, larger=larger))


def _ranged(b: B, values: Sequence[V], bits: int, *, larger: bool) -> V:
    """The smaller or larger of the lanes of full AVX-512 registers."""
    ty = values[0].type
    word = ir.IntType(llvm.lanes_of(ty))
    name = f"llvm.x86.avx512.mask.range.{'ps' if bits == 32 else 'pd'}.512"
    function = llvm.declare(b.module, name, ty, [ty, ty, I32, ty, word, I32])
    selector = ir.Constant(I32, _RANGE_SIGN | larger)
    everywhere, rounding = ir.Constant(word, -1), ir.Constant(I32, _RANGE_ROUNDING)
    return b.call(function, [*values, selector, llvm.undefined(ty), everywhere, rounding])


def canonical_nan(b: B, x: V) -> V:
    """The canonical NaN for every other, in f32 and f64: an instruction of AVX-512, which takes one of two numbers by what kind of
    number one is."""
    lanes, bits = llvm.lanes_of(x.type), 32 if llvm.scalar_of(x.type) == FLOAT else 64
    if lanes * bits < 512 or not llvm.target_of(b).has("avx512f"):
        return b.select(b.fcmp_unordered("uno", x, x), llvm.number(x.type, float("nan")), x)
    return llvm.by_registers(b, [x], bits, lambda values: _fixed_up(b, values[0], bits))


#: For each kind of number, from the last four bits on, whether it stays (1) or becomes the other one (0): quiet NaN, NaN that signals,
#: zero, one, both infinities, negative and positive numbers.
_KINDS = 0x11111100


def _fixed_up(b: B, value: V, bits: int) -> V:
    """One register without any NaN but the canonical one."""
    ty = value.type
    words = ir.VectorType(ir.IntType(bits), llvm.lanes_of(ty))
    mask = ir.IntType(llvm.lanes_of(ty))
    name = f"llvm.x86.avx512.mask.fixupimm.{'ps' if bits == 32 else 'pd'}.512"
    function = llvm.declare(b.module, name, ty, [ty, ty, words, I32, mask, I32])
    nan, kinds = llvm.number(ty, float("nan")), llvm.number(words, _KINDS)
    rounding = ir.Constant(I32, _RANGE_ROUNDING)
    return b.call(
        function, [nan, value, kinds, ir.Constant(I32, 0), ir.Constant(mask, -1), rounding]
    )


def _extremum(
    larger: bool,
    b: B,
    x: V,
    y: V,
    *,
    element: Element,
    propagate_nan: bool = False,
    flush_to_zero: bool = False,
    nans: Sequence[Nans] = (Nans.ANY, Nans.ANY),
) -> V:
    """-0 is below +0; a NaN that results is the canonical one. ``nans``: those that the operands can hold."""
    if flush_to_zero:
        x, y = flush(b, x), flush(b, y)
    wide = [widen(b, v, element) for v in (x, y)]
    for first, second, limit in ((*wide, y), (*reversed(wide), x)):
        if _decides_zeros(_known_number(limit, element), larger):
            found = _limited(b, first, second, larger, propagate_nan=propagate_nan)
            return narrow(b, found, element)
    found = _number_extremum(b, larger, wide, nans) if not propagate_nan else None
    enough = min(nans)
    if found is not None and any(held is not Nans.QUIET for held in nans):
        enough = Nans.CANONICAL  # One side is, or was made so.
    if found is None:
        name = ("maximum" if larger else "minimum") + ("" if propagate_nan else "num")
        found = llvm.intrinsic(b, name, wide)
    narrowed = narrow(b, found, element)
    if enough is Nans.CANONICAL and not propagate_nan and narrowed is found:
        return found
    if isinstance(llvm.scalar_of(narrowed.type), ir.IntType):
        nan: Constant = llvm.number(narrowed.type, element.format.nan_bits)
    else:
        nan = splat_bits(narrowed.type, element.format.nan_bits)
    return b.select(b.fcmp_unordered("uno", found, found), nan, narrowed)


def _known_number(x: V, element: Element) -> float:
    """The number that all elements of a value are known to be; NaN where they are none, or not known."""
    lane = x.lane if isinstance(x, llvm.Splat) else x
    if not isinstance(lane, ir.Constant) or llvm.lanes_of(lane.type):
        return math.nan
    found = lane.constant
    if isinstance(found, int) and isinstance(lane.type, ir.IntType):
        return bits_to_float(found & (1 << element.format.bits) - 1, element.format)
    if isinstance(found, str) and found.startswith("0xH"):
        return bits_to_float(int(found[3:], 16), FORMATS["f16"])
    if isinstance(found, str) and found.startswith("0x"):
        return bits_to_float(int(found, 16), FORMATS["f64"])
    return float(found) if isinstance(found, float | int) else math.nan


def _decides_zeros(limit: float, larger: bool) -> bool:
    """Whether an extremum with a number is that number wherever the other operand is not beyond it, whatever zeros there are."""
    if limit:
        return not math.isnan(limit)
    return math.copysign(1.0, limit) == (1.0 if larger else -1.0)


def _limited(b: B, x: V, limit: V, larger: bool, *, propagate_nan: bool) -> V:
    """An extremum with such a number: one instruction of x86. NaN gives the number, or itself, as the canonical one."""
    sign = ">" if larger else "<"
    if not propagate_nan:
        return b.select(b.fcmp_ordered(sign, x, limit), x, limit)
    found = b.select(b.fcmp_unordered(sign, x, limit), x, limit)
    return canonical_nan(b, found)


emitter("maxf")(partial(_extremum, True))
emitter("minf")(partial(_extremum, False))


@emitter("cmpf")
def cmpf(
    b: B, x: V, y: V, *, element: Element, comparison_predicate: str, comparison_ordering: str
) -> V:
    """Types without comparisons of their own are compared as wider floats, which is exact."""
    compare = b.fcmp_ordered if comparison_ordering == "ordered" else b.fcmp_unordered
    wide = [widen(b, v, element) for v in (x, y)]
    return compare(PREDICATES[comparison_predicate], *wide)


def clampf(b: B, x: V, low: V, high: V, *, element: Element, propagate_nan: bool = False) -> V:
    """min(max(x, low), high); with ``propagate_nan`` a NaN operand gives NaN, else the other one counts."""
    raised = _extremum(True, b, x, low, element=element, propagate_nan=propagate_nan)
    return _extremum(False, b, raised, high, element=element, propagate_nan=propagate_nan)


@emitter("bitcast")
def bitcast(b: B, x: V, *, element: Element, to: Element) -> V:
    """The same bits as another type of the same width."""
    target = llvm.shaped(to.register, x.type)
    if element.name == "tf32" or to.name == "tf32":
        return b.bitcast(x, target) if x.type != target else x
    return x if x.type == target else b.bitcast(x, target)


@emitter("ftof")
def ftof(b: B, x: V, *, element: Element, to: Element, rounding: str = "nearest_even") -> V:
    """By way of a wider float, rounded once; ``rounding`` as ``numerics.convert.ftof``."""
    return narrow(b, widen(b, x, element), to, rounding)


@emitter("itof")
def itof(
    b: B, x: V, *, element: Element, to: Element, signedness: str, rounding: str = "nearest_even"
) -> V:
    """Rounded once: what f32 cannot hold goes through f64, what f64 cannot through two halves."""
    signed = signedness == "signed"
    bits = llvm.scalar_of(x.type).width
    convert = b.sitofp if signed else b.uitofp
    if rounding == "nearest_even" and to.name in ("f32", "f64"):
        return convert(x, llvm.shaped(to.register, x.type))
    if bits <= 24:
        return narrow(b, convert(x, llvm.shaped(FLOAT, x.type)), to, rounding)
    return narrow(b, directed.exact_double(b, x, signed), to, rounding)


#: Floats hold the limits of integers of so many bits. (LLVM takes saturating conversions of vectors apart, lane by lane.)
_NARROW = 16


def _narrow_integer(b: B, wide: V, target: Type, *, signed: bool) -> V:
    """Clamped as a float, which holds the limits, then converted by way of i32; 0 for NaN."""
    bits = llvm.scalar_of(target).width
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    lowest, highest = (_whole(wide.type, number) for number in (low, high))
    # NaN is below nothing, so that it becomes the lower limit until the end.
    raised = b.select(b.fcmp_ordered(">", wide, lowest), wide, lowest)
    clamped = b.select(b.fcmp_ordered("<", raised, highest), raised, highest)
    found = b.fptosi(clamped, llvm.shaped(I32, wide.type))
    is_number = b.fcmp_ordered("ord", wide, wide)
    return b.trunc(b.select(is_number, found, llvm.number(found.type, 0)), target)


def _wide_integer(b: B, wide: V, target: Type, *, signed: bool) -> V:
    """What fits is converted, the rest replaced afterwards: limits as large as these are no floats, but the powers of two
    behind them are."""
    bits = llvm.scalar_of(target).width
    if signed:
        found = b.fptosi(wide, target)
        low, high, behind = -(1 << bits - 1), (1 << bits - 1) - 1, 1 << bits - 1
        is_above = b.fcmp_ordered(">=", wide, _whole(wide.type, low))
    else:
        found = b.fptoui(wide, target)
        low, high, behind = 0, (1 << bits) - 1, 1 << bits
        is_above = b.fcmp_ordered(">", wide, _whole(wide.type, 0))
    is_behind = b.fcmp_ordered(">=", wide, _whole(wide.type, behind))
    found = b.select(is_behind, llvm.number(target, high), found)
    found = b.select(is_above, found, llvm.number(target, low))
    if not signed:  # NaN is above nothing
        return found
    is_number = b.fcmp_ordered("ord", wide, wide)
    return b.select(is_number, found, llvm.number(target, 0))


def _whole(ty: Type, number: int) -> Constant:
    scalar = ir.Constant(llvm.scalar_of(ty), float(number))
    lanes = llvm.lanes_of(ty)
    return llvm.splat_constant(scalar, lanes) if lanes else scalar


@emitter("ftoi")
def ftoi(
    b: B,
    x: V,
    *,
    element: Element,
    to: Element,
    signedness: str,
    rounding: str = "nearest_int_to_zero",
    saturating: bool = False,
) -> V:
    """Truncated, and clamped to the range of the result; NaN gives 0. Also without ``saturating``, as on all
    machines.
    """
    wide = widen(b, x, element)
    register = to.register
    assert isinstance(register, ir.IntType)
    # The saturating conversions of i1 are not those of LLVM's vector instructions.
    target = llvm.shaped(register if register.width > 1 else ir.IntType(8), x.type)
    if llvm.scalar_of(target).width <= _NARROW:
        found = _narrow_integer(b, wide, target, signed=signedness == "signed")
    elif llvm.lanes_of(target):
        found = _wide_integer(b, wide, target, signed=signedness == "signed")
    else:
        name = "fptosi.sat" if signedness == "signed" else "fptoui.sat"
        found = llvm.intrinsic(b, name, [wide], target, [target, wide.type])
    if register.width > 1:
        return found
    if signedness == "signed":
        return b.icmp_signed("<", found, llvm.number(target, 0))
    return b.icmp_signed("!=", found, llvm.number(target, 0))


@emitter("remf")
def remf(b: B, x: V, y: V, *, element: Element) -> V:
    """The remainder of truncated division, with the sign of the dividend, as C's ``fmod``."""
    wide = [widen(b, v, element) for v in (x, y)]
    return narrow(b, b.frem(*wide), element)
