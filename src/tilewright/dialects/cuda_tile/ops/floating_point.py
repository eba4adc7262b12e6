"""Element-wise floating point, and the matrix products of floats."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import constraints as K
from tilewright.dialects.cuda_tile.base import TileOp, tile_op, tile_type
from tilewright.dialects.cuda_tile.directives import syntax
from tilewright.dialects.cuda_tile.enums import (
    ComparisonOrderingAttr,
    ComparisonPredicateAttr,
    RoundingMode,
    RoundingModeAttr,
)
from tilewright.dialects.declare import Report, attr, enum_property, examples, same_shape, same_type
from tilewright.dialects.syntax.directives import (
    EnumKeyword,
    EnumSlot,
    Flag,
    Flags,
)
from tilewright.dialects.versions import V13_2, V13_3, V13_4

GROUP = "floating_point"

ROUNDING_NOT_SUPPORTED = define_code(
    "rounding-not-supported",
    "The rounding mode does not exist for this operation and element type.",
    "Arithmetic takes nearest_even, zero, negative_inf and positive_inf; divf also approx and "
    "full, sqrt also approx; exp and tanh take full and approx. approx and divf's full are f32 "
    "only.",
)
FTZ_NOT_SUPPORTED = define_code(
    "flush-to-zero-not-supported",
    "flush_to_zero exists for f32 elements only.",
)

IEEE_MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")
ROUNDING = K.enum_field(RoundingModeAttr)
NEAREST_EVEN = RoundingModeAttr(RoundingMode.NEAREST_EVEN)
FULL = RoundingModeAttr(RoundingMode.FULL)
FTZ = Flag("flush_to_zero")
TAIL = syntax("attr-dict : type($result)")
UNARY = syntax("$source", *TAIL)
FROM_RESULT: dict[str, str] = {"source": "result"}
FROM_RESULT_2: dict[str, str] = {"lhs": "result", "rhs": "result"}


def rounding_slot(*allowed: str, default: str = "nearest_even") -> EnumSlot:
    """The syntax of a rounding mode: one of ``allowed``, left out where it is ``default``."""
    return EnumSlot("rounding_mode", RoundingModeAttr, "rounding", default, allowed, True)


def check_rounding(
    op: TileOp, report: Report, allowed: tuple[str, ...], f32_only: tuple[str, ...]
) -> None:
    """The mode is one of ``allowed``; those in ``f32_only`` need f32 elements. As the table of modes in the
    specification's chapter on floating point has it.
    """
    mode = enum_property(op, "rounding_mode")
    if mode not in allowed:
        report.error(
            ROUNDING_NOT_SUPPORTED,
            f"expected rounding mode to be one of: {', '.join(allowed)}, got: '{mode}'",
            attr("rounding_mode"),
        )
    elif mode in f32_only:
        ty = tile_type(op.results[0])
        if ty is not None and ty.element != "f32":
            report.error(
                ROUNDING_NOT_SUPPORTED,
                f"rounding mode '{mode}' is only supported for f32 data type, got {ty.element}",
                attr("rounding_mode"),
            )


def check_flush_to_zero(op: TileOp, report: Report) -> None:
    """Report ``flush_to_zero`` on elements other than f32, which alone have it."""
    ty = tile_type(op.results[0])
    if "flush_to_zero" in op.properties and ty is not None and ty.element != "f32":
        report.error(
            FTZ_NOT_SUPPORTED,
            f"flush_to_zero modifier only supported for f32 data type, got {ty.element}",
            attr("flush_to_zero"),
        )


class IEEEArithmetic(TileOp):
    """Rules of the correctly rounded operations."""

    rounding_mode = prop_def(ROUNDING, default_value=NEAREST_EVEN)
    flush_to_zero = opt_prop_def(K.UNIT)
    MODES: ClassVar[tuple[str, ...]] = IEEE_MODES
    F32_MODES: ClassVar[tuple[str, ...]] = ()

    def check(self, report: Report) -> None:
        check_rounding(self, report, self.MODES, self.F32_MODES)
        check_flush_to_zero(self, report)


class FlushOnly(TileOp):
    """Rules of operations with flush_to_zero and no rounding mode."""

    flush_to_zero = opt_prop_def(K.UNIT)

    def check(self, report: Report) -> None:
        check_flush_to_zero(self, report)


class Unary(TileOp):
    """One operand; the result has its type."""

    source = operand_def(K.BASE_FLOAT_TILE)
    result = result_def(K.BASE_FLOAT_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("source", "result"),)
    SYNTAX: ClassVar = UNARY
    INFER: ClassVar = FROM_RESULT


class Binary(TileOp):
    """Two operands of one type, which is the result's."""

    lhs = operand_def(K.BASE_FLOAT_TILE)
    rhs = operand_def(K.BASE_FLOAT_TILE)
    result = result_def(K.BASE_FLOAT_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("lhs", "rhs", "result"),)
    SYNTAX: ClassVar = syntax("$lhs, $rhs", *TAIL)
    INFER: ClassVar = FROM_RESULT_2


class IEEEBinary(IEEEArithmetic, Binary):
    """A correctly rounded operation of two operands."""

    SYNTAX: ClassVar = syntax("$lhs, $rhs", rounding_slot(*IEEE_MODES), FTZ, *TAIL)


class Extremum(FlushOnly, Binary):
    """The larger or the smaller of two operands."""

    propagate_nan = opt_prop_def(K.UNIT)
    SYNTAX: ClassVar = syntax("$lhs, $rhs", Flags(("flush_to_zero", "propagate_nan")), *TAIL)


class FlushedUnary(FlushOnly, Unary):
    """An approximate function of one operand."""

    SYNTAX: ClassVar = syntax("$source", FTZ, *TAIL)


class AccurateUnary(Unary):
    """A function of one operand that is either full or approx."""

    rounding_mode = prop_def(ROUNDING, default_value=FULL)
    SYNTAX: ClassVar = syntax("$source", rounding_slot(default="full"), *TAIL)

    def check(self, report: Report) -> None:
        check_rounding(self, report, ("approx", "full"), ("approx",))


@tile_op("absf", opcode=0x00, group=GROUP)
class AbsFOp(Unary):
    """|source|: clears the sign bit of each element."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [-1.5, 0.25, -0.0, 9.0]> : tile<4xf32>
        %y = absf %x : tile<4xf32>  // 1.5, 0.25, 0.0, 9.0
        """,
    )


@tile_op("addf", opcode=0x02, group=GROUP)
class AddFOp(IEEEBinary):
    """lhs + rhs, element by element, rounded once."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [1.0, 2.0, 3.0, 4.0]> : tile<4xf32>
        %y = constant <f32: 0.5> : tile<4xf32>
        %z = addf %x, %y : tile<4xf32>  // 1.5, 2.5, 3.5, 4.5
        """,
        """
        %x = constant <f32: 1.0> : tile<8xf32>
        %y = constant <f32: 1.0e-10> : tile<8xf32>
        %up = addf %x, %y rounding<positive_inf> flush_to_zero : tile<8xf32>
        """,
    )


@tile_op("subf", opcode=0x67, group=GROUP)
class SubFOp(IEEEBinary):
    """lhs - rhs, element by element, rounded once."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f64: [1.0, 2.0]> : tile<2xf64>
        %y = constant <f64: 0.25> : tile<2xf64>
        %z = subf %x, %y rounding<zero> : tile<2xf64>  // 0.75, 1.75
        """,
    )


@tile_op("mulf", opcode=0x4C, group=GROUP)
class MulFOp(IEEEBinary):
    """lhs * rhs, element by element, rounded once."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f16: [1.5, -2.0]> : tile<2xf16>
        %z = mulf %x, %x : tile<2xf16>  // 2.25, 4.0
        """,
        """
        %x = constant <f32: 3.0> : tile<4x4xf32>
        %z = mulf %x, %x rounding<negative_inf> flush_to_zero : tile<4x4xf32>
        """,
    )


@tile_op("divf", opcode=0x14, group=GROUP)
class DivFOp(IEEEBinary):
    """lhs / rhs. approx and full (f32) are within 2 ulp instead of correctly rounded."""

    MODES: ClassVar = (*IEEE_MODES, "approx", "full")
    F32_MODES: ClassVar = ("approx", "full")
    SYNTAX: ClassVar = syntax("$lhs, $rhs", rounding_slot(), FTZ, *TAIL)
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [1.0, 2.0, 3.0, 4.0]> : tile<4xf32>
        %y = constant <f32: 3.0> : tile<4xf32>
        %exact = divf %x, %y : tile<4xf32>                    // correctly rounded
        %fast = divf %x, %y rounding<approx> : tile<4xf32>    // within 2 ulp
        """,
    )


@tile_op("remf", opcode=0x59, group=GROUP)
class RemFOp(Binary):
    """lhs - trunc(lhs / rhs) * rhs, exact; the sign follows lhs. NaN where rhs is 0."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [5.5, -5.5]> : tile<2xf32>
        %y = constant <f32: 2.0> : tile<2xf32>
        %z = remf %x, %y : tile<2xf32>  // 1.5, -1.5
        """,
    )


@tile_op("fma", opcode=0x28, group=GROUP)
class FmaOp(IEEEArithmetic):
    """lhs * rhs + acc with a single rounding."""

    lhs = operand_def(K.BASE_FLOAT_TILE)
    rhs = operand_def(K.BASE_FLOAT_TILE)
    acc = operand_def(K.BASE_FLOAT_TILE)
    result = result_def(K.BASE_FLOAT_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("lhs", "rhs", "acc", "result"),)
    SYNTAX: ClassVar = syntax("$lhs, $rhs, $acc", rounding_slot(*IEEE_MODES), FTZ, *TAIL)
    INFER: ClassVar = {**FROM_RESULT_2, "acc": "result"}
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [1.0, 2.0, 3.0, 4.0]> : tile<4xf32>
        %y = constant <f32: 10.0> : tile<4xf32>
        %z = fma %x, %y, %x : tile<4xf32>  // 11.0, 22.0, 33.0, 44.0
        """,
        """
        %x = constant <f32: 0.1> : tile<8xf32>
        %z = fma %x, %x, %x rounding<zero> flush_to_zero : tile<8xf32>
        """,
    )


@tile_op("sqrt", opcode=0x64, group=GROUP)
class SqrtOp(IEEEArithmetic, Unary):
    """Square root; NaN for negative elements, -0 for -0. approx (f32) is not correctly rounded."""

    MODES: ClassVar = (*IEEE_MODES, "approx")
    F32_MODES: ClassVar = ("approx",)
    SYNTAX: ClassVar = syntax("$source", rounding_slot(), FTZ, *TAIL)
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [4.0, 2.0]> : tile<2xf32>
        %y = sqrt %x : tile<2xf32>                                  // 2.0, 1.41421354
        %z = sqrt %x rounding<approx> flush_to_zero : tile<2xf32>
        """,
    )


@tile_op("exp", opcode=0x17, group=GROUP)
class ExpOp(AccurateUnary):
    """e to the power of each element; f16 and bf16 are computed in f32 and rounded once."""

    SINCE_OF: ClassVar = {"rounding_mode": V13_3}
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [0.0, 1.0]> : tile<2xf32>
        %y = exp %x : tile<2xf32>                    // 1.0, 2.71828175
        %z = exp %x rounding<approx> : tile<2xf32>   // faster, less precise
        """,
    )


@tile_op("tanh", opcode=0x6A, group=GROUP)
class TanHOp(AccurateUnary):
    """Hyperbolic tangent; full is within 2 ulp in f32 and 1 ulp in f64."""

    SINCE_OF: ClassVar = {"rounding_mode": V13_2}
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [0.0, 1.0]> : tile<2xf32>
        %y = tanh %x : tile<2xf32>
        %z = tanh %x rounding<approx> : tile<2xf32>
        """,
    )


@tile_op("exp2", opcode=0x18, group=GROUP)
class Exp2Op(FlushedUnary):
    """2 to the power of each element; f16 and bf16 are computed in f32 and rounded once."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [-1.0, 3.0]> : tile<2xf32>
        %y = exp2 %x flush_to_zero : tile<2xf32>  // 0.5, 8.0
        """,
    )


@tile_op("rsqrt", opcode=0x5D, group=GROUP)
class RsqrtOp(FlushedUnary):
    """1 / sqrt(source), approximate; infinite with the sign of a zero, NaN for negatives."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [4.0, 16.0]> : tile<2xf32>
        %y = rsqrt %x flush_to_zero : tile<2xf32>  // 0.5, 0.25
        """,
    )


@tile_op("maxf", opcode=0x45, group=GROUP)
class MaxFOp(Extremum):
    """The larger element; +0 counts as larger than -0.

    One NaN gives the other operand, two give NaN; with propagate_nan any NaN gives NaN.
    """

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [1.0, 0x7FC00000]> : tile<2xf32>
        %y = constant <f32: 2.0> : tile<2xf32>
        %a = maxf %x, %y : tile<2xf32>                // 2.0, 2.0: a NaN is dropped
        %b = maxf %x, %y propagate_nan : tile<2xf32>  // 2.0, NaN
        """,
    )


@tile_op("minf", opcode=0x47, group=GROUP)
class MinFOp(Extremum):
    """The smaller element; -0 counts as smaller than +0. NaNs as for maxf."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [1.0, 0x7FC00000]> : tile<2xf32>
        %y = constant <f32: 2.0> : tile<2xf32>
        %a = minf %x, %y flush_to_zero : tile<2xf32>  // 1.0, 2.0
        %b = minf %x, %y propagate_nan : tile<2xf32>  // 1.0, NaN
        """,
    )


@tile_op("ceil", opcode=0x0D, group=GROUP)
class CeilOp(Unary):
    """The smallest integral value not below each element; keeps the sign of zero."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [1.25, -1.25]> : tile<2xf32>
        %y = ceil %x : tile<2xf32>  // 2.0, -1.0
        """,
    )


@tile_op("floor", opcode=0x27, group=GROUP)
class FloorOp(Unary):
    """The largest integral value not above each element; keeps the sign of zero."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [1.25, -1.25]> : tile<2xf32>
        %y = floor %x : tile<2xf32>  // 1.0, -2.0
        """,
    )


@tile_op("negf", opcode=0x4F, group=GROUP)
class NegFOp(Unary):
    """Flips the sign bit of each element, of NaNs too."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <bf16: [1.5, -0.0]> : tile<2xbf16>
        %y = negf %x : tile<2xbf16>  // -1.5, 0.0
        """,
    )


@tile_op("cos", opcode=0x12, group=GROUP)
class CosOp(Unary):
    """Cosine (radians); f16 and bf16 are computed in f32 and rounded once."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [0.0, 3.0]> : tile<2xf32>
        %y = cos %x : tile<2xf32>  // 1.0, -0.9899925
        """,
    )


@tile_op("sin", opcode=0x62, group=GROUP)
class SinOp(Unary):
    """Sine (radians); f16 and bf16 are computed in f32 and rounded once."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [0.0, 1.5]> : tile<2xf32>
        %y = sin %x : tile<2xf32>  // 0.0, 0.997495
        """,
    )


@tile_op("tan", opcode=0x69, group=GROUP)
class TanOp(Unary):
    """Tangent (radians); f16 and bf16 are computed in f32 and rounded once."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [0.0, 1.0]> : tile<2xf32>
        %y = tan %x : tile<2xf32>  // 0.0, 1.5574077
        """,
    )


@tile_op("cosh", opcode=0x13, group=GROUP)
class CosHOp(Unary):
    """Hyperbolic cosine; f16 and bf16 are computed in f32 and rounded once."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [0.0, 1.0]> : tile<2xf32>
        %y = cosh %x : tile<2xf32>  // 1.0, 1.5430806
        """,
    )


@tile_op("sinh", opcode=0x63, group=GROUP)
class SinHOp(Unary):
    """Hyperbolic sine; f16 and bf16 are computed in f32 and rounded once."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [0.0, 1.0]> : tile<2xf32>
        %y = sinh %x : tile<2xf32>  // 0.0, 1.1752012
        """,
    )


@tile_op("log", opcode=0x3F, group=GROUP)
class LogOp(Unary):
    """Natural logarithm: -inf for zeros, NaN for negatives."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [1.0, 10.0]> : tile<2xf32>
        %y = log %x : tile<2xf32>  // 0.0, 2.3025851
        """,
    )


@tile_op("log2", opcode=0x40, group=GROUP)
class Log2Op(Unary):
    """Logarithm to base 2: -inf for zeros, NaN for negatives."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [0.5, 1024.0]> : tile<2xf32>
        %y = log2 %x : tile<2xf32>  // -1.0, 10.0
        """,
    )


@tile_op("fpowf", opcode=0x54, group=GROUP)
class FPowFOp(TileOp):
    """source to the power of exponent, with the special values of C99's pow.

    Spelled ``pow`` before 13.4; the bytecode is the same.
    """

    source = operand_def(K.BASE_FLOAT_TILE)
    exponent = operand_def(K.BASE_FLOAT_TILE)
    result = result_def(K.BASE_FLOAT_TILE)
    traits = traits_def(Pure())
    ALIASES: ClassVar = ("pow",)
    RELATIONS: ClassVar = (same_type("source", "exponent", "result"),)
    SYNTAX: ClassVar = syntax("$source, $exponent", *TAIL)
    INFER: ClassVar = {"source": "result", "exponent": "result"}
    EXAMPLES: ClassVar = examples(
        """
        %base = constant <f32: [2.0, 4.0]> : tile<2xf32>
        %exponent = constant <f32: [3.0, 0.5]> : tile<2xf32>
        %y = fpowf %base, %exponent : tile<2xf32>  // 8.0, 2.0
        """,
    )


@tile_op("fpowi", opcode=0x79, since=V13_4, group=GROUP)
class FPowIOp(TileOp):
    """source to the power of an integer, always read as signed; 1 for exponent 0."""

    source = operand_def(K.BASE_FLOAT_TILE)
    exponent = operand_def(K.EXPONENT_TILE)
    result = result_def(K.BASE_FLOAT_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("source", "result"), same_shape("source", "exponent"))
    SYNTAX: ClassVar = syntax("$source, $exponent attr-dict : type($result), type($exponent)")
    INFER: ClassVar = FROM_RESULT
    EXAMPLES: ClassVar = examples(
        """
        %base = constant <f32: [2.0, 4.0]> : tile<2xf32>
        %exponent = constant <i32: [10, -1]> : tile<2xi32>
        %y = fpowi %base, %exponent : tile<2xf32>, tile<2xi32>  // 1024.0, 0.25
        """,
    )


@tile_op("atan2", opcode=0x6E, since=V13_2, group=GROUP)
class Atan2Op(TileOp):
    """The angle of the ratio x / y, in (-pi, pi], its quadrant from the signs of both.

    ``x`` is what C's atan2 calls y, its first argument.
    """

    x = operand_def(K.BASE_FLOAT_TILE)
    y = operand_def(K.BASE_FLOAT_TILE)
    result = result_def(K.BASE_FLOAT_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("x", "y", "result"),)
    SYNTAX: ClassVar = syntax("$x, $y", *TAIL)
    INFER: ClassVar = {"x": "result", "y": "result"}
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [1.0, 1.0]> : tile<2xf32>
        %y = constant <f32: [0.0, -1.0]> : tile<2xf32>
        %angle = atan2 %x, %y : tile<2xf32>  // pi / 2, 3 pi / 4
        """,
    )


@tile_op("cmpf", opcode=0x0E, group=GROUP)
class CmpFOp(TileOp):
    """Compares element by element.

    ``ordered`` is false where an operand is NaN, ``unordered`` is true there, whatever the
    predicate. -0 equals +0.
    """

    comparison_predicate = prop_def(K.enum_field(ComparisonPredicateAttr))
    comparison_ordering = prop_def(K.enum_field(ComparisonOrderingAttr))
    lhs = operand_def(K.BASE_FLOAT_TILE)
    rhs = operand_def(K.BASE_FLOAT_TILE)
    result = result_def(K.I1_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("lhs", "rhs"), same_shape("lhs", "result"))
    SYNTAX: ClassVar = syntax(
        EnumKeyword("comparison_predicate", ComparisonPredicateAttr),
        EnumKeyword("comparison_ordering", ComparisonOrderingAttr),
        "$lhs, $rhs attr-dict : type($lhs) -> type($result)",
    )
    INFER: ClassVar = {"rhs": "lhs"}
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [1.0, 0x7FC00000]> : tile<2xf32>
        %y = constant <f32: 2.0> : tile<2xf32>
        %a = cmpf less_than ordered %x, %y : tile<2xf32> -> tile<2xi1>    // true, false
        %b = cmpf less_than unordered %x, %y : tile<2xf32> -> tile<2xi1>  // true, true
        """,
    )
