"""Floats: what ``nv_tileaa`` leaves to ``arith`` and ``math``."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.dialects.arith import codes
from tilewright.dialects.arith.base import (
    BINARY,
    EXPONENT,
    ROUNDING,
    UNARY,
    ArithOp,
    arith_op,
    numeric_element,
    syntax,
)
from tilewright.dialects.declare import (
    Report,
    attr,
    enum_property,
    examples,
    same_shape,
    same_type,
)
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.codes import FLUSH_TO_ZERO
from tilewright.dialects.nv_tileaa.constraints import FLAG, FLOAT

FLOATS = "floating_point"
MATH = "math"


class FloatUnary(ArithOp):
    """One operand of floats; the result has its type."""

    source = operand_def(FLOAT)
    result = result_def(FLOAT)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("source", "result"),)
    SYNTAX: ClassVar = UNARY
    INFER: ClassVar = {"source": "result"}


class FloatBinary(ArithOp):
    """Two operands of floats of one type, which is the result's."""

    lhs = operand_def(FLOAT)
    rhs = operand_def(FLOAT)
    result = result_def(FLOAT)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("lhs", "rhs", "result"),)
    SYNTAX: ClassVar = BINARY
    INFER: ClassVar = {"lhs": "result", "rhs": "result"}


class Extremum(FloatBinary):
    """The larger or smaller of two floats; -0 is smaller than +0."""

    flush_to_zero = opt_prop_def(FLAG)
    COST: ClassVar = 3

    def check(self, report: Report) -> None:
        element = numeric_element(self.result.type)
        if is_set(self, "flush_to_zero") and element != "f32":
            report.error(
                FLUSH_TO_ZERO,
                f"flush_to_zero exists for f32 only, but the elements are {element}",
                attr("flush_to_zero"),
            )


class Graded(FloatUnary):
    """A function that is ``full`` unless its rounding mode is ``approx``, which only f32 has."""

    rounding_mode = opt_prop_def(ROUNDING)

    def check(self, report: Report) -> None:
        mode, element = enum_property(self, "rounding_mode"), numeric_element(self.result.type)
        problem = ""
        if mode not in ("", "approx", "full"):
            problem = f"'{self.name}' is one of: approx, full, but got: {mode}"
        elif mode == "approx" and element != "f32":
            problem = f"rounding mode approx exists for f32 only, but the elements are {element}"
        if problem:
            report.error(codes.ROUNDING, problem, attr("rounding_mode"))


@arith_op("arith.negf", group=FLOATS)
class NegfOp(FloatUnary):
    """The sign bit flipped, of NaN too."""

    EXAMPLES: ClassVar = examples("%s = arith.negf %f : tile<8xf32>")


@arith_op("arith.maximumf", group=FLOATS)
class MaximumfOp(Extremum):
    """The larger element; -0 is smaller than +0, and any NaN gives NaN."""

    MEANING: ClassVar = "maxf"
    KEYWORDS: ClassVar = {"propagate_nan": True}
    NEUTRAL: ClassVar = float("-inf")
    EXAMPLES: ClassVar = examples("%s = arith.maximumf %f, %g : tile<8xf32>")


@arith_op("arith.minimumf", group=FLOATS)
class MinimumfOp(Extremum):
    """The smaller element; -0 is smaller than +0, and any NaN gives NaN."""

    MEANING: ClassVar = "minf"
    KEYWORDS: ClassVar = {"propagate_nan": True}
    NEUTRAL: ClassVar = float("inf")
    EXAMPLES: ClassVar = examples("%s = arith.minimumf %f, %g {flush_to_zero} : tile<8xf32>")


@arith_op("arith.maxnumf", group=FLOATS)
class MaxnumfOp(Extremum):
    """The larger element; one NaN gives the other operand, two give NaN.

    -0 is smaller than +0, where upstream may give either.
    """

    MEANING: ClassVar = "maxf"
    NEUTRAL: ClassVar = float("nan")
    EXAMPLES: ClassVar = examples("%s = arith.maxnumf %f, %g {flush_to_zero} : tile<8xf32>")


@arith_op("arith.minnumf", group=FLOATS)
class MinnumfOp(Extremum):
    """The smaller element; one NaN gives the other operand, two give NaN.

    -0 is smaller than +0, where upstream may give either.
    """

    MEANING: ClassVar = "minf"
    NEUTRAL: ClassVar = float("nan")
    EXAMPLES: ClassVar = examples("%s = arith.minnumf %x, %x : f32")


@arith_op("arith.remf", group=FLOATS)
class RemfOp(FloatBinary):
    """lhs - trunc(lhs / rhs) * rhs, exact; the sign follows lhs. NaN where rhs is 0."""

    COST: ClassVar = 40
    EXAMPLES: ClassVar = examples("%s = arith.remf %f, %g : tile<8xf32>")


@arith_op("math.absf", group=MATH)
class AbsFOp(FloatUnary):
    """The sign bit cleared, of NaN too."""

    EXAMPLES: ClassVar = examples("%s = math.absf %f : tile<8xf32>")


@arith_op("math.ceil", group=MATH)
class CeilOp(FloatUnary):
    """The smallest integral value not below each element; keeps the sign of zero."""

    EXAMPLES: ClassVar = examples("%s = math.ceil %f : tile<8xf32>")


@arith_op("math.floor", group=MATH)
class FloorOp(FloatUnary):
    """The largest integral value not above each element; keeps the sign of zero."""

    EXAMPLES: ClassVar = examples("%s = math.floor %x : f32")


@arith_op("math.cos", group=MATH)
class CosOp(FloatUnary):
    """Cosine (radians); f16 and bf16 are computed in f32 and rounded once."""

    COST: ClassVar = 25
    EXAMPLES: ClassVar = examples("%s = math.cos %f : tile<8xf32>")


@arith_op("math.sin", group=MATH)
class SinOp(FloatUnary):
    """Sine (radians); f16 and bf16 are computed in f32 and rounded once."""

    COST: ClassVar = 25
    EXAMPLES: ClassVar = examples("%s = math.sin %f : tile<8xf32>")


@arith_op("math.tan", group=MATH)
class TanOp(FloatUnary):
    """Tangent (radians); f16 and bf16 are computed in f32 and rounded once."""

    COST: ClassVar = 30
    EXAMPLES: ClassVar = examples("%s = math.tan %x : f32")


@arith_op("math.cosh", group=MATH)
class CoshOp(FloatUnary):
    """Hyperbolic cosine; f16 and bf16 are computed in f32 and rounded once."""

    COST: ClassVar = 30
    EXAMPLES: ClassVar = examples("%s = math.cosh %f : tile<8xf32>")


@arith_op("math.sinh", group=MATH)
class SinhOp(FloatUnary):
    """Hyperbolic sine; f16 and bf16 are computed in f32 and rounded once."""

    COST: ClassVar = 30
    EXAMPLES: ClassVar = examples("%s = math.sinh %f : tile<8xf32>")


@arith_op("math.tanh", group=MATH)
class TanhOp(Graded):
    """Hyperbolic tangent; full is within 2 ulp in f32 and 1 ulp in f64."""

    COST: ClassVar = 20
    EXAMPLES: ClassVar = examples("%s = math.tanh %f {rounding_mode = approx} : tile<8xf32>")


@arith_op("math.exp", group=MATH)
class ExpOp(Graded):
    """e to the power of each element; f16 and bf16 are computed in f32 and rounded once."""

    COST: ClassVar = 12
    EXAMPLES: ClassVar = examples(
        "%s = math.exp %f : tile<8xf32>", "%s = math.exp %x {rounding_mode = full} : f32"
    )


@arith_op("math.log", group=MATH)
class LogOp(FloatUnary):
    """Natural logarithm: -inf for zeros, NaN for negatives."""

    COST: ClassVar = 15
    EXAMPLES: ClassVar = examples("%s = math.log %f : tile<8xf32>")


@arith_op("math.log2", group=MATH)
class Log2Op(FloatUnary):
    """Logarithm to base 2: -inf for zeros, NaN for negatives."""

    COST: ClassVar = 15
    EXAMPLES: ClassVar = examples("%s = math.log2 %f : tile<8xf32>")


@arith_op("math.atan2", group=MATH)
class Atan2Op(FloatBinary):
    """The angle of the ratio lhs / rhs, in (-pi, pi], its quadrant from the signs of both."""

    COST: ClassVar = 30
    EXAMPLES: ClassVar = examples("%s = math.atan2 %f, %g : tile<8xf32>")


@arith_op("math.powf", group=MATH)
class PowFOp(FloatBinary):
    """lhs to the power of rhs, with the special values of C99's pow."""

    MEANING: ClassVar = "fpowf"
    COST: ClassVar = 40
    EXAMPLES: ClassVar = examples("%s = math.powf %f, %g : tile<8xf32>")


@arith_op("math.fpowi", group=MATH)
class FPowIOp(ArithOp):
    """lhs to the power of an integer, read signed; 1 for exponent 0."""

    lhs = operand_def(FLOAT)
    rhs = operand_def(EXPONENT)
    result = result_def(FLOAT)
    traits = traits_def(Pure())
    COST: ClassVar = 40
    RELATIONS: ClassVar = (same_type("lhs", "result"), same_shape("lhs", "rhs"))
    SYNTAX: ClassVar = syntax("$lhs, $rhs attr-dict : type($result), type($rhs)")
    INFER: ClassVar = {"lhs": "result"}
    EXAMPLES: ClassVar = examples("%s = math.fpowi %f, %k : tile<8xf32>, tile<8xi32>")
