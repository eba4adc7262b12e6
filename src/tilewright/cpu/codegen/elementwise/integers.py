"""Integers modulo 2**N, with the results of ``numerics.int_ops`` where Tile IR defines none.

An i1 is computed as the number 0 or 1 if read as unsigned, 0 or -1 if read as signed.
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir

from tilewright.cpu.codegen.elementwise.table import PREDICATES, emitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I8, I64, PTR, Element
from tilewright.cpu.codegen.ir.types import Builder as B
from tilewright.cpu.codegen.ir.types import Constant
from tilewright.cpu.codegen.ir.types import Value as V


def _wrapping(method: str, b: B, x: V, y: V, *, element: Element, overflow: str = "none") -> V:
    return getattr(b, method)(x, y)


emitter("addi")(partial(_wrapping, "add"))
emitter("subi")(partial(_wrapping, "sub"))
emitter("muli")(partial(_wrapping, "mul"))


@emitter("negi")
def negi(b: B, x: V, *, element: Element, overflow: str = "none") -> V:
    """Two's complement, which wraps; ``overflow`` promises nothing that is used."""
    return b.neg(x)


@emitter("absi")
def absi(b: B, x: V, *, element: Element) -> V:
    """The smallest number stays, as ``numerics.int_ops.absi``; an i1 is its own magnitude."""
    if element.name == "i1":
        return x
    return b.select(b.icmp_signed("<", x, llvm.number(x.type, 0)), b.neg(x), x)


@emitter("mulhii")
def mulhii(b: B, x: V, y: V, *, element: Element) -> V:
    """The upper half of the unsigned product."""
    bits = llvm.scalar_of(x.type).width
    wide = llvm.shaped(ir.IntType(bits * 2), x.type)
    product = b.mul(b.zext(x, wide), b.zext(y, wide))
    return b.trunc(b.lshr(product, llvm.number(wide, bits)), x.type)


def _bitwise(method: str, b: B, x: V, y: V, *, element: Element) -> V:
    return getattr(b, method)(x, y)


emitter("andi")(partial(_bitwise, "and_"))
emitter("ori")(partial(_bitwise, "or_"))
emitter("xori")(partial(_bitwise, "xor"))


def _extremum(predicate: str, b: B, x: V, y: V, *, element: Element, signedness: str) -> V:
    compare = b.icmp_signed if signedness == "signed" else b.icmp_unsigned
    return b.select(compare(predicate, x, y), x, y)


emitter("maxi")(partial(_extremum, ">"))
emitter("mini")(partial(_extremum, "<"))


@emitter("cmpi")
def cmpi(
    b: B, x: V, y: V, *, element: Element, comparison_predicate: str, signedness: str = "signed"
) -> V:
    """A vector of i1. Pointers are numbers of 64 bits."""
    compare = b.icmp_signed if signedness == "signed" else b.icmp_unsigned
    return compare(PREDICATES[comparison_predicate], x, y)


@emitter("shli")
def shli(b: B, x: V, y: V, *, element: Element, overflow: str = "none") -> V:
    """Amounts of N or more give 0."""
    fits = b.icmp_unsigned("<", y, _width(y))
    return b.select(fits, b.shl(x, _clamped(b, y, fits)), llvm.number(x.type, 0))


@emitter("shri")
def shri(b: B, x: V, y: V, *, element: Element, signedness: str) -> V:
    """Amounts of N or more leave only the fill."""
    fits = b.icmp_unsigned("<", y, _width(y))
    if signedness == "signed":
        most = llvm.number(y.type, llvm.scalar_of(y.type).width - 1)
        return b.ashr(x, b.select(fits, y, most))
    return b.select(fits, b.lshr(x, _clamped(b, y, fits)), llvm.number(x.type, 0))


def _width(amount: V) -> Constant:
    bits = llvm.scalar_of(amount.type).width
    return llvm.number(amount.type, bits if bits > 1 else 1)


def _clamped(b: B, amount: V, fits: V) -> V:
    """A legal amount, whatever it was: vector shifts by too much are poison also where masked."""
    return b.select(fits, amount, llvm.number(amount.type, 0))


@emitter("divi")
def divi(b: B, x: V, y: V, *, element: Element, signedness: str, rounding: str = "zero") -> V:
    """0 for a zero divisor; the dividend for the smallest number by -1."""
    if element.name == "i1":
        return _through_i8(divi, b, x, y, signedness=signedness, rounding=rounding)
    if signedness == "signed" and rounding == "negative_inf" and (by := _positive(y)):
        return _floor_by(b, x, by)
    zero = llvm.number(x.type, 0)
    by_zero = b.icmp_signed("==", y, zero)
    if signedness == "unsigned":
        divisor = b.select(by_zero, llvm.number(y.type, 1), y)
        quotient, rest = _quotient_and_rest(b, x, y, divisor, signed=False)
        if rounding == "positive_inf":
            inexact = b.icmp_unsigned("!=", rest, zero)
            quotient = b.add(quotient, b.zext(inexact, x.type))
        return b.select(by_zero, zero, quotient)
    divisor, by_minus_one = _safe_divisor(b, y, by_zero)
    quotient, rest = _quotient_and_rest(b, x, y, divisor, signed=True)
    if rounding != "zero":
        inexact = b.icmp_signed("!=", rest, zero)
        same_sign = b.icmp_signed(">=", b.xor(rest, divisor), zero)
        if rounding == "positive_inf":
            quotient = b.add(quotient, b.zext(b.and_(inexact, same_sign), x.type))
        else:
            quotient = b.add(quotient, b.sext(b.and_(inexact, b.not_(same_sign)), x.type))
    return b.select(by_zero, zero, b.select(by_minus_one, b.neg(x), quotient))


def _positive(y: V) -> int:
    """The positive number that a divisor is known to be; 0 where it is none, or not known."""
    lane = y.lane if isinstance(y, llvm.Splat) else y
    number = llvm.signed_of(lane) if isinstance(lane, ir.Constant) else None
    return max(number or 0, 0)


def _floor_by(b: B, x: V, by: int) -> V:
    """The quotient by a positive number, rounded down: of a negative one that of its complement, complemented. That of a number without
    sign, which has a bit less than the type, is the upper half of a product, shifted."""
    bits, shift = llvm.scalar_of(x.type).width, (by - 1).bit_length()
    if by == 1 << shift:
        return b.ashr(x, llvm.number(x.type, shift))
    sign = b.ashr(x, llvm.number(x.type, bits - 1))
    magnitude = b.and_(b.xor(x, sign), llvm.number(x.type, (1 << bits - 1) - 1))
    return b.xor(b.udiv(magnitude, llvm.number(x.type, by)), sign)


@emitter("remi")
def remi(b: B, x: V, y: V, *, element: Element, signedness: str) -> V:
    """0 for a zero divisor, and for the smallest number by -1."""
    if element.name == "i1":
        return _through_i8(remi, b, x, y, signedness=signedness)
    zero = llvm.number(x.type, 0)
    by_zero = b.icmp_signed("==", y, zero)
    if signedness == "unsigned":
        divisor = b.select(by_zero, llvm.number(y.type, 1), y)
        return b.select(by_zero, zero, _quotient_and_rest(b, x, y, divisor, signed=False)[1])
    divisor, _ = _safe_divisor(b, y, by_zero)
    return b.select(by_zero, zero, _quotient_and_rest(b, x, y, divisor, signed=True)[1])


def _quotient_and_rest(b: B, x: V, y: V, divisor: V, *, signed: bool) -> tuple[V, V]:
    """A quotient rounded to zero and what it leaves, by ``y`` as a divisor that does not trap. Processors divide whole vectors of
    floats only: numbers of up to 32 bits go through f64. A quotient that is no integer is at least 2**-32 of itself away
    from one, and so stays on its side when it is rounded to 53 bits."""
    width = llvm.scalar_of(x.type).width
    if not llvm.lanes_of(x.type) or width > 32 or isinstance(y, ir.Constant):
        divide, remainder = (b.sdiv, b.srem) if signed else (b.udiv, b.urem)
        return divide(x, divisor), remainder(x, divisor)
    ty = llvm.shaped(ir.DoubleType(), x.type)
    to, back = (b.sitofp, b.fptosi) if signed else (b.uitofp, b.fptoui)
    dividend, inverse = to(x, ty), _inverse(b, y, signed=signed)
    if inverse is None:
        quotient = b.fdiv(dividend, to(divisor, ty))
    else:
        # So that rounding twice does not reach the next integer: the exact quotient is half a part away from each.
        half = llvm.number(ty, 0.5)
        if signed:
            half = llvm.intrinsic(b, "copysign", [half, dividend], ty)
        quotient = b.fmul(b.fadd(dividend, half), inverse)
    quotient = back(quotient, x.type)
    return quotient, b.sub(x, b.mul(quotient, divisor))


def _inverse(b: B, y: V, *, signed: bool) -> V | None:
    """One over a divisor that is the same in all lanes, in f64; None where the lanes may differ. LLVM moves it ahead of the
    loop. Divisors with which division would trap count as 1."""
    if (one := llvm.splatted(y)) is None:
        return None
    by_zero = b.icmp_signed("==", one, llvm.number(one.type, 0))
    if signed:
        safe, _ = _safe_divisor(b, one, by_zero)
    else:
        safe = b.select(by_zero, llvm.number(one.type, 1), one)
    wide = (b.sitofp if signed else b.uitofp)(safe, ir.DoubleType())
    return llvm.splat(b, b.fdiv(ir.Constant(ir.DoubleType(), 1.0), wide), llvm.lanes_of(y.type))


def _safe_divisor(b: B, y: V, by_zero: V) -> tuple[V, V]:
    """A divisor with which division does not trap, and where it replaces -1: 1 has its remainder."""
    by_minus_one = b.icmp_signed("==", y, llvm.number(y.type, -1))
    return b.select(b.or_(by_zero, by_minus_one), llvm.number(y.type, 1), y), by_minus_one


def _through_i8(function: object, b: B, x: V, y: V, *, signedness: str, **attributes: str) -> V:
    ty = llvm.shaped(I8, x.type)
    extend = b.sext if signedness == "signed" else b.zext
    wide = [extend(value, ty) for value in (x, y)]
    result = function(b, *wide, element=_I8_ELEMENT, signedness=signedness, **attributes)  # pyright: ignore[reportCallIssue]
    return b.trunc(result, x.type)


_I8_ELEMENT = Element("i8", I8, I8, 1)


@emitter("exti")
def exti(b: B, x: V, *, element: Element, to: Element, signedness: str) -> V:
    """Sign or zero bits in front; an i4 lies in the lower half of a byte."""
    ty = llvm.shaped(to.register, x.type)
    if element.name == "i4":
        four = llvm.number(x.type, 4)
        raised = b.shl(x, four)
        x = b.ashr(raised, four) if signedness == "signed" else b.lshr(raised, four)
    if x.type == ty:
        return x
    return b.sext(x, ty) if signedness == "signed" else b.zext(x, ty)


@emitter("trunci")
def trunci(b: B, x: V, *, element: Element, to: Element, overflow: str = "none") -> V:
    """The lower bits; an i4 is kept in the lower half of a byte, with zeros above."""
    ty = llvm.shaped(to.register, x.type)
    if to.name == "i4":
        narrow = x if x.type == ty else b.trunc(x, ty)
        return b.and_(narrow, llvm.number(ty, 15))
    return x if x.type == ty else b.trunc(x, ty)


def index_cast(b: B, x: V, *, element: Element, to: Element, signedness: str) -> V:
    """Between integers and index, which has 64 bits."""
    if to.register == x.type or llvm.scalar_of(x.type) == to.register:
        return x
    if llvm.scalar_of(x.type).width > to.register.width:
        return b.trunc(x, llvm.shaped(to.register, x.type))
    return exti(b, x, element=element, to=to, signedness=signedness)


@emitter("select")
def select(b: B, condition: V, x: V, y: V, *, element: Element) -> V:
    """``condition`` is an i1 for each element, or one for all."""
    found = b.select(condition, x, y)
    keys = llvm.key_of(b, x), llvm.key_of(b, y)
    if keys[0] is not None and keys[1] is not None:
        llvm.set_key(b, found, b.select(condition, *keys))
    return found


@emitter("offset")
def offset(b: B, pointers: V, offsets: V, *, element: Element, pointee: Element) -> V:
    """Offsets are signed and count elements."""
    ty = llvm.shaped(I64, pointers.type)
    wide = offsets if offsets.type == ty else b.sext(offsets, ty)
    size = pointee.memory_bytes
    distance = wide if size == 1 else b.mul(wide, llvm.number(ty, size))
    return b.add(pointers, distance)


@emitter("int_to_ptr", "ptr_to_int", "ptr_to_ptr")
def same_address(b: B, x: V, *, element: Element) -> V:
    """Pointers are numbers of 64 bits in registers."""
    return x


def pointer(b: B, address: V) -> V:
    """The LLVM pointer of an address, or the pointers of a vector of addresses."""
    return b.inttoptr(address, llvm.shaped(PTR, address.type))
