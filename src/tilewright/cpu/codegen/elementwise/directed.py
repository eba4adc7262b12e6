"""Directed rounding, and operations that rounding to nearest through f32 gets wrong.

f32 and f64 use the processor's rounding mode, around one operation in a function of its own. f16 and bf16 are computed in f64
together with the sign of the error, which is folded into the last bit (rounding to odd), and then rounded
once.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tilewright.cpu.codegen.elementwise.error_free import round_to_odd, two_sum
from tilewright.cpu.codegen.elementwise.formats import narrow, to_double
from tilewright.cpu.codegen.elementwise.narrow_fma import nearest_fma
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import DOUBLE, I32, I64, VOID, Element
from tilewright.cpu.codegen.ir.types import Builder as B
from tilewright.cpu.codegen.ir.types import Value as V

#: LLVM's numbers of rounding modes.
_MODES = {"zero": 0, "nearest_even": 1, "positive_inf": 2, "negative_inf": 3}
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
        return nearest_fma(b, values, element)
    wide = [to_double(b, v, element) for v in values]
    nearest, error = _WIDE[op](b, *wide)
    exact = round_to_odd(b, nearest, error)
    if op in _SUMS and rounding == "negative_inf":
        exact = _negative_zero(b, op, exact, wide)
    return narrow(b, exact, element, rounding)


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
