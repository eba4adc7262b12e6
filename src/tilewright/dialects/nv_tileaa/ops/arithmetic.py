"""Element-wise mathematics on scalars and tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.irdl import operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.dialects.declare import Report, attr, enum_property, examples
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa import constraints as K
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import (
    TileAAOp,
    check_same_element,
    check_same_shape,
    is_set,
    tileaa_op,
)
from tilewright.dialects.nv_tileaa.enums import RoundingModeAttr
from tilewright.dialects.nv_tileaa.signature import UNIFORM
from tilewright.dialects.syntax.engine import values_of

GROUP = "arithmetic"

ROUNDING = K.enum_kind(RoundingModeAttr)
DIRECTED = ("nearest_even", "zero", "negative_inf", "positive_inf")
#: Modes that name a faster function instead of a rounding; they exist for f32 only.
FAST = frozenset({"approx", "full"})


class ElementWise(TileAAOp):
    """What element-wise operations share: shapes, element types, rounding and flushing."""

    traits = traits_def(Pure())
    ELEMENTS: ClassVar = Elements.SAME_POSITION
    SYNTAX: ClassVar = UNIFORM
    ROUNDINGS: ClassVar[Sequence[str]] = ()

    def check(self, report: Report) -> None:
        operands = [name for name, _ in self.get_irdl_definition().operands]
        check_same_shape(self, report, operands, "result")
        check_same_element(self, report, [*operands[1:], "result"], operands[0])
        element = T.element_name(T.element_of(values_of(self, operands[0])[0].type))
        mode = enum_property(self, "rounding_mode")
        if mode and mode not in self.ROUNDINGS:
            report.error(
                codes.ROUNDING,
                f"'{self.name}' rounds to one of: {', '.join(self.ROUNDINGS)}, but got: {mode}",
                attr("rounding_mode"),
            )
        elif mode in FAST and element != "f32":
            report.error(
                codes.ROUNDING,
                f"rounding mode {mode} exists for f32 only, but the elements are {element}",
                attr("rounding_mode"),
            )
        if is_set(self, "flush_to_zero") and element != "f32":
            report.error(
                codes.FLUSH_TO_ZERO,
                f"flush_to_zero exists for f32 only, but the elements are {element}",
                attr("flush_to_zero"),
            )


class FloatElementWise(ElementWise):
    """An operation that gives floats."""

    flush_to_zero = opt_prop_def(K.FLAG)
    result = result_def(K.FLOAT)


class Rounded(FloatElementWise):
    """An operation that is rounded once."""

    rounding_mode = opt_prop_def(ROUNDING)
    ROUNDINGS: ClassVar[Sequence[str]] = DIRECTED


class RoundedPair(Rounded):
    """The same of two operands."""

    lhs = operand_def(K.FLOAT)
    rhs = operand_def(K.FLOAT)


@tileaa_op("addf", group=GROUP)
class AddFOp(RoundedPair):
    """Sum of floats, rounded once."""

    MEANING: ClassVar = "addf"
    COST: ClassVar = 1
    NEUTRAL: ClassVar = -0.0
    #: Towards -inf, -0 and +0 make -0.
    NEUTRAL_BY_ROUNDING: ClassVar = {"negative_inf": 0.0}
    EXAMPLES: ClassVar = examples(
        "%s = nv_tileaa.addf %f, %g {rounding_mode = nearest_even} : tile<8xf32>",
        "%s = nv_tileaa.addf %f, %x {flush_to_zero} : tile<8xf32>, f32 -> tile<8xf32>",
    )


@tileaa_op("subf", group=GROUP)
class SubFOp(RoundedPair):
    """Difference of floats, rounded once."""

    MEANING: ClassVar = "subf"
    COST: ClassVar = 1
    EXAMPLES: ClassVar = examples(
        "%s = nv_tileaa.subf %f, %g {rounding_mode = #nv_tileaa<rounding_mode zero>} : tile<8xf32>",
    )


@tileaa_op("mulf", group=GROUP)
class MulFOp(RoundedPair):
    """Product of floats, rounded once."""

    MEANING: ClassVar = "mulf"
    COST: ClassVar = 1
    NEUTRAL: ClassVar = 1.0
    EXAMPLES: ClassVar = examples("%s = nv_tileaa.mulf %x, %f : f32, tile<8xf32> -> tile<8xf32>")


@tileaa_op("divf", group=GROUP)
class DivFOp(RoundedPair):
    """Quotient of floats; ``approx`` and ``full`` trade accuracy for speed."""

    MEANING: ClassVar = "divf"
    COST: ClassVar = 8
    ROUNDINGS: ClassVar = (*DIRECTED, "approx", "full")
    EXAMPLES: ClassVar = examples(
        "%s = nv_tileaa.divf %f, %g {rounding_mode = approx, flush_to_zero} : tile<8xf32>",
    )


@tileaa_op("fma", group=GROUP)
class FmaOp(Rounded):
    """lhs * rhs + acc, rounded once."""

    lhs = operand_def(K.FLOAT)
    rhs = operand_def(K.FLOAT)
    acc = operand_def(K.FLOAT)
    MEANING: ClassVar = "fma"
    COST: ClassVar = 1
    EXAMPLES: ClassVar = examples("%s = nv_tileaa.fma %f, %g, %f : tile<8xf32>")


@tileaa_op("sqrt", group=GROUP)
class SqrtOp(Rounded):
    """Square root; ``approx`` trades accuracy for speed."""

    source = operand_def(K.FLOAT)
    MEANING: ClassVar = "sqrt"
    COST: ClassVar = 8
    ROUNDINGS: ClassVar = (*DIRECTED, "approx")
    EXAMPLES: ClassVar = examples("%s = nv_tileaa.sqrt %f {rounding_mode = rn} : tile<8xf32>")


@tileaa_op("rsqrt", group=GROUP)
class RsqrtOp(FloatElementWise):
    """Approximate reciprocal square root."""

    source = operand_def(K.FLOAT)
    MEANING: ClassVar = "rsqrt"
    COST: ClassVar = 10
    EXAMPLES: ClassVar = examples("%s = nv_tileaa.rsqrt %x {flush_to_zero} : f32")


@tileaa_op("exp2", group=GROUP)
class Exp2Op(FloatElementWise):
    """Approximate power of two."""

    source = operand_def(K.FLOAT)
    MEANING: ClassVar = "exp2"
    COST: ClassVar = 12
    EXAMPLES: ClassVar = examples("%s = nv_tileaa.exp2 %f : tile<8xf32>")


@tileaa_op("clampf", group=GROUP)
class ClampFOp(ElementWise):
    """min(max(source, lower), upper); with ``propagate_nan`` a NaN operand gives NaN."""

    source = operand_def(K.FLOAT)
    lower = operand_def(K.FLOAT)
    upper = operand_def(K.FLOAT)
    propagate_nan = opt_prop_def(K.FLAG)
    result = result_def(K.FLOAT)
    MEANING: ClassVar = "clampf"
    COST: ClassVar = 4
    EXAMPLES: ClassVar = examples(
        "%s = nv_tileaa.clampf %f, %x, %x {propagate_nan = true} "
        ": tile<8xf32>, f32, f32 -> tile<8xf32>",
        "%s = nv_tileaa.clampf %f, %g, %g {propagate_nan} : tile<8xf32>",
    )


@tileaa_op("mulhiui", group=GROUP)
class MulhiUIOp(ElementWise):
    """The upper half of the double-width product of the operands, both read unsigned."""

    lhs = operand_def(K.INTEGER)
    rhs = operand_def(K.INTEGER)
    result = result_def(K.INTEGER)
    MEANING: ClassVar = "mulhii"
    COST: ClassVar = 3
    EXAMPLES: ClassVar = examples("%s = nv_tileaa.mulhiui %k, %k : tile<8xi32>")
