"""`math`: LLVM intrinsics, calls of libdevice, or single approximate instructions."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation

from tilewright.gpu.codegen import ir
from tilewright.gpu.codegen.arith import (
    check_arithmetic,
    element_of,
    fast_flags,
    intrinsic,
    mangled,
    map_parts,
)
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value

#: Functions with an LLVM instruction sequence, exact or correctly rounded.
_INTRINSICS = {
    "math.absf": "fabs",
    "math.ceil": "ceil",
    "math.floor": "floor",
    "math.trunc": "trunc",
    "math.roundeven": "roundeven",
    "math.sqrt": "sqrt",
    "math.fma": "fma",
    "math.copysign": "copysign",
}
_BIT_COUNTS = {"math.ctlz": "ctlz", "math.cttz": "cttz", "math.ctpop": "ctpop"}

#: The names in libdevice without `__nv_`; those for f32 have the suffix `f`.
_LIBRARY = {
    "arith.remf": "fmod",
    "math.acos": "acos",
    "math.acosh": "acosh",
    "math.asin": "asin",
    "math.asinh": "asinh",
    "math.atan": "atan",
    "math.atanh": "atanh",
    "math.atan2": "atan2",
    "math.cbrt": "cbrt",
    "math.cos": "cos",
    "math.cosh": "cosh",
    "math.erf": "erf",
    "math.exp": "exp",
    "math.exp2": "exp2",
    "math.expm1": "expm1",
    "math.log": "log",
    "math.log10": "log10",
    "math.log1p": "log1p",
    "math.log2": "log2",
    "math.powf": "pow",
    "math.round": "round",
    "math.rsqrt": "rsqrt",
    "math.sin": "sin",
    "math.sinh": "sinh",
    "math.tan": "tan",
    "math.tanh": "tanh",
}
#: The approximate f32 instruction of a function.
_APPROXIMATE = {
    "math.cos": "cos.approx.f32",
    "math.exp2": "ex2.approx.f32",
    "math.log2": "lg2.approx.f32",
    "math.rsqrt": "rsqrt.approx.f32",
    "math.sin": "sin.approx.f32",
    "math.tanh": "tanh.approx.f32",
}
#: Functions computed from those.
_BY_OTHERS = frozenset({"math.exp", "math.log", "math.log10", "math.powf"})
_LOG2_E, _LN_2, _LOG10_2 = 1.4426950408889634, 0.6931471805599453, 0.3010299956639812


@lowers(*_INTRINSICS)
def _intrinsic(f: Function, op: Operation) -> None:
    check_arithmetic(f, op, op.operands[0])
    stem, flags = _INTRINSICS[op.name], fast_flags(op)
    map_parts(f, op, lambda *args: intrinsic(f, stem, *args, flags=flags))


@lowers("math.absi")
def _absolute(f: Function, op: Operation) -> None:
    def make(a: Value) -> Value:
        return f.code.call(f"llvm.abs.{mangled(a.type)}", a.type, [a, Value("i1", "false")])

    map_parts(f, op, make)


@lowers(*_BIT_COUNTS)
def _count_bits(f: Function, op: Operation) -> None:
    stem = _BIT_COUNTS[op.name]

    def make(a: Value) -> Value:
        # Zero must not be poison: all of its bits count.
        more = [] if stem == "ctpop" else [Value("i1", "false")]
        return f.code.call(f"llvm.{stem}.{mangled(a.type)}", a.type, [a, *more])

    map_parts(f, op, make)


@lowers(*_LIBRARY)
def _function(f: Function, op: Operation) -> None:
    check_arithmetic(f, op, op.operands[0])
    chosen = _approximate(f, op) if f.unit.approximate_math or _says_approximate(f, op) else None
    map_parts(f, op, by_element(f, chosen or (lambda *args: _library_call(f, op, args))))


@lowers("math.fpowi")
def _power(f: Function, op: Operation) -> None:
    check_arithmetic(f, op, op.operands[0])
    width = int(element_of(f.parts(op.operands[1])[0].type)[1:])
    if width > 32:
        raise f.refuse(op, "is compiled with exponents of up to 32 bits only")
    f.unit.uses_libdevice = True

    def one(base: Value, exponent: Value) -> Value:
        wide, suffix = _wide(f, base)
        exponent = f.code.resize(exponent, ir.I32, signed=True)
        return _narrow(f, f.code.call(f"__nv_powi{suffix}", wide.type, [wide, exponent]), base.type)

    map_parts(f, op, by_element(f, one))


@lowers("math.ipowi")
def _integer_power(f: Function, op: Operation) -> None:
    """By repeated squaring; a negative power is nonzero for 1 and -1 only."""
    if element_of(f.parts(op.operands[0])[0].type) == ir.I1:
        raise f.refuse(op, "is compiled for integers of more than one bit only")
    map_parts(f, op, by_element(f, lambda a, b: _ipow(f, a, b)))


def _ipow(f: Function, base: Value, power: Value) -> Value:
    ty = base.type
    zero, one = ir.integer(ty, 0), ir.integer(ty, 1)
    is_negative = f.code.compare("slt", power, zero)
    steps = f.code.select(is_negative, f.code.binary("sub", zero, power), power)
    head, turn, end = (f.code.new_block(name) for name in ("power", "square", "powered"))
    result, square, rest = (f.code.phi(head, ty) for _ in range(3))
    f.code.branch(head, [one, base, steps])
    f.code.start(head)
    f.code.branch_if(f.code.compare("ne", rest, zero), turn, end)
    f.code.start(turn)
    is_odd = f.code.cast("trunc", rest, ir.I1)
    following = f.code.select(is_odd, f.code.binary("mul", result, square), result)
    squared = f.code.binary("mul", square, square)
    f.code.branch(head, [following, squared, f.code.binary("lshr", rest, one)])
    f.code.start(end)
    # -1, 0 and 1 are within 3 of -1 as unsigned numbers.
    shifted = f.code.binary("add", base, one)
    is_unit = f.code.binary(
        "and",
        f.code.compare("ult", shifted, ir.integer(ty, 3)),
        f.code.compare("ne", base, zero),
    )
    whole = f.code.binary("or", is_unit, f.code.compare("sge", power, zero))
    return f.code.select(whole, result, zero)


def by_element(f: Function, one: Callable[..., Value], result: str = "") -> Callable[..., Value]:
    """Apply a scalar function to each element of vectors; ``result`` is the type if not that of the first operand."""

    def make(*args: Value) -> Value:
        ty = args[0].type
        element = element_of(ty)
        if ty == element:
            return one(*args)
        made = Value(result or ty, "poison")
        for place in range(int(ty[1 : ty.index(" ")])):
            at = ir.integer(ir.I32, place)
            values = [f.code.element(a, element_of(a.type), at) for a in args]
            made = f.code.with_element(made, one(*values), at)
        return made

    return make


def _wide(f: Function, value: Value) -> tuple[Value, str]:
    """A float in a type of libdevice, and the suffix of its functions."""
    if value.type == ir.F64:
        return value, ""
    return f.code.cast("fpext", value, ir.F32), "f"


def _narrow(f: Function, value: Value, ty: str) -> Value:
    return f.code.cast("fptrunc", value, ty)


def _library_call(f: Function, op: Operation, args: tuple[Value, ...]) -> Value:
    f.unit.uses_libdevice = True
    pairs = [_wide(f, value) for value in args]
    wide = [value for value, _ in pairs]
    name = f"__nv_{_LIBRARY[op.name]}{pairs[0][1]}"
    return _narrow(f, f.code.call(name, wide[0].type, wide), args[0].type)


def _says_approximate(f: Function, op: Operation) -> bool:
    """Whether a fast-math flag permits an approximation, and there is one for f32."""
    flags = op.properties.get("fastmath")
    allowed = isinstance(flags, arith.FastMathFlagsAttr) and FastMathFlag.APPROX_FUNC in flags.data
    is_known = op.name in _APPROXIMATE or op.name in _BY_OTHERS
    return allowed and is_known and element_of(f.parts(op.operands[0])[0].type) == ir.F32


def _approximate(f: Function, op: Operation) -> Callable[..., Value]:
    """The function by approximate instructions. Raises ``TileIRError`` if there are none."""
    name = op.name
    if name not in _APPROXIMATE and name not in _BY_OTHERS:
        raise f.refuse(
            op, "has no approximate instructions", help="compile without approximate math"
        )
    if element_of(f.parts(op.operands[0])[0].type) == ir.F64:
        raise f.refuse(op, "has no approximate instructions for f64")

    def instruction(which: str, a: Value) -> Value:
        return f.code.asm(f"{_APPROXIMATE[which]} $0, $1;", [ir.F32], [a], pure=True)[0]

    def times(a: Value, factor: float) -> Value:
        return f.code.binary("fmul", a, ir.floating(ir.F32, factor))

    def one(*args: Value) -> Value:
        first, *others = (f.code.cast("fpext", a, ir.F32) for a in args)
        if name == "math.exp":
            result = instruction("math.exp2", times(first, _LOG2_E))
        elif name == "math.powf":
            log = instruction("math.log2", first)
            result = instruction("math.exp2", f.code.binary("fmul", log, others[0]))
        elif name in ("math.log", "math.log10"):
            factor = _LN_2 if name == "math.log" else _LOG10_2
            result = times(instruction("math.log2", first), factor)
        else:
            result = instruction(name, first)
        return _narrow(f, result, args[0].type)

    return one
