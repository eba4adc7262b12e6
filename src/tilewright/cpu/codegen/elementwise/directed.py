"""Directed rounding, and operations that rounding to nearest through f32 gets wrong.

f32 and f64 use the processor's rounding mode, around one operation in a function of its own. f16 and bf16 are computed in f64
together with the sign of the error, which is folded into the last bit (rounding to odd), and then rounded
once.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tilewright.cpu.codegen.elementwise.formats import narrow, narrow_result, to_double, widen
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import DOUBLE, FLOAT, I32, I64, VOID, Element
from tilewright.cpu.codegen.ir.types import Builder as B
from tilewright.cpu.codegen.ir.types import Value as V

#: LLVM's numbers of rounding modes.
_MODES = {"zero": 0, "nearest_even": 1, "positive_inf": 2, "negative_inf": 3}
#: What AVX-512 instructions take for a direction, without exceptions.
_EMBEDDED = {"down": 9, "up": 10, "cut": 11}
_LANES = 16
_CONSTRAINED = {
    "addf": "fadd",
    "subf": "fsub",
    "mulf": "fmul",
    "divf": "fdiv",
    "sqrt": "sqrt",
    "fma": "fma",
}
#: Where opposite numbers cancel, the sign of the zero is that of the rounding.
_SUMS = ("addf", "subf", "fma")


def rounded(op: str, b: B, values: tuple[V, ...], element: Element, rounding: str) -> V:
    """``op`` rounded once in any direction; ``rounding`` as Tile IR calls it.

    f32 and f64 are computed in that direction. Others go through f64, rounded to odd, from which a second rounding is
    exact.
    """
    if element.name in ("f32", "f64"):
        return b.call(_directed_function(b.module, op, values, rounding), list(values))
    if op == "fma" and rounding == "nearest_even":
        return _nearest_fma(b, values, element)
    wide = [to_double(b, v, element) for v in values]
    nearest, error = _WIDE[op](b, *wide)
    exact = round_to_odd(b, nearest, error)
    if op in _SUMS and rounding == "negative_inf":
        exact = _negative_zero(b, op, exact, wide)
    return narrow(b, exact, element, rounding)


def _nearest_fma(b: B, values: tuple[V, ...], element: Element) -> V:
    """Products of f16 are exact in f32, and their sums are rounded to odd there. bf16 has the range of f32: sums are rounded to
    odd by an instruction in each direction, or mended where rounding to nearest is not enough."""
    if element.name == "f16":
        if llvm.target_of(b).has("avx512fp16"):
            return llvm.intrinsic(b, "fma", values)
        nearest, error = _fma(b, *(widen(b, v, element) for v in values))
        return narrow(b, round_to_odd(b, nearest, error), element)
    wide = [widen(b, v, element) for v in values]
    if llvm.target_of(b).has("avx512f") and llvm.lanes_of(values[0].type) in (_LANES, 2 * _LANES):
        return narrow_result(b, _odd_fma(b, *wide), element)
    return narrow_result(b, _mended_fma(b, *wide), element)


def _mended_fma(b: B, lhs: V, rhs: V, acc: V) -> V:
    """A fused product and sum of numbers of bf16, in f32, which rounded once more, to bf16, is as if rounded once.

    Two roundings to nearest go wrong only where the first one, inexact, ends in the middle of two numbers of bf16; the
    error of the sum tells the side then. It is that of the exact product: one below 2**-134 has no middle in reach of a
    number of bf16, as none is 65535 * 2**-150, and larger ones are exact, for they have 16 bits. Where they overflow, sums in
    the range of f32 are exact, and the error is NaN.
    """
    nearest = llvm.intrinsic(b, "fma", [lhs, rhs, acc])
    words = llvm.shaped(I32, nearest.type)
    bits = b.bitcast(nearest, words)
    lower = b.and_(bits, llvm.number(words, 0xFFFF))
    middle = b.icmp_signed("==", lower, llvm.number(words, 0x8000))
    error = _error_of_sum(b, b.fmul(lhs, rhs), acc, nearest)
    return b.bitcast(_toward(b, bits, error, where=middle), nearest.type)


def _odd_fma(b: B, lhs: V, rhs: V, acc: V) -> V:
    """``lhs * rhs + acc`` in f32, rounded to odd: toward zero, and the last bit set if the results
    downward and upward differ. Subnormal results and overflow need no care: the largest number is
    odd, and zero toward zero keeps its sign."""
    lanes = llvm.lanes_of(lhs.type)
    if lanes > _LANES:
        halves = [range(lanes // 2), range(lanes // 2, lanes)]
        first, second = (
            _odd_fma(b, *(llvm.shuffle(b, v, v, half) for v in (lhs, rhs, acc))) for half in halves
        )
        return llvm.shuffle(b, first, second, range(lanes))
    down, up, cut = (_fma_rounded(b, (lhs, rhs, acc), mode) for mode in ("down", "up", "cut"))
    words = llvm.shaped(I32, cut.type)
    bits = b.bitcast(cut, words)
    inexact = b.fcmp_ordered("!=", down, up)
    odd = b.or_(bits, llvm.number(words, 1))
    return b.bitcast(b.select(inexact, odd, bits), cut.type)


def _fma_rounded(b: B, values: tuple[V, V, V], mode: str) -> V:
    """The fused product and sum of full AVX-512 registers, which the instruction rounds itself."""
    ty = values[0].type
    name = "llvm.x86.avx512.vfmadd.ps.512"
    function = llvm.declare(b.module, name, ty, [ty, ty, ty, I32])
    return b.call(function, [*values, ir.Constant(I32, _EMBEDDED[mode])])


def _directed_function(
    module: ir.Module, op: str, values: tuple[V, ...], rounding: str
) -> ir.Function:
    ty = values[0].type
    name = f"tilewright.{op}.{rounding}.{llvm.type_suffix(ty)}"
    found = module.globals.get(name)
    if isinstance(found, ir.Function):
        return found
    function = ir.Function(module, ir.FunctionType(ty, [ty] * len(values)), name)
    function.linkage = "internal"
    for attribute in ("noinline", "strictfp"):
        llvm.add_attribute(function, attribute)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    set_mode = llvm.declare(module, "llvm.set.rounding", VOID, [I32])
    b.call(set_mode, [ir.Constant(I32, _MODES[rounding])])
    intrinsic = f"llvm.experimental.constrained.{_CONSTRAINED[op]}.{llvm.type_suffix(ty)}"
    meta = ir.MetaDataType()
    operation = llvm.declare(module, intrinsic, ty, [*[ty] * len(values), meta, meta])
    strings = [ir.MetaDataString(module, text) for text in ("round.dynamic", "fpexcept.strict")]
    operands = function.args
    if rounding == "negative_inf" and op in _SUMS:
        operands = [_unknown(b, value) for value in operands]
    result = b.call(operation, [*operands, *strings])
    b.call(set_mode, [ir.Constant(I32, _MODES["nearest_even"])])
    b.ret(result)
    return function


def _unknown(b: B, value: V) -> V:
    """The value, of which LLVM cannot tell what it is. It computes what is exact itself, where it finds numbers
    in all calls, and takes a sum of nothing for +0 then, whatever the rounding."""
    fence = llvm.declare(
        b.module, f"llvm.arithmetic.fence.{llvm.type_suffix(value.type)}", value.type, [value.type]
    )
    return b.call(fence, [value])


def two_sum(b: B, lhs: V, rhs: V) -> tuple[V, V]:
    """The sum and its error (Knuth's 2Sum)."""
    total = b.fadd(lhs, rhs)
    return total, _error_of_sum(b, lhs, rhs, total)


def _error_of_sum(b: B, lhs: V, rhs: V, total: V) -> V:
    """What a sum rounded to nearest lacks."""
    virtual = b.fsub(total, lhs)
    return b.fadd(b.fsub(lhs, b.fsub(total, virtual)), b.fsub(rhs, virtual))


def _add(b: B, lhs: V, rhs: V) -> tuple[V, V]:
    return two_sum(b, lhs, rhs)


def _sub(b: B, lhs: V, rhs: V) -> tuple[V, V]:
    return two_sum(b, lhs, b.fneg(rhs))


def _mul(b: B, lhs: V, rhs: V) -> tuple[V, V]:
    product = b.fmul(lhs, rhs)
    return product, llvm.number(product.type, 0.0)


def _div(b: B, lhs: V, rhs: V) -> tuple[V, V]:
    quotient = b.fdiv(lhs, rhs)
    rest = llvm.intrinsic(b, "fma", [b.fneg(quotient), rhs, lhs])
    sign = llvm.intrinsic(b, "copysign", [llvm.number(rhs.type, 1.0), rhs])
    return quotient, b.fmul(rest, sign)


def _sqrt(b: B, source: V) -> tuple[V, V]:
    root = llvm.intrinsic(b, "sqrt", [source])
    return root, llvm.intrinsic(b, "fma", [b.fneg(root), root, source])


def _fma(b: B, lhs: V, rhs: V, acc: V) -> tuple[V, V]:
    return two_sum(b, b.fmul(lhs, rhs), acc)


_WIDE: dict[str, Callable[..., tuple[V, V]]] = {
    "addf": _add,
    "subf": _sub,
    "mulf": _mul,
    "divf": _div,
    "sqrt": _sqrt,
    "fma": _fma,
}
"""f64 results with a value of the sign of the error, for operands exact in f32."""


def round_to_odd(b: B, nearest: V, error: V) -> V:
    """``nearest + error`` rounded to odd; only the sign of the error matters. Where there is one, ``nearest`` is not 0."""
    word = I32 if llvm.scalar_of(nearest.type) == FLOAT else I64
    words = llvm.shaped(word, nearest.type)
    bits = b.bitcast(nearest, words)
    last = b.and_(bits, llvm.number(words, 1))
    even = b.icmp_signed("==", last, llvm.number(words, 0))
    return b.bitcast(_toward(b, bits, error, where=even), nearest.type)


def _toward(b: B, bits: V, error: V, where: V) -> V:
    """The next number in the direction of an error, by the bits of numbers and in some lanes; the same where the error is 0 or
    NaN, as it is of infinities."""
    words = bits.type
    differ = b.xor(b.bitcast(error, words), bits)
    away = b.ashr(differ, llvm.number(words, llvm.scalar_of(words).width - 1))
    step = b.or_(away, llvm.number(words, 1))
    inexact = b.fcmp_ordered("!=", error, llvm.number(error.type, 0.0))
    return b.add(bits, b.select(b.and_(where, inexact), step, llvm.number(words, 0)))


def _negative_zero(b: B, op: str, result: V, operands: list[V]) -> V:
    """-0 where opposite values cancel, as downward rounding asks."""
    first, second = operands[0], operands[1]
    if op == "fma":
        first, second = b.fmul(first, second), operands[2]
    words = llvm.shaped(I64, result.type)
    signs = b.xor(b.bitcast(first, words), b.bitcast(second, words))
    none = llvm.number(words, 0)
    opposite = b.icmp_signed("<" if op != "subf" else ">=", signs, none)
    zero = b.fcmp_ordered("==", result, llvm.number(result.type, 0.0))
    return b.select(b.and_(zero, opposite), llvm.number(result.type, -0.0), result)


def exact_double(b: B, x: V, signed: bool) -> V:
    """An integer as f64: exact up to 53 bits, else rounded to odd, so that a further rounding is as if there were no
    other.
    """
    double = llvm.shaped(DOUBLE, x.type)
    convert = b.sitofp if signed else b.uitofp
    if llvm.scalar_of(x.type).width <= 32:
        return convert(x, double)
    half = llvm.number(x.type, 32)
    high = (b.ashr if signed else b.lshr)(x, half)
    low = b.and_(x, llvm.number(x.type, 0xFFFFFFFF))
    scaled = b.fmul(convert(high, double), llvm.number(double, 2.0**32))
    return round_to_odd(b, *two_sum(b, scaled, b.uitofp(low, double)))
