"""Conversions between floats of ``arith``, with the rounding mode that xDSL's lack."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import FloatTF32Type, IntegerAttr, VectorType, i32
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from tilewright.dialects.declare import Report, examples, type_of
from tilewright.dialects.nvgpu import codes
from tilewright.dialects.nvgpu.constraints import Kind
from tilewright.dialects.nvgpu.shapes import bit_width
from tilewright.dialects.nvgpu.signature import ATTRIBUTES
from tilewright.dialects.nvgpu.support.arith_vectors import FLOAT, FastMath, element_of
from tilewright.dialects.nvgpu.support.base import SupportOp, support_op
from tilewright.dialects.nvgpu.type_syntax import format_type
from tilewright.dialects.syntax.directives import COLON, Keyword, Operand, TypeOf
from tilewright.dialects.syntax.engine import Directive, ParseState, values_of
from tilewright.dialects.syntax.tokens import consume, previous_end, token_start, token_text

#: The rounding modes of ``arith``; their places are their numbers.
ROUNDING_MODES = ("to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away")
_MODE = Kind(
    "the number of a rounding mode",
    IntegerAttr,
    lambda a: isinstance(a, IntegerAttr) and 0 <= a.value.data < len(ROUNDING_MODES),
)


def rounding_of(op: IRDLOperation) -> str:
    """The keyword of the rounding mode of a conversion: to the nearest where it says none."""
    found = op.properties.get("roundingmode")
    return ROUNDING_MODES[found.value.data if isinstance(found, IntegerAttr) else 0]


class Rounding(Directive):
    """A rounding mode, or nothing."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        start, text = token_start(parser), token_text(parser)
        if text in ROUNDING_MODES:
            consume(parser)
            state.properties["roundingmode"] = IntegerAttr(ROUNDING_MODES.index(text), i32)
            state.mark(("attr", "roundingmode", 0), start, previous_end(parser))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        if "roundingmode" in op.properties:
            printer.print_string(f" {rounding_of(op)}")

    def grammar(self) -> str:
        return "[" + " | ".join(f"`{mode}`" for mode in ROUNDING_MODES) + "]"


def significant_width(ty: Attribute) -> int:
    """The bits that an element has: 19 of tf32, whatever it takes in memory."""
    element = element_of(ty)
    return 19 if isinstance(element, FloatTF32Type) else bit_width(element)


class FloatConversion(SupportOp):
    """A conversion of floats by element; ``WIDENS``: whether to a wider type."""

    WIDENS: ClassVar[bool]

    def check(self, report: Report) -> None:
        source, result = (values_of(self, name)[0].type for name in ("input", "result"))
        shapes = [ty.get_shape() if isinstance(ty, VectorType) else None for ty in (source, result)]
        if shapes[0] != shapes[1]:
            report.error(
                codes.FRAGMENT,
                f"expected a result of the shape of '{format_type(source)}', got "
                f"'{format_type(result)}'",
                type_of("result"),
            )
            return
        narrow, wide = (source, result) if self.WIDENS else (result, source)
        if significant_width(narrow) >= significant_width(wide):
            report.error(
                codes.ELEMENT_TYPE,
                f"expected a {'wider' if self.WIDENS else 'narrower'} type than "
                f"'{format_type(source)}', got '{format_type(result)}'",
                type_of("result"),
            )


_HIDDEN = frozenset({"fastmath", "roundingmode"})
_TYPES = (ATTRIBUTES, COLON, TypeOf("input"), Keyword("to"), TypeOf("result"))


@support_op("arith", "extf")
class ExtFOp(FloatConversion):
    """The same number in a wider type of floats."""

    input = operand_def(FLOAT)
    fastmath = opt_prop_def(Kind("flags for floats", Attribute))
    result = result_def(FLOAT)

    traits = traits_def(Pure())
    WIDENS: ClassVar = True
    HIDDEN: ClassVar = _HIDDEN
    SYNTAX: ClassVar = (Operand("input"), FastMath(), *_TYPES)
    EXAMPLES: ClassVar = examples("%wide = arith.extf %a : vector<4x2xf16> to vector<4x2xf32>")


@support_op("arith", "truncf")
class TruncFOp(FloatConversion):
    """The number of a narrower type that is next in the direction of the rounding mode.

    Without one, to the nearest, of two to the even. Types of 8 and fewer bits have no infinity here:
    what is too large becomes the largest.
    """

    input = operand_def(FLOAT)
    roundingmode = opt_prop_def(_MODE)
    fastmath = opt_prop_def(Kind("flags for floats", Attribute))
    result = result_def(FLOAT)

    traits = traits_def(Pure())
    WIDENS: ClassVar = False
    HIDDEN: ClassVar = _HIDDEN
    SYNTAX: ClassVar = (Operand("input"), Rounding(), FastMath(), *_TYPES)
    EXAMPLES: ClassVar = examples(
        """
        %narrow = arith.truncf %v : vector<2x2xf32> to vector<2x2xf8E4M3FN>
        %cut = arith.truncf %v toward_zero : vector<2x2xf32> to vector<2x2xf16>
        """
    )


OPERATIONS = (ExtFOp, TruncFOp)
