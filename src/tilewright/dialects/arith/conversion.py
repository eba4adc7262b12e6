"""Conversions between element types."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IndexType
from xdsl.irdl import operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.dialects.arith import codes
from tilewright.dialects.arith.base import (
    CONVERSION,
    INTEGER,
    INTEGER_OR_I4,
    NUMBER,
    OVERFLOW,
    SIGNED,
    UNSIGNED,
    WORD,
    WRAPPING_CONVERSION,
    ArithOp,
    ElementCall,
    arith_op,
    numeric_element,
)
from tilewright.dialects.declare import Report, examples, same_shape, type_of
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.constraints import ANY_FLOAT
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.numerics.element_types import FORMATS

GROUP = "conversion"


class Conversion(ArithOp):
    """One operand; the result has its shape and another element type."""

    traits = traits_def(Pure())
    CONVERTS: ClassVar = True
    RELATIONS: ClassVar = (same_shape("source", "result"),)
    SYNTAX: ClassVar = CONVERSION

    def widths(self) -> tuple[int, int]:
        """The significant bits of an element of the operand and of the result."""
        source, result = (numeric_element(v.type) for v in (*self.operands, *self.results))
        return FORMATS[source].bits, FORMATS[result].bits


class Extension(Conversion):
    """Integers in a wider type."""

    source = operand_def(INTEGER_OR_I4)
    result = result_def(INTEGER_OR_I4)
    MEANING: ClassVar = "exti"

    def check(self, report: Report) -> None:
        source, result = self.widths()
        if source >= result:
            report.error(
                codes.WIDTH,
                f"expected a result wider than the {source} bits of the operand, got {result}",
                type_of("result"),
            )


@arith_op("arith.extsi", group=GROUP)
class ExtSIOp(Extension):
    """The same number, read signed, in a wider type."""

    KEYWORDS: ClassVar = SIGNED
    EXAMPLES: ClassVar = examples("%s = arith.extsi %k : tile<8xi32> to tile<8xi64>")


@arith_op("arith.extui", group=GROUP)
class ExtUIOp(Extension):
    """The same number, read unsigned, in a wider type."""

    KEYWORDS: ClassVar = UNSIGNED
    EXAMPLES: ClassVar = examples("%s = arith.extui %mask : tile<8xi1> to tile<8xi8>")


@arith_op("arith.trunci", group=GROUP)
class TruncIOp(Conversion):
    """The low bits of integers.

    Flags promise what the dropped bits are: copies of the new sign bit (nsw), zeros (nuw).
    """

    source = operand_def(INTEGER_OR_I4)
    result = result_def(INTEGER_OR_I4)
    overflow_flags = opt_prop_def(OVERFLOW, prop_name="overflowFlags")
    SYNTAX: ClassVar = WRAPPING_CONVERSION
    HIDDEN: ClassVar = frozenset({"overflowFlags"})
    EXAMPLES: ClassVar = examples(
        "%s = arith.trunci %m : i64 to i32",
        "%s = arith.trunci %k overflow<nsw> : tile<8xi32> to tile<8xi8>",
    )
    UNDEFINED: ClassVar = ("dropped bits other than the overflow flags state",)

    def check(self, report: Report) -> None:
        source, result = self.widths()
        if source <= result:
            report.error(
                codes.WIDTH,
                f"expected a result narrower than the {source} bits of the operand, got {result}",
                type_of("result"),
            )


class IndexConversion(Conversion):
    """Between integers and ``index``, which has 64 bits."""

    source = operand_def(WORD)
    result = result_def(WORD)

    def meaning(self) -> ElementCall:
        source, result = self.widths()
        element = numeric_element(self.operands[0].type)
        to = numeric_element(self.results[0].type)
        if source < result:
            return ElementCall("exti", element, {"to": to, **self.KEYWORDS})
        return ElementCall("trunci" if source > result else "bitcast", element, {"to": to})

    def check(self, report: Report) -> None:
        types = (self.operands[0].type, self.results[0].type)
        if sum(isinstance(T.element_of(ty), IndexType) for ty in types) != 1:
            source, result = map(format_type, types)
            report.error(
                codes.INDEX_CAST,
                f"expected index on one side and integers on the other, got '{source}' and "
                f"'{result}'",
                type_of("result"),
            )


@arith_op("arith.index_cast", group=GROUP)
class IndexCastOp(IndexConversion):
    """The same number, read signed; narrower integers keep the low bits."""

    MEANING: ClassVar = "exti"
    KEYWORDS: ClassVar = SIGNED
    SOURCE: ClassVar = "pointer offsets"
    EXAMPLES: ClassVar = examples(
        "%s = arith.index_cast %k : tile<8xi32> to tile<8xindex>",
        "%s = arith.index_cast %i : index to i32",
    )


@arith_op("arith.index_castui", group=GROUP)
class IndexCastUIOp(IndexConversion):
    """The same number, read unsigned; narrower integers keep the low bits."""

    MEANING: ClassVar = "exti"
    KEYWORDS: ClassVar = UNSIGNED
    SOURCE: ClassVar = "indices, extents and strides"
    EXAMPLES: ClassVar = examples("%s = arith.index_castui %n : i32 to index")


@arith_op("arith.bitcast", group=GROUP)
class BitcastOp(Conversion):
    """The same bits as another type of the same width."""

    source = operand_def(NUMBER)
    result = result_def(NUMBER)
    EXAMPLES: ClassVar = examples("%s = arith.bitcast %f : tile<8xf32> to tile<8xi32>")

    def check(self, report: Report) -> None:
        source, result = self.widths()
        if source != result:
            report.error(
                codes.WIDTH,
                f"expected elements of one width, got {source} and {result} bits",
                type_of("result"),
            )


class FromInteger(Conversion):
    """Integers as floats, rounded once to nearest even."""

    source = operand_def(INTEGER)
    result = result_def(ANY_FLOAT)
    MEANING: ClassVar = "itof"
    COST: ClassVar = 2

    def check(self, report: Report) -> None:
        if numeric_element(self.results[0].type) == "f8E8M0FNU":
            report.error(
                codes.CONVERSION,
                "integers have no conversion to f8E8M0FNU, which holds powers of two only",
                type_of("result"),
            )


@arith_op("arith.sitofp", group=GROUP)
class SIToFPOp(FromInteger):
    """Integers, read signed, as floats, rounded once to nearest even.

    8-bit and 4-bit floats saturate.
    """

    KEYWORDS: ClassVar = SIGNED
    EXAMPLES: ClassVar = examples("%s = arith.sitofp %k : tile<8xi32> to tile<8xf32>")


@arith_op("arith.uitofp", group=GROUP)
class UIToFPOp(FromInteger):
    """Integers, read unsigned, as floats, rounded once to nearest even.

    8-bit and 4-bit floats saturate.
    """

    KEYWORDS: ClassVar = UNSIGNED
    EXAMPLES: ClassVar = examples("%s = arith.uitofp %n : i32 to f16")


class ToInteger(Conversion):
    """Floats truncated to integers."""

    source = operand_def(ANY_FLOAT)
    result = result_def(INTEGER)
    MEANING: ClassVar = "ftoi"
    COST: ClassVar = 3


@arith_op("arith.fptosi", group=GROUP)
class FPToSIOp(ToInteger):
    """Floats truncated to signed integers.

    What does not fit becomes the nearest number that does, and NaN becomes 0: upstream leaves both
    undefined.
    """

    KEYWORDS: ClassVar = {**SIGNED, "saturating": True}
    EXAMPLES: ClassVar = examples("%s = arith.fptosi %f : tile<8xf32> to tile<8xi32>")


@arith_op("arith.fptoui", group=GROUP)
class FPToUIOp(ToInteger):
    """Floats truncated to unsigned integers.

    What does not fit becomes the nearest number that does, and NaN becomes 0: upstream leaves both
    undefined.
    """

    KEYWORDS: ClassVar = {**UNSIGNED, "saturating": True}
    EXAMPLES: ClassVar = examples("%s = arith.fptoui %x : f32 to i8")
