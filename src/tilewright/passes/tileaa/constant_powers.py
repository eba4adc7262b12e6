"""``constant-powers``: strength-reduces powers with a constant exponent to products, quotients and roots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects import arith
from tilewright.dialects.arith.base import numeric_element
from tilewright.dialects.arith.constants import ConstantOp
from tilewright.dialects.cuda_tile.types import ELEMENT_TYPES
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.arithmetic import (
    AddFOp,
    DivFOp,
    FmaOp,
    MulFOp,
    RsqrtOp,
    SqrtOp,
)
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.pointers import FpToFpOp
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import decode, float_to_bits
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.matching import REPEATING, integer_of
from tilewright.passes.tileas.remarks import Remarks

_POWERS = (arith.PowFOp, arith.FPowIOp)
#: The format in which a power is computed, by element type, so that only the last rounding counts.
_WIDER = {"f32": "f64", "f16": "f32", "bf16": "f32"}


@dataclass(frozen=True)
class ConstantPowers(TileAAPass):
    """Computes powers with a constant exponent by products, quotients and roots.

    Rewrites ``math.powf`` and ``math.fpowi`` with the exponents 0, 1, 2, 3, 4, 0.5, 1.5, 2.5, -0.5, -1
    and -2, for f16, bf16, f32 and f64; for all but f64, also integer exponents up to 64. The exponent
    must be the same for all elements.

    | exponent | becomes | error in ulp |
    |---|---|---|
    | 0, 1 | 1, x | none |
    | 2 | ``x * x`` | 0.5 |
    | 3, 4 | f32 in f64, halves in f32 | below 0.51 |
    | | f64: the square and its rounding error | below 0.51; 1 if the result is subnormal |
    | 5 to 64 | f32 in f64, halves in f32 | below 0.51 |
    | -1 | ``1 / x`` | 0.5 |
    | -2 | halves: ``1 / x`` in f32, squared | below 0.51 |
    | | f32, f64: the square of ``1 / x``, both errors corrected | below 0.51; 1 below 256 times the least normal number |
    | 0.5 | ``sqrt(x + 0)``; infinity for -infinity | 0.5 |
    | 1.5, 2.5 | the root times x, each error corrected; halves in f32 | below 0.51; 1 below 2**24 times the least normal number |
    | -0.5 | ``rsqrt(x + 0)``; f64: a corrected root and division; 0 for -infinity | below 1 |

    These errors are within the bound for a power. Special values are those of C: anything to the power
    0 is 1, even NaN; NaN stays NaN; zeros and infinities keep their sign only for odd exponents, which a
    plain root would get wrong for -0 and -infinity. No step overflows or underflows before the result
    does: a wider format has the range, and in f64 an infinite product stays infinite whatever its
    rounding error, and if that error underflows, the result is zero.

    Finds exponents through splats, broadcasts and reshapes of constants. Cost: one walk.
    """

    name: ClassVar[str] = "constant-powers"

    def rewrite_function(self, function: FuncOp) -> None:
        constant_powers(function, Remarks())


def powers_of(function: FuncOp) -> list[Operation]:
    """Return the powers of a function, whatever their exponents."""
    return [op for op in function.walk() if isinstance(op, _POWERS)]


def constant_powers(function: FuncOp, remarks: Remarks) -> None:
    """Replace the powers of a function in place where the exponent is a constant with an exact enough formula.

    A remark ``power`` explains each that stays.
    """
    for op in powers_of(function):
        formula = _formula(op)
        if formula is None:
            remarks.add("power", _why(op), op)
            continue
        result = formula(_Steps(op), op.operands[0])
        op.results[0].replace_all_uses_with(result)
        Rewriter.erase_op(op)


class _Steps:
    """Inserts the operations that replace a power before it."""

    def __init__(self, op: Operation) -> None:
        self._op = op
        self.element = numeric_element(op.results[0].type)

    def add(self, op: Operation) -> SSAValue:
        inherit_location(op, self._op)
        Rewriter.insert_op(op, InsertPoint.before(self._op))
        return op.results[0]

    def make(self, kind: Any, *operands: SSAValue) -> SSAValue:
        return self.add(kind.create(operands=operands, result_types=[operands[0].type]))

    def number(self, value: float, like: SSAValue) -> SSAValue:
        bits = float_to_bits(value, FORMATS[numeric_element(like.type)])
        return self.add(ConstantOp.from_bits(like.type, [bits]))

    def product(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.make(MulFOp, x, y)

    def inverse(self, x: SSAValue) -> SSAValue:
        return self.make(DivFOp, self.number(1.0, x), x)

    def where_equal(self, x: SSAValue, value: float, then: SSAValue, other: SSAValue) -> SSAValue:
        """Return ``then`` where ``x`` equals ``value``, a number, and ``other`` elsewhere."""
        predicate = IntegerAttr(arith.CmpfOp.NAMES.index("oeq"), i64)
        compared = arith.CmpfOp.of(x, self.number(value, x), predicate=predicate)
        return self.add(arith.SelectOp.of(self.add(compared), then, other))

    def in_format(self, x: SSAValue, element: str) -> SSAValue:
        if numeric_element(x.type) == element:
            return x
        ty = T.tile_or_scalar(T.dims_of(x.type), ELEMENT_TYPES[element])
        return self.add(FpToFpOp.create(operands=[x], result_types=[ty]))


Formula = Callable[[_Steps, SSAValue], SSAValue]
"""Builds the power of a value."""


def _one(s: _Steps, x: SSAValue) -> SSAValue:
    return s.number(1.0, x)


def _itself(s: _Steps, x: SSAValue) -> SSAValue:
    return x


def _square(s: _Steps, x: SSAValue) -> SSAValue:
    return s.product(x, x)


def _cube(s: _Steps, x: SSAValue) -> SSAValue:
    if s.element in _WIDER:
        wide = s.in_format(x, _WIDER[s.element])
        return s.in_format(s.product(s.product(wide, wide), wide), s.element)
    square, rest = _square_in_two(s, x)
    plain = s.product(square, x)
    found = s.make(FmaOp, square, x, s.product(rest, x))
    for end in (float("inf"), float("-inf")):
        found = s.where_equal(plain, end, plain, found)
    return found


def _product_of(exponent: int) -> Formula:
    """Return the formula of a higher power, by binary exponentiation in the wider format."""

    def formula(s: _Steps, x: SSAValue) -> SSAValue:
        wide = found = s.in_format(x, _WIDER[s.element])
        for bit in bin(exponent)[3:]:
            found = s.product(found, found)
            if bit == "1":
                found = s.product(found, wide)
        return s.in_format(found, s.element)

    return formula


def _fourth(s: _Steps, x: SSAValue) -> SSAValue:
    if s.element in _WIDER:
        wide = s.in_format(x, _WIDER[s.element])
        square = s.product(wide, wide)
        return s.in_format(s.product(square, square), s.element)
    square, rest = _square_in_two(s, x)
    plain, twice = s.product(square, square), s.make(AddFOp, square, square)
    found = s.make(FmaOp, square, square, s.product(twice, rest))
    return s.where_equal(plain, float("inf"), plain, found)


def _square_in_two(s: _Steps, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Return the square of x as an unevaluated sum of two floats."""
    square = s.product(x, x)
    negated = s.add(arith.NegfOp.of(square))
    return square, s.make(FmaOp, x, x, negated)


def _inverse_square(s: _Steps, x: SSAValue) -> SSAValue:
    if s.element in ("f16", "bf16"):
        wide = s.in_format(x, "f32")
        inverse = s.inverse(wide)
        return s.in_format(s.product(inverse, inverse), s.element)
    # 1 / x is inverse * (1 + lost). Square that, including the rounding error of the square.
    inverse = s.inverse(x)
    negated = s.add(arith.NegfOp.of(inverse))
    lost = s.make(FmaOp, negated, x, s.number(1.0, x))
    square, rest = _square_in_two(s, inverse)
    found = s.make(AddFOp, square, s.make(FmaOp, square, s.make(AddFOp, lost, lost), rest))
    for end in (0.0, float("inf")):
        found = s.where_equal(square, end, square, found)
    return found


def _inverse(s: _Steps, x: SSAValue) -> SSAValue:
    return s.inverse(x)


def _root(s: _Steps, x: SSAValue) -> SSAValue:
    infinity = s.number(float("inf"), x)
    return s.where_equal(x, float("-inf"), infinity, s.make(SqrtOp, _without_sign_of_zero(s, x)))


def _power_of_root(s: _Steps, x: SSAValue, whole: int) -> SSAValue:
    """``x**whole * sqrt(x)``: the root times x, correcting the error of each product.

    The error of the root is ``(x - root**2) / (2 root)``; times x, that is ``(x - root**2) * root / 2``.
    """
    wide = s.in_format(x, "f32" if s.element in ("f16", "bf16") else s.element)
    positive = _without_sign_of_zero(s, wide)
    root = s.make(SqrtOp, positive)
    lost = s.make(FmaOp, s.add(arith.NegfOp.of(root)), root, positive)
    plain = s.product(positive, root)
    rest = s.make(FmaOp, positive, root, s.add(arith.NegfOp.of(plain)))
    rest = s.make(FmaOp, s.product(root, s.number(0.5, root)), lost, rest)
    for _ in range(whole - 1):
        before, plain = plain, s.product(plain, positive)
        lost = s.make(FmaOp, before, positive, s.add(arith.NegfOp.of(plain)))
        rest = s.make(FmaOp, rest, positive, lost)
    infinity = s.number(float("inf"), wide)
    found = s.where_equal(plain, float("inf"), plain, s.make(AddFOp, plain, rest))
    return s.in_format(s.where_equal(wide, float("-inf"), infinity, found), s.element)


def _three_halves(s: _Steps, x: SSAValue) -> SSAValue:
    return _power_of_root(s, x, 1)


def _five_halves(s: _Steps, x: SSAValue) -> SSAValue:
    return _power_of_root(s, x, 2)


def _inverse_root(s: _Steps, x: SSAValue) -> SSAValue:
    positive = _without_sign_of_zero(s, x)
    found = _exact_inverse_root(s, positive) if s.element == "f64" else s.make(RsqrtOp, positive)
    return s.where_equal(x, float("-inf"), s.number(0.0, x), found)


def _exact_inverse_root(s: _Steps, x: SSAValue) -> SSAValue:
    """Return the inverse root by a root and a division, with both errors corrected."""
    root = s.make(SqrtOp, x)
    inverse = s.inverse(root)
    negated = s.add(arith.NegfOp.of(root))
    lost_by_root = s.make(FmaOp, negated, root, x)
    lost_by_division = s.make(FmaOp, negated, inverse, s.number(1.0, x))
    halved = s.product(s.product(lost_by_root, inverse), s.product(inverse, s.number(-0.5, x)))
    found = s.make(FmaOp, inverse, s.make(AddFOp, lost_by_division, halved), inverse)
    for end in (0.0, float("inf")):
        found = s.where_equal(inverse, end, inverse, found)
    return found


def _without_sign_of_zero(s: _Steps, x: SSAValue) -> SSAValue:
    return s.make(AddFOp, x, s.number(0.0, x))


_FORMULAS: dict[Fraction, Formula] = {
    Fraction(0): _one,
    Fraction(1): _itself,
    Fraction(2): _square,
    Fraction(3): _cube,
    Fraction(4): _fourth,
    Fraction(-1): _inverse,
    Fraction(-2): _inverse_square,
    Fraction(1, 2): _root,
    Fraction(-1, 2): _inverse_root,
    Fraction(3, 2): _three_halves,
    Fraction(5, 2): _five_halves,
}
#: The largest integer exponent for which products in a wider format are exact enough.
_LARGEST = 64


def _formula(op: Operation) -> Formula | None:
    """Return the formula for a power, or None if it cannot be rewritten."""
    element = numeric_element(op.results[0].type)
    if element != "f64" and element not in _WIDER:
        return None
    exponent = _exponent(op.operands[1])
    if exponent is None or exponent in _FORMULAS:
        return None if exponent is None else _FORMULAS[exponent]
    if element in _WIDER and exponent.denominator == 1 and 4 < exponent <= _LARGEST:
        return _product_of(int(exponent))
    return None


def _why(op: Operation) -> str:
    element, exponent = numeric_element(op.results[0].type), _exponent(op.operands[1])
    if exponent is None:
        return "the exponent is not a uniform constant: the power is computed with a logarithm"
    return f"a power of {element} by {float(exponent):g} is computed with a logarithm"


def _exponent(value: SSAValue) -> Fraction | None:
    """Return the finite number that all elements of a value are known to equal, or None."""
    while isinstance(value.owner, REPEATING):
        value = value.owner.operands[0]
    owner = value.owner
    if not isinstance(owner, ConstantOp):
        return None
    if (number := integer_of(value)) is not None:
        return Fraction(number)
    name = numeric_element(value.type)
    patterns = owner.bits()
    if len(patterns) != 1 or not FORMATS[name].is_float:
        return None
    found = decode(patterns[0], FORMATS[name])
    return found if isinstance(found, Fraction) else None
