"""Formulas over vectors of floats and integers, written as formulas and emitted as LLVM IR.

A ``Value`` is an LLVM value of scalar or vector type; operators give the plain IEEE instructions,
each rounded to nearest, none contracted. Numbers beside a value are taken for constants of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.launching.native_code import ir

#: Adding this to a small enough float rounds it to an integer, which stands in the low bits then.
_MAGIC = {32: 1.5 * 2.0**23, 64: 1.5 * 2.0**52}
_FRACTION_BITS = {32: 23, 64: 52}
_BIAS = {32: 127, 64: 1023}
_FLOAT = {32: ir.FloatType(), 64: ir.DoubleType()}
_BOOL = ir.IntType(1)
#: The feature that has an instruction for scaling, by the width of the vectors.
_SCALES = {128: "avx512vl", 256: "avx512vl", 512: "avx512f"}
_WIDEST = 512
_CURRENT_ROUNDING = 4

Number = int | float


class Splat(ir.Constant):
    """A vector constant with one number in every lane, printed as short as LLVM allows."""

    def __init__(self, ty: ir.VectorType, scalar: ir.Constant) -> None:
        self.type = ty
        self.constant = scalar

    def get_reference(self) -> str:
        """The constant as LLVM's text has it."""
        return f"splat ({self.constant})"


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value with the formulas that it is used in."""

    f: Formulas
    llvm: Any
    """An ``ir.Value``; llvmlite has no type annotations."""

    @property
    def is_float(self) -> bool:
        """Whether the lanes are numbers of floating point."""
        return isinstance(_element(self.llvm.type), (ir.FloatType, ir.DoubleType))

    @property
    def bits(self) -> int:
        """The width of a lane."""
        element = _element(self.llvm.type)
        return element.width if isinstance(element, ir.IntType) else _bits_of(element)

    def lift(self, other: Operand) -> Any:
        """The other operand of an operation; a number becomes a constant of this type."""
        return other.llvm if isinstance(other, Value) else self.f.splat(self.llvm.type, other)

    def _binary(self, other: Operand, name: str, reverse: bool = False) -> Value:
        pair = (self.llvm, self.lift(other))
        operate = getattr(self.f.builder, name)
        return Value(self.f, operate(*(reversed(pair) if reverse else pair)))

    def __add__(self, other: Operand) -> Value:
        return self._binary(other, "fadd" if self.is_float else "add")

    def __sub__(self, other: Operand) -> Value:
        return self._binary(other, "fsub" if self.is_float else "sub")

    def __rsub__(self, other: Number) -> Value:
        return self._binary(other, "fsub" if self.is_float else "sub", reverse=True)

    def __mul__(self, other: Operand) -> Value:
        return self._binary(other, "fmul" if self.is_float else "mul")

    def __truediv__(self, other: Operand) -> Value:
        return self._binary(other, "fdiv")

    def __rtruediv__(self, other: Number) -> Value:
        return self._binary(other, "fdiv", reverse=True)

    def __neg__(self) -> Value:
        return Value(self.f, self.f.builder.fneg(self.llvm))

    def __and__(self, other: Operand) -> Value:
        return self._binary(other, "and_")

    def __or__(self, other: Operand) -> Value:
        return self._binary(other, "or_")

    def __xor__(self, other: Operand) -> Value:
        return self._binary(other, "xor")

    def __invert__(self) -> Value:
        return Value(self.f, self.f.builder.not_(self.llvm))

    def __lshift__(self, other: Operand) -> Value:
        return self._binary(other, "shl")

    def __rshift__(self, other: Operand) -> Value:
        """Arithmetic shift to the right."""
        return self._binary(other, "ashr")

    def _compare(self, other: Operand, predicate: str) -> Value:
        builder, right = self.f.builder, self.lift(other)
        compare = builder.fcmp_ordered if self.is_float else builder.icmp_signed
        return Value(self.f, compare(predicate, self.llvm, right))

    def equals(self, other: Operand) -> Value:
        """Whether both are the same number; false for NaN, as all comparisons."""
        return self._compare(other, "==")

    def __lt__(self, other: Operand) -> Value:
        return self._compare(other, "<")

    def __le__(self, other: Operand) -> Value:
        return self._compare(other, "<=")

    def __gt__(self, other: Operand) -> Value:
        return self._compare(other, ">")

    def __ge__(self, other: Operand) -> Value:
        return self._compare(other, ">=")

    def is_nan(self) -> Value:
        """Where the lanes are NaN: a vector of i1."""
        return Value(self.f, self.f.builder.fcmp_unordered("uno", self.llvm, self.llvm))


Operand = Value | Number


def _element(ty: ir.Type) -> ir.Type:
    return ty.element if isinstance(ty, ir.VectorType) else ty


def _bits_of(element: ir.Type) -> int:
    return 32 if isinstance(element, ir.FloatType) else 64


class Formulas:
    """Emits formulas at the place of a builder, for ``lanes`` floats of ``bits`` bits.

    One lane is a scalar. ``features`` are those of the processor, by LLVM's names, that formulas may
    make use of; they decide on instructions, never on results.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        lanes: int,
        bits: int,
        features: frozenset[str] = frozenset(),
    ) -> None:
        self.builder = builder
        self.lanes = lanes
        self.bits = bits
        self.features = features

    def over(self, element: ir.Type) -> ir.Type:
        """The type of one element for each lane."""
        return ir.VectorType(element, self.lanes) if self.lanes > 1 else element

    @property
    def float_type(self) -> ir.Type:
        """The type of the argument: floats in all lanes."""
        return self.over(_FLOAT[self.bits])

    @property
    def int_type(self) -> ir.Type:
        """Integers as wide as the floats, in all lanes."""
        return self.over(ir.IntType(self.bits))

    def splat(self, ty: ir.Type, number: Number) -> Any:
        """The constant in every lane."""
        element = _element(ty)
        wanted = int(number) if isinstance(element, ir.IntType) else float(number)
        scalar = ir.Constant(element, wanted)
        if not isinstance(ty, ir.VectorType):
            return scalar
        return Splat(ty, scalar)

    def number(self, number: float) -> Value:
        """A float constant in every lane, rounded to the width of these formulas."""
        return Value(self, self.splat(self.float_type, number))

    def integer(self, number: int) -> Value:
        """An integer constant as wide as the floats."""
        return Value(self, self.splat(self.int_type, number))

    def call(self, intrinsic: str, *operands: Value) -> Value:
        """``llvm.<intrinsic>`` on operands of one type."""
        ty = operands[0].llvm.type
        element = _element(ty)
        name = (
            f"f{_bits_of(element)}" if not isinstance(element, ir.IntType) else f"i{element.width}"
        )
        suffix = f"v{self.lanes}{name}" if self.lanes > 1 else name
        signature = ir.FunctionType(ty, [ty] * len(operands))
        function = declare(self.builder.module, f"llvm.{intrinsic}.{suffix}", signature)
        return Value(self, self.builder.call(function, [operand.llvm for operand in operands]))

    def fma(self, a: Value, b: Operand, c: Operand) -> Value:
        """``a * b + c``, rounded once, by the CPU's instruction or by LLVM's replacement."""
        lifted = [Value(self, a.lift(operand)) for operand in (b, c)]
        return self.call("fma", a, *lifted)

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """The polynomial with these coefficients, the constant one first, by Horner's rule."""
        *rest, last = coefficients
        total = self.number(last)
        for coefficient in reversed(rest):
            total = self.fma(total, x, coefficient)
        return total

    def absolute(self, x: Value) -> Value:
        """The magnitude, exactly; of a NaN only the sign changes."""
        return self.call("fabs", x)

    def copysign(self, magnitude: Value, sign: Value) -> Value:
        """The magnitude of one number with the sign of another, exactly."""
        return self.call("copysign", magnitude, sign)

    def truncated(self, x: Value) -> Value:
        """Rounded to an integer towards zero, exactly."""
        return self.call("trunc", x)

    def sqrt(self, x: Value) -> Value:
        """The square root, rounded correctly."""
        return self.call("sqrt", x)

    def select(self, condition: Value, yes: Operand, no: Operand) -> Value:
        """Lane by lane, ``yes`` where the condition holds. One of both must be a value."""
        typed = yes if isinstance(yes, Value) else no
        assert isinstance(typed, Value)
        chosen = self.builder.select(condition.llvm, typed.lift(yes), typed.lift(no))
        return Value(self, chosen)

    def clamp(self, x: Value, low: float, high: float) -> Value:
        """The nearest number in the range; NaN stays NaN."""
        above = self.select(x > high, high, x)
        return self.select(above < low, low, above)

    def bits_of(self, x: Value) -> Value:
        """The bits of a float as an integer."""
        return Value(self, self.builder.bitcast(x.llvm, self.int_type))

    def from_bits(self, x: Value) -> Value:
        """The float that has these bits."""
        return Value(self, self.builder.bitcast(x.llvm, self.float_type))

    def rounded(self, x: Value, scale: Operand = 1.0) -> tuple[Value, Value]:
        """``x * scale`` rounded to an integer, as a float and as an integer.

        Good for products below 2**22 (f32) and 2**51 (f64). For NaN the integer is any.
        """
        magic = _MAGIC[self.bits]
        shifted = x + magic if scale == 1.0 else self.fma(x, scale, magic)
        magic_bits = self.bits_of(self.number(magic))
        return shifted - magic, self.bits_of(shifted) - magic_bits

    def power_of_two(self, exponent: Value) -> Value:
        """2 to an integer power of the normal range: -126 to 127 (f32), -1022 to 1023 (f64)."""
        return self.from_bits((exponent + _BIAS[self.bits]) << _FRACTION_BITS[self.bits])

    def scaled(self, x: Value, whole: Value, exponent: Value) -> Value:
        """``x`` of about 1 times 2 to an integer power, given as a float and as an integer; rounded
        once, for exponents up to twice the range."""
        width = self.lanes * self.bits
        if width in _SCALES and _SCALES[width] in self.features:
            return self._scaled_at_once(x, whole)
        half = exponent >> 1
        return x * self.power_of_two(half) * self.power_of_two(exponent - half)

    def _scaled_at_once(self, x: Value, whole: Value) -> Value:
        """The same by an instruction of AVX-512."""
        width, ty = self.lanes * self.bits, x.llvm.type
        mask = ir.IntType(max(self.lanes, 8))
        arguments = [x.llvm, whole.llvm, x.llvm, mask(-1)]
        types = [ty, ty, ty, mask]
        if width == _WIDEST:
            arguments.append(ir.IntType(32)(_CURRENT_ROUNDING))
            types.append(ir.IntType(32))
        kind = "ps" if self.bits == 32 else "pd"
        name = f"llvm.x86.avx512.mask.scalef.{kind}.{width}"
        function = declare(self.builder.module, name, ir.FunctionType(ty, types))
        return Value(self, self.builder.call(function, arguments))

    def two_sum(self, a: Value, b: Operand) -> tuple[Value, Value]:
        """The rounded sum and its error, exactly (Knuth's 2Sum), unless the sum overflows."""
        total = a + b
        second = total - a
        first = total - second
        return total, (a - first) + (Value(self, a.lift(b)) - second)

    def fast_two_sum(self, larger: Value, smaller: Value) -> tuple[Value, Value]:
        """The rounded sum and its error, where the first is zero or at least as large (Dekker's Fast2Sum)."""
        total = larger + smaller
        return total, smaller - (total - larger)

    def two_product(self, a: Value, b: Value) -> tuple[Value, Value]:
        """The rounded product and its error, exactly unless the error is subnormal."""
        product = a * b
        return product, self.fma(a, b, -product)

    def any(self, condition: Value) -> Any:
        """Whether a condition holds in one of the lanes."""
        if self.lanes == 1:
            return condition.llvm
        ty = condition.llvm.type
        name = f"llvm.vector.reduce.or.v{self.lanes}i1"
        function = declare(self.builder.module, name, ir.FunctionType(_BOOL, [ty]))
        return self.builder.call(function, [condition.llvm])

    def widened(self) -> Formulas:
        """The same place and lanes, for f64."""
        return Formulas(self.builder, self.lanes, 64, self.features)

    def widen(self, x: Value) -> Value:
        """f32 as f64."""
        wide = self.widened()
        return Value(wide, self.builder.fpext(x.llvm, wide.float_type))

    def narrow(self, x: Value) -> Value:
        """f64 rounded to the width of these formulas."""
        return Value(self, self.builder.fptrunc(x.llvm, self.float_type))


Body = Callable[..., Value]
"""``body(formulas, *operands) -> result``."""


def declare(module: ir.Module, name: str, signature: ir.FunctionType) -> ir.Function:
    """The function of that name, declared where the module lacks it."""
    found = module.globals.get(name)
    return ir.Function(module, signature, name) if found is None else found


def mend(f: Formulas, name: str, body: Body, x: Value, rare: Value, usual: Value) -> Value:
    """``usual``, but ``body(x)`` in the lanes where ``rare`` holds, computed only if there is one.

    The body becomes a function of its own that is called through memory, so that the code around
    it stays small.
    """
    builder = f.builder
    slow = _out_of_line(f, f"{name}.rare.v{f.lanes}f{f.bits}", body)
    with builder.goto_entry_block():
        memory = builder.alloca(f.float_type)
    before = builder.block
    with builder.if_then(f.any(rare), likely=False):
        builder.store(x.llvm, memory)
        builder.call(slow, [memory])
        mended = builder.select(rare.llvm, builder.load(memory), usual.llvm)
        inside = builder.block
    result = builder.phi(f.float_type)
    result.add_incoming(usual.llvm, before)
    result.add_incoming(mended, inside)
    return Value(f, result)


def _out_of_line(f: Formulas, name: str, body: Body) -> ir.Function:
    """``void (ptr)``: replaces what is in memory by what the body makes of it."""
    module = f.builder.module
    found = module.globals.get(name)
    if found is not None:
        return found
    vector = f.float_type
    signature = ir.FunctionType(ir.VoidType(), [vector.as_pointer()])
    function = ir.Function(module, signature, name)
    function.linkage = "internal"
    for attribute in ("noinline", "cold", "nounwind"):
        function.attributes.add(attribute)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    formulas = Formulas(builder, f.lanes, f.bits, f.features)
    argument = Value(formulas, builder.load(function.args[0]))
    builder.store(body(formulas, argument).llvm, function.args[0])
    builder.ret_void()
    return function
