"""Conversions between floats of ``arith``, with the rounding mode that xDSL's lack."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from tilewright.dialects.declare import examples
from tilewright.dialects.syntax.engine import Directive, ParseState
from tilewright.dialects.syntax.tokens import consume, token_text
from tilewright.dialects.upstream.arith.syntax import FastMath
from tilewright.dialects.upstream.arith.vectors import (
    FAST_MATH,
    FLOAT,
    Conversion,
)
from tilewright.dialects.upstream.base.constraints import Kind
from tilewright.dialects.upstream.base.directives import syntax
from tilewright.dialects.upstream.base.operations import upstream_op

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


def _mode(parser: Parser) -> Attribute:
    return IntegerAttr(ROUNDING_MODES.index(consume(parser)), i32)


class Rounding(Directive):
    """A rounding mode, or nothing."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        if token_text(parser) in ROUNDING_MODES:
            state.read(parser, "roundingmode", lambda: _mode(parser))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        if "roundingmode" in op.properties:
            printer.print_string(f" {rounding_of(op)}")

    def grammar(self) -> str:
        return "[" + " | ".join(f"`{mode}`" for mode in ROUNDING_MODES) + "]"


class FloatConversion(Conversion):
    """A conversion of floats by element."""

    input = operand_def(FLOAT)
    fastmath = opt_prop_def(FAST_MATH)
    result = result_def(FLOAT)
    traits = traits_def(Pure())
    HIDDEN: ClassVar = frozenset({"fastmath", "roundingmode"})


@upstream_op("arith", "extf")
class ExtFOp(FloatConversion):
    """The same number in a wider type of floats."""

    WIDENS: ClassVar = 1
    SYNTAX: ClassVar = syntax("$input", FastMath(), "attr-dict : type($input) to type($result)")
    EXAMPLES: ClassVar = examples("%wide = arith.extf %a : vector<4x2xf16> to vector<4x2xf32>")


@upstream_op("arith", "truncf")
class TruncFOp(FloatConversion):
    """The number of a narrower type that is next in the direction of the rounding mode.

    Without one, to the nearest, of two to the even. Types of 8 and fewer bits have no infinity here:
    what is too large becomes the largest.
    """

    roundingmode = opt_prop_def(_MODE)
    WIDENS: ClassVar = -1
    SYNTAX: ClassVar = syntax(
        "$input", Rounding(), FastMath(), "attr-dict : type($input) to type($result)"
    )
    EXAMPLES: ClassVar = examples(
        """
        %narrow = arith.truncf %v : vector<2x2xf32> to vector<2x2xf8E4M3FN>
        %cut = arith.truncf %v toward_zero : vector<2x2xf32> to vector<2x2xf16>
        """
    )
