"""Conversions between float formats: exact decoding to f32, and rounding to a format in any direction.

The functions work on the bits, on scalars and vectors alike, and follow ``numerics.rounding`` bit for bit. Where the
processor has an instruction for a conversion, it is used.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import (
    DOUBLE,
    ELEMENTS,
    FLOAT,
    HALF,
    I16,
    I32,
    I64,
    Element,
    float_constant,
)
from tilewright.cpu.codegen.ir.types import Builder as B
from tilewright.cpu.codegen.ir.types import Constant, Type
from tilewright.cpu.codegen.ir.types import Value as V
from tilewright.numerics.element_types import FORMATS, ElementFormat

_F32, _F64 = FORMATS["f32"], FORMATS["f64"]


def widen(b: B, x: V, element: Element) -> V:
    """The exact value: f64 stays, everything else becomes f32."""
    ty = llvm.scalar_of(x.type)
    if ty in (FLOAT, DOUBLE):
        return x
    single = llvm.shaped(FLOAT, x.type)
    if ty == HALF:
        return b.fpext(x, single) if _converts_half(b) else _decode_half(b, x, single)
    return _DECODERS[element.name](b, x, single)


def to_double(b: B, x: V, element: Element) -> V:
    """The exact value as f64."""
    wide = widen(b, x, element)
    if llvm.scalar_of(wide.type) == DOUBLE:
        return wide
    return b.fpext(wide, llvm.shaped(DOUBLE, wide.type))


def _converts_half(b: B) -> bool:
    """Whether the processor converts between f16 and f32; LLVM would call a library otherwise."""
    target = llvm.target_of(b)
    return not target.is_x86 or target.has("f16c")


def _decode_half(b: B, x: V, single: Type) -> V:
    halves, words = llvm.shaped(I16, x.type), llvm.shaped(I32, x.type)
    bits = b.zext(b.bitcast(x, halves), words)
    magnitude = b.and_(bits, llvm.number(words, 0x7FFF))
    placed = b.bitcast(b.shl(magnitude, llvm.number(words, 13)), single)
    scaled = b.bitcast(b.fmul(placed, llvm.number(single, 2.0**112)), words)
    special = b.icmp_unsigned(">=", magnitude, llvm.number(words, 0x7C00))
    top = b.select(special, llvm.number(words, 0x7F800000), llvm.number(words, 0))
    sign = b.shl(b.and_(bits, llvm.number(words, 0x8000)), llvm.number(words, 16))
    return b.bitcast(b.or_(b.or_(scaled, top), sign), single)


def _decode_bf16(b: B, x: V, single: Type) -> V:
    words = llvm.shaped(I32, x.type)
    return b.bitcast(b.shl(b.zext(x, words), llvm.number(words, 16)), single)


def _through_half(mask: int, shift: int, scale: int, nan: int | None) -> object:
    """A decoder of a format whose bits fit those of f16, but for the bias; exact and without
    subnormal f32 numbers."""

    def decode(b: B, x: V, single: Type) -> V:
        halves, words = llvm.shaped(I16, x.type), llvm.shaped(HALF, x.type)
        bits = b.zext(x, halves)
        field = b.and_(bits, llvm.number(halves, mask))
        placed = b.bitcast(b.shl(field, llvm.number(halves, shift)), words)
        wide = widen(b, placed, ELEMENTS["f16"])
        value = b.fmul(wide, llvm.number(single, 2.0**scale))
        value = _signed(b, value, b.and_(bits, llvm.number(halves, mask + 1)), mask + 1)
        if nan is None:
            return value
        is_nan = b.icmp_unsigned("==", field, llvm.number(halves, nan))
        return b.select(is_nan, splat_bits(single, 0x7FC00000), value)

    return decode


def _signed(b: B, value: V, sign: V, bit: int) -> V:
    """The value with the sign that a bit of an i16 gives."""
    words = llvm.shaped(I32, value.type)
    placed = b.shl(b.zext(sign, words), llvm.number(words, 32 - bit.bit_length()))
    return b.bitcast(b.or_(b.bitcast(value, words), placed), value.type)


def splat_bits(ty: Type, bits: int) -> Constant:
    """A float in every lane, by its bits."""
    return llvm.splat_constant(float_constant(llvm.scalar_of(ty), bits), llvm.lanes_of(ty))


def _decode_e5m2(b: B, x: V, single: Type) -> V:
    halves = llvm.shaped(I16, x.type)
    placed = b.shl(b.zext(x, halves), llvm.number(halves, 8))
    return widen(b, b.bitcast(placed, llvm.shaped(HALF, x.type)), ELEMENTS["f16"])


def _decode_e5m3(b: B, x: V, single: Type) -> V:
    words = llvm.shaped(I32, x.type)
    bits = b.zext(x, words)
    value = b.bitcast(b.shl(bits, llvm.number(words, 20)), single)
    scaled = b.fmul(value, llvm.number(single, 2.0**112))
    is_nan = b.icmp_unsigned("==", bits, llvm.number(words, 0xFF))
    return b.select(is_nan, splat_bits(single, 0x7FC00000), scaled)


def _decode_e8m0(b: B, x: V, single: Type) -> V:
    words = llvm.shaped(I32, x.type)
    bits = b.zext(x, words)
    found = b.shl(bits, llvm.number(words, 23))
    smallest = b.icmp_unsigned("==", bits, llvm.number(words, 0))
    found = b.select(smallest, llvm.number(words, 0x00400000), found)
    is_nan = b.icmp_unsigned("==", bits, llvm.number(words, 0xFF))
    return b.bitcast(b.select(is_nan, llvm.number(words, 0x7FC00000), found), single)


#: The lanes of f32 in the widest vectors of x86.
_LANES_512 = 16

_DECODERS = {
    "bf16": _decode_bf16,
    "f8E4M3FN": _through_half(0x7F, 7, 8, 0x7F),
    "f8E5M2": _decode_e5m2,
    "f4E2M1FN": _through_half(0x7, 9, 14, None),
    "f8E5M3FNU": _decode_e5m3,
    "f8E8M0FNU": _decode_e8m0,
}


def narrow(b: B, x: V, to: Element, rounding: str = "nearest_even") -> V:
    """An f32 or f64 rounded once to a format, as ``numerics.convert.ftof`` does.

    ``rounding`` as Tile IR calls it.
    """
    source = llvm.scalar_of(x.type)
    if rounding == "nearest_even":
        if to.name == "f64":
            return x if source == DOUBLE else b.fpext(x, llvm.shaped(DOUBLE, x.type))
        if to.name == "f32":
            return x if source == FLOAT else b.fptrunc(x, llvm.shaped(FLOAT, x.type))
        if source == FLOAT and to.name == "f16" and _converts_half(b):
            return b.fptrunc(x, llvm.shaped(HALF, x.type))
        if source == FLOAT and to.name == "bf16":
            return _nearest_bf16(b, x)
    elif to.name == "f64" or (to.name == "f32" and source == FLOAT):
        return narrow(b, x, to)
    if not to.format.has_zero:
        return _power_of_two(b, x, to, rounding)
    return _encode(b, x, to, rounding)


def narrow_result(b: B, x: V, to: Element) -> V:
    """What an operation on numbers of a format gives in f32, rounded to the format.

    NaN from arithmetic is quiet, and has nothing in the bits that bf16 lacks, as the operands have nothing
    there: rounding leaves it as it is.
    """
    if to.name != "bf16":
        return narrow(b, x, to)
    return _upper_half(b, _rounded_to_bf16(b, x))


def narrow_slow(b: B, x: V, to: Element) -> V:
    """The quotient or root of numbers of a format, which it has in f32, rounded to the format. LLVM would divide f16 by the
    instruction that there is for it if it saw what is done, which takes one and a half times as long."""
    target, lanes = llvm.target_of(b), llvm.lanes_of(x.type)
    if to.name != "f16" or lanes != _LANES_512 or not target.has("avx512fp16"):
        return narrow_result(b, x, to)
    halves, mask = ir.VectorType(I16, lanes), ir.IntType(lanes)
    types = [x.type, I32, halves, mask]
    function = llvm.declare(b.module, "llvm.x86.avx512.mask.vcvtps2ph.512", halves, types)
    arguments = [x, ir.Constant(I32, 0), llvm.number(halves, 0), ir.Constant(mask, -1)]
    return b.bitcast(b.call(function, arguments), ir.VectorType(HALF, lanes))


def _nearest_bf16(b: B, x: V) -> V:
    rounded = _rounded_to_bf16(b, x)
    is_nan = b.fcmp_unordered("uno", x, x)
    quiet = b.or_(b.bitcast(x, rounded.type), llvm.number(rounded.type, 0x00400000))
    return _upper_half(b, b.select(is_nan, quiet, rounded))


def _rounded_to_bf16(b: B, x: V) -> V:
    """The bits of a number of f32, of which the upper half is the nearest number of bf16."""
    words = llvm.shaped(I32, x.type)
    bits = b.bitcast(x, words)
    odd = b.and_(b.lshr(bits, llvm.number(words, 16)), llvm.number(words, 1))
    return b.add(b.add(bits, llvm.number(words, 0x7FFF)), odd)


def _upper_half(b: B, bits: V) -> V:
    return b.trunc(b.lshr(bits, llvm.number(bits.type, 16)), llvm.shaped(I16, bits.type))


def _parts(b: B, x: V) -> tuple[ElementFormat, Type, V, V]:
    """The format of an f32 or f64, the integers of its width, its sign bit moved to bit 0, and its
    magnitude."""
    fmt = _F32 if llvm.scalar_of(x.type) == FLOAT else _F64
    words = llvm.shaped(I32 if fmt is _F32 else I64, x.type)
    bits = b.bitcast(x, words)
    sign = b.lshr(bits, llvm.number(words, fmt.bits - 1))
    return fmt, words, sign, b.and_(bits, llvm.number(words, fmt.magnitude_mask))


def _encode(b: B, x: V, to: Element, rounding: str) -> V:
    fmt = to.format
    source, words, sign, magnitude = _parts(b, x)
    if rounding == "nearest_even" and source.min_exponent < fmt.min_exponent:
        code = _nearest_code(b, magnitude, x.type, source, fmt)
        code = _bounded(b, code, magnitude, source, fmt, rounding, sign)
        return _finished(b, code, sign, to, x)

    def const(value: int) -> Constant:
        return llvm.number(words, value)

    field = b.lshr(magnitude, const(source.mantissa_bits))
    mantissa = b.and_(magnitude, const((1 << source.mantissa_bits) - 1))
    normal = b.icmp_unsigned("!=", field, const(0))
    significand = b.or_(mantissa, b.select(normal, const(1 << source.mantissa_bits), const(0)))
    exponent = b.select(normal, field, const(1))
    # How far the exponent lies above the smallest of the target; below, the unit is larger.
    above = b.sub(exponent, const(fmt.min_exponent + source.bias))
    is_above = b.icmp_signed(">", above, const(0))
    steps = b.select(is_above, above, const(0))
    lost = b.select(is_above, const(0), b.neg(above))
    most = source.precision + 2
    shift = b.add(lost, const(source.mantissa_bits - fmt.mantissa_bits))
    shift = b.select(b.icmp_unsigned("<", shift, const(most)), shift, const(most))
    units = b.lshr(significand, shift)
    rest = b.sub(significand, b.shl(units, shift))
    half = b.lshr(b.shl(const(1), shift), const(1))
    up = _rounds_up(b, rounding, units, rest, half, sign)
    units = b.add(units, b.zext(up, words))
    code = b.add(units, b.shl(steps, const(fmt.mantissa_bits)))
    code = _bounded(b, code, magnitude, source, fmt, rounding, sign)
    return _finished(b, code, sign, to, x)


def _nearest_code(b: B, magnitude: V, floats: Type, source: ElementFormat, fmt: ElementFormat) -> V:
    """The code of the nearest number of a format with fewer exponents, as if its largest had no end: normal numbers rounded by their
    bits, subnormal ones by a sum with a number whose last bit is their unit."""

    def const(value: int) -> Constant:
        return llvm.number(magnitude.type, value)

    shift, kept = source.mantissa_bits - fmt.mantissa_bits, fmt.mantissa_bits
    odd = b.and_(b.lshr(magnitude, const(shift)), const(1))
    rounded = b.add(b.add(magnitude, const((1 << shift - 1) - 1)), odd)
    first = fmt.min_exponent + source.bias
    normal = b.sub(b.lshr(rounded, const(shift)), const(first - 1 << kept))
    unit = fmt.min_exponent - kept + source.mantissa_bits
    total = b.fadd(b.bitcast(magnitude, floats), llvm.number(floats, 2.0**unit))
    subnormal = b.sub(
        b.bitcast(total, magnitude.type), const(unit + source.bias << source.mantissa_bits)
    )
    is_small = b.icmp_unsigned("<", magnitude, const(first << source.mantissa_bits))
    return b.select(is_small, subnormal, normal)


def _rounds_up(b: B, rounding: str, units: V, rest: V, half: V, sign: V) -> V:
    zero = llvm.number(rest.type, 0)
    if rounding in ("nearest_even", "nearest_away"):
        beyond = b.icmp_unsigned(">", rest, half)
        tie = b.and_(b.icmp_unsigned("==", rest, half), b.icmp_unsigned("!=", rest, zero))
        if rounding == "nearest_even":
            odd = b.trunc(units, llvm.shaped(ir.IntType(1), units.type))
            tie = b.and_(tie, odd)
        return b.or_(beyond, tie)
    inexact = b.icmp_unsigned("!=", rest, zero)
    negative = b.icmp_unsigned("!=", sign, zero)
    if rounding == "positive_inf":
        return b.and_(inexact, b.not_(negative))
    if rounding == "negative_inf":
        return b.and_(inexact, negative)
    return llvm.splat_constant(ir.Constant(ir.IntType(1), 0), llvm.lanes_of(rest.type))


def _bounded(
    b: B,
    code: V,
    magnitude: V,
    source: ElementFormat,
    fmt: ElementFormat,
    rounding: str,
    sign: V,
) -> V:
    """What is beyond the largest value, infinities, and NaN."""

    def const(value: int) -> Constant:
        return llvm.number(code.type, value)

    largest = const(fmt.max_finite_bits)
    if fmt.bits <= 8:
        # Infinity has a larger code than any number.
        code = llvm.intrinsic(b, "umin", [code, largest])
    else:
        too_large = b.icmp_unsigned(">", code, largest)
        infinite = b.icmp_unsigned(">=", magnitude, const(source.inf_bits))
        beyond: V = const(fmt.inf_bits)
        stays = {"zero": const(1), "negative_inf": None, "positive_inf": None}.get(rounding, 0)
        if stays != 0:
            negative = b.icmp_unsigned("!=", sign, const(0))
            finite = b.not_(infinite)
            if rounding == "negative_inf":
                finite = b.and_(finite, b.not_(negative))
            elif rounding == "positive_inf":
                finite = b.and_(finite, negative)
            beyond = b.select(finite, largest, beyond)
        code = b.select(b.or_(too_large, infinite), beyond, code)
    is_nan = b.icmp_unsigned(">", magnitude, const(source.inf_bits))
    nan = fmt.max_finite_bits if fmt.nan == "none" else fmt.nan_bits
    return b.select(is_nan, const(nan), code)


def _finished(b: B, code: V, sign: V, to: Element, x: V) -> V:
    """The register value of a magnitude and a sign."""
    fmt = to.format
    if fmt.signed:
        if fmt.nan == "none":
            # NaN becomes the largest positive value.
            is_nan = b.fcmp_unordered("uno", x, x)
            sign = b.select(is_nan, llvm.number(sign.type, 0), sign)
        code = b.or_(code, b.shl(sign, llvm.number(code.type, fmt.bits - 1)))
    if to.name == "tf32":
        code = b.shl(code, llvm.number(code.type, 13))
    scalar = to.register
    width = {HALF: 16, FLOAT: 32}.get(scalar) or scalar.width
    words = llvm.shaped(ir.IntType(width), x.type)
    code = code if code.type == words else b.trunc(code, words)
    return code if isinstance(scalar, ir.IntType) else b.bitcast(code, llvm.shaped(scalar, x.type))


def _power_of_two(b: B, x: V, to: Element, rounding: str) -> V:
    """f8E8M0FNU: the magnitude as a power of two, at least the smallest."""
    fmt = to.format
    source, words, _, magnitude = _parts(b, x)

    def const(value: int) -> Constant:
        return llvm.number(words, value)

    up_from = {"zero": None, "negative_inf": None, "positive_inf": 1}.get(
        rounding, 1 << (source.mantissa_bits - 1)
    )
    if source is _F32:
        # The smallest power, 2**-127, is a subnormal f32 with one bit set.
        x = b.fpext(b.bitcast(magnitude, x.type), llvm.shaped(DOUBLE, x.type))
        return _power_of_two(b, x, to, rounding)
    field = b.lshr(magnitude, const(source.mantissa_bits))
    mantissa = b.and_(magnitude, const((1 << source.mantissa_bits) - 1))
    power = field
    if up_from is not None:
        up = b.icmp_unsigned(">=", mantissa, const(up_from))
        power = b.add(field, b.zext(up, words))
    code = b.sub(power, const(source.bias - fmt.bias))
    code = b.select(b.icmp_signed("<", code, const(0)), const(0), code)
    code = _bounded(b, code, magnitude, source, fmt, rounding, code)
    return b.trunc(code, llvm.shaped(to.register, x.type))
