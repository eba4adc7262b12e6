"""Integers: arithmetic, bits, comparisons, conversions; and the selection between values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from xdsl.dialects.builtin import IndexType, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoMemoryEffect, Pure

from tilewright.dialects.arith import codes
from tilewright.dialects.arith.base import (
    BINARY,
    CONVERSION,
    INTEGER,
    INTEGER_OR_I4,
    OVERFLOW,
    PAIR,
    PROPERTIES,
    WORD,
    WRAPPING_BINARY,
    WRAPPING_CONVERSION,
    ArithOp,
    ElementCall,
    arith_op,
    numeric_element,
    truth_like,
)
from tilewright.dialects.declare import (
    Report,
    attr,
    examples,
    same_shape,
    same_type,
    type_of,
)
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.constraints import (
    ANY_FLOAT,
    ANY_VALUE,
    FLOAT,
    I1,
    INT64,
    NUMBER,
)
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.dialects.syntax.directives import (
    BAD_KEYWORD,
    COLON,
    COMMA,
    Operand,
    parse_type_into,
)
from tilewright.dialects.syntax.directives import TypeOf as TypeOfGroup
from tilewright.dialects.syntax.engine import Directive, ParseState
from tilewright.dialects.syntax.tokens import (
    consume,
    fail,
    previous_end,
    token_start,
    token_text,
)
from tilewright.numerics.element_types import FORMATS

SIGNED = {"signedness": "signed"}
UNSIGNED = {"signedness": "unsigned"}
WRAPS = ("a result that wraps in a reading that the overflow flags promise not to",)
TOO_FAR = ("a shift by the width or more",)
ZERO_DIVISOR = ("a zero in rhs",)
OVERFLOWING_DIVISION = (*ZERO_DIVISOR, "the smallest value divided by -1")


class IntegerPair(ArithOp):
    """Two operands of one type, which is the result's; may be undefined for some of them."""

    lhs = operand_def(WORD)
    rhs = operand_def(WORD)
    result = result_def(WORD)
    RELATIONS: ClassVar = (same_type("lhs", "rhs", "result"),)
    SYNTAX: ClassVar = BINARY
    INFER: ClassVar = {"lhs": "result", "rhs": "result"}


class IntegerBinary(IntegerPair):
    """As above, safe to execute anywhere."""

    traits = traits_def(Pure())


class Division(IntegerPair):
    """As above, but not to be executed where the program does not."""

    traits = traits_def(NoMemoryEffect())


class Wrapping(IntegerBinary):
    """As above, with promises that the result does not wrap: nsw read signed, nuw unsigned."""

    overflow_flags = opt_prop_def(OVERFLOW, prop_name="overflowFlags")
    SYNTAX: ClassVar = WRAPPING_BINARY
    HIDDEN: ClassVar = frozenset({"overflowFlags"})
    UNDEFINED: ClassVar = WRAPS


@arith_op("arith.addi", group="integer")
class AddiOp(Wrapping):
    """lhs + rhs modulo 2**width."""

    MEANING: ClassVar = "addi"
    SOURCE: ClassVar = "addi"
    EXAMPLES: ClassVar = examples(
        "%s = arith.addi %k, %k : tile<8xi32>",
        "%s = arith.addi %n, %n overflow<nsw, nuw> : i32",
    )


@arith_op("arith.subi", group="integer")
class SubiOp(Wrapping):
    """lhs - rhs modulo 2**width."""

    MEANING: ClassVar = "subi"
    SOURCE: ClassVar = "subi, negi"
    EXAMPLES: ClassVar = examples("%s = arith.subi %i, %j overflow<nsw> : index")


@arith_op("arith.muli", group="integer")
class MuliOp(Wrapping):
    """lhs * rhs modulo 2**width."""

    MEANING: ClassVar = "muli"
    SOURCE: ClassVar = "muli"
    EXAMPLES: ClassVar = examples("%s = arith.muli %k, %k overflow<nuw> : tile<8xi32>")


@arith_op("arith.divsi", group="integer")
class DivSIOp(Division):
    """lhs / rhs, both read signed, rounded to zero."""

    MEANING: ClassVar = "divi"
    KEYWORDS: ClassVar = {**SIGNED, "rounding": "zero"}
    SOURCE: ClassVar = "divi signed"
    EXAMPLES: ClassVar = examples("%s = arith.divsi %k, %k : tile<8xi32>")
    UNDEFINED: ClassVar = OVERFLOWING_DIVISION


@arith_op("arith.divui", group="integer")
class DivUIOp(Division):
    """lhs / rhs, both read unsigned, rounded down."""

    MEANING: ClassVar = "divi"
    KEYWORDS: ClassVar = {**UNSIGNED, "rounding": "zero"}
    SOURCE: ClassVar = "divi unsigned"
    EXAMPLES: ClassVar = examples("%s = arith.divui %n, %n : i32")
    UNDEFINED: ClassVar = ZERO_DIVISOR


@arith_op("arith.ceildivsi", group="integer")
class CeilDivSIOp(Division):
    """lhs / rhs, both read signed, rounded up."""

    MEANING: ClassVar = "divi"
    KEYWORDS: ClassVar = {**SIGNED, "rounding": "positive_inf"}
    SOURCE: ClassVar = "divi signed rounding<positive_inf>"
    EXAMPLES: ClassVar = examples("%s = arith.ceildivsi %n, %n : i32")
    UNDEFINED: ClassVar = OVERFLOWING_DIVISION


@arith_op("arith.ceildivui", group="integer")
class CeilDivUIOp(Division):
    """lhs / rhs, both read unsigned, rounded up."""

    MEANING: ClassVar = "divi"
    KEYWORDS: ClassVar = {**UNSIGNED, "rounding": "positive_inf"}
    SOURCE: ClassVar = "divi unsigned rounding<positive_inf>"
    EXAMPLES: ClassVar = examples("%s = arith.ceildivui %i, %j : index")
    UNDEFINED: ClassVar = ZERO_DIVISOR


@arith_op("arith.floordivsi", group="integer")
class FloorDivSIOp(Division):
    """lhs / rhs, both read signed, rounded down."""

    MEANING: ClassVar = "divi"
    KEYWORDS: ClassVar = {**SIGNED, "rounding": "negative_inf"}
    SOURCE: ClassVar = "divi signed rounding<negative_inf>"
    EXAMPLES: ClassVar = examples("%s = arith.floordivsi %k, %k : tile<8xi32>")
    UNDEFINED: ClassVar = OVERFLOWING_DIVISION


@arith_op("arith.remsi", group="integer")
class RemSIOp(Division):
    """lhs - trunc(lhs / rhs) * rhs, both read signed; the sign follows lhs.

    0 for the smallest value and -1, which upstream leaves undefined.
    """

    MEANING: ClassVar = "remi"
    KEYWORDS: ClassVar = SIGNED
    SOURCE: ClassVar = "remi signed"
    EXAMPLES: ClassVar = examples("%s = arith.remsi %k, %k : tile<8xi32>")
    UNDEFINED: ClassVar = ZERO_DIVISOR


@arith_op("arith.remui", group="integer")
class RemUIOp(Division):
    """lhs - floor(lhs / rhs) * rhs, both read unsigned."""

    MEANING: ClassVar = "remi"
    KEYWORDS: ClassVar = UNSIGNED
    SOURCE: ClassVar = "remi unsigned"
    EXAMPLES: ClassVar = examples("%s = arith.remui %n, %n : i32")
    UNDEFINED: ClassVar = ZERO_DIVISOR


@arith_op("arith.maxsi", group="integer")
class MaxSIOp(IntegerBinary):
    """The larger element, read signed."""

    MEANING: ClassVar = "maxi"
    KEYWORDS: ClassVar = SIGNED
    SOURCE: ClassVar = "maxi signed"
    EXAMPLES: ClassVar = examples("%s = arith.maxsi %k, %k : tile<8xi32>")


@arith_op("arith.maxui", group="integer")
class MaxUIOp(IntegerBinary):
    """The larger element, read unsigned."""

    MEANING: ClassVar = "maxi"
    KEYWORDS: ClassVar = UNSIGNED
    SOURCE: ClassVar = "maxi unsigned"
    EXAMPLES: ClassVar = examples("%s = arith.maxui %i, %j : index")


@arith_op("arith.minsi", group="integer")
class MinSIOp(IntegerBinary):
    """The smaller element, read signed."""

    MEANING: ClassVar = "mini"
    KEYWORDS: ClassVar = SIGNED
    SOURCE: ClassVar = "mini signed"
    EXAMPLES: ClassVar = examples("%s = arith.minsi %k, %k : tile<8xi32>")


@arith_op("arith.minui", group="integer")
class MinUIOp(IntegerBinary):
    """The smaller element, read unsigned."""

    MEANING: ClassVar = "mini"
    KEYWORDS: ClassVar = UNSIGNED
    SOURCE: ClassVar = "mini unsigned"
    EXAMPLES: ClassVar = examples("%s = arith.minui %n, %n : i32")


@arith_op("arith.andi", group="bitwise")
class AndIOp(IntegerBinary):
    """Bitwise and."""

    MEANING: ClassVar = "andi"
    SOURCE: ClassVar = "andi"
    EXAMPLES: ClassVar = examples("%s = arith.andi %mask, %mask : tile<8xi1>")


@arith_op("arith.ori", group="bitwise")
class OrIOp(IntegerBinary):
    """Bitwise or."""

    MEANING: ClassVar = "ori"
    SOURCE: ClassVar = "ori"
    EXAMPLES: ClassVar = examples("%s = arith.ori %k, %k : tile<8xi32>")


@arith_op("arith.xori", group="bitwise")
class XOrIOp(IntegerBinary):
    """Bitwise exclusive or."""

    MEANING: ClassVar = "xori"
    SOURCE: ClassVar = "xori"
    EXAMPLES: ClassVar = examples("%s = arith.xori %c, %c : i1")


@arith_op("arith.shli", group="bitwise")
class ShLIOp(Wrapping):
    """lhs shifted left by rhs bits, read unsigned; zeros come in.

    A shift by the width or more gives 0.
    """

    MEANING: ClassVar = "shli"
    SOURCE: ClassVar = "shli"
    EXAMPLES: ClassVar = examples("%s = arith.shli %k, %k overflow<nsw> : tile<8xi32>")
    UNDEFINED: ClassVar = (*WRAPS, *TOO_FAR)


@arith_op("arith.shrsi", group="bitwise")
class ShRSIOp(IntegerBinary):
    """lhs shifted right by rhs bits, read unsigned; copies of the sign come in."""

    MEANING: ClassVar = "shri"
    KEYWORDS: ClassVar = SIGNED
    SOURCE: ClassVar = "shri signed"
    EXAMPLES: ClassVar = examples("%s = arith.shrsi %k, %k : tile<8xi32>")
    UNDEFINED: ClassVar = TOO_FAR


@arith_op("arith.shrui", group="bitwise")
class ShRUIOp(IntegerBinary):
    """lhs shifted right by rhs bits, read unsigned; zeros come in."""

    MEANING: ClassVar = "shri"
    KEYWORDS: ClassVar = UNSIGNED
    SOURCE: ClassVar = "shri unsigned"
    EXAMPLES: ClassVar = examples("%s = arith.shrui %n, %n : i32")
    UNDEFINED: ClassVar = TOO_FAR


@arith_op("math.absi", group="integer")
class AbsIOp(ArithOp):
    """The magnitude of a signed number, to be read unsigned: the smallest number stays."""

    source = operand_def(WORD)
    result = result_def(WORD)
    traits = traits_def(Pure())
    MEANING: ClassVar = "absi"
    SOURCE: ClassVar = "absi"
    RELATIONS: ClassVar = (same_type("source", "result"),)
    SYNTAX: ClassVar = (Operand("source"), PROPERTIES, COLON, TypeOfGroup("result", shared=True))
    INFER: ClassVar = {"source": "result"}
    EXAMPLES: ClassVar = examples("%s = math.absi %k : tile<8xi32>")


@dataclass(frozen=True, slots=True)
class PredicateWord(Directive):
    """The predicate of a comparison, by its name."""

    names: tuple[str, ...]
    known: tuple[str, ...]

    def parse(self, parser: Parser, state: ParseState) -> None:
        start, text = token_start(parser), token_text(parser).strip('"')
        if text not in self.known:
            listed = ", ".join(f"'{name}'" for name in self.known)
            found = f"'{text}'" if text else "the end of the file"
            fail(
                parser, f"expected predicate to be one of: {listed}, got: {found}", code=BAD_KEYWORD
            )
        consume(parser)
        state.properties["predicate"] = IntegerAttr(self.names.index(text), i64)
        state.mark(("attr", "predicate", 0), start, previous_end(parser))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        number = op.properties["predicate"].value.data  # pyright: ignore[reportAttributeAccessIssue]
        printer.print_string(f" {self.names[number]}")

    def grammar(self) -> str:
        return "(" + " | ".join(f"`{name}`" for name in self.known) + ")"


def _truth_of_lhs(state: ParseState) -> Sequence[Attribute]:
    return [truth_like(state.types["lhs"][0])]


class Comparison(ArithOp):
    """Two operands of one type, compared element by element; the result is i1 in their shape.

    ``NAMES`` are the predicates by number, as upstream counts them; ``READINGS`` say what those
    mean that exist here.
    """

    traits = traits_def(Pure())
    NAMES: ClassVar[tuple[str, ...]] = ()
    READINGS: ClassVar[dict[str, dict[str, str]]] = {}
    HIDDEN: ClassVar = frozenset({"predicate"})
    RELATIONS: ClassVar = (same_type("lhs", "rhs"), same_shape("lhs", "result"))
    INFER: ClassVar = {"rhs": "lhs", "result": _truth_of_lhs}

    @classmethod
    def compare(cls, predicate: str, lhs: SSAValue, rhs: SSAValue) -> Self:
        """The comparison by the name of its predicate."""
        return cls.of(lhs, rhs, predicate=IntegerAttr(cls.NAMES.index(predicate), i64))

    @classmethod
    def result_type(cls, operands: Sequence[Attribute]) -> Attribute:
        return truth_like(operands[0])

    @property
    def predicate_name(self) -> str:
        number = self.properties["predicate"].value.data  # pyright: ignore[reportAttributeAccessIssue]
        return self.NAMES[number] if 0 <= number < len(self.NAMES) else str(number)

    def property_keywords(self) -> dict[str, str | bool]:
        return {**self.READINGS[self.predicate_name]}

    def check(self, report: Report) -> None:
        if self.predicate_name not in self.READINGS:
            report.error(
                codes.PREDICATE,
                f"expected predicate to be one of: {', '.join(self.READINGS)}, got: "
                f"{self.predicate_name}",
                attr("predicate"),
            )


_RELATIONS_OF = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less_than",
    "le": "less_than_or_equal",
    "gt": "greater_than",
    "ge": "greater_than_or_equal",
}
_CMPI_NAMES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_CMPI_READINGS = {
    name: {
        "comparison_predicate": _RELATIONS_OF[name[-2:]],
        "signedness": "signed" if name[0] == "s" else "unsigned",
    }
    for name in _CMPI_NAMES
}
_CMPF_NAMES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
_CMPF_READINGS = {
    name: {
        "comparison_predicate": _RELATIONS_OF[name[1:]],
        "comparison_ordering": "ordered" if name[0] == "o" else "unordered",
    }
    for name in _CMPF_NAMES
    if name[1:] in _RELATIONS_OF
}


def _comparison_syntax(names: tuple[str, ...], known: Sequence[str]) -> tuple[Directive, ...]:
    word = PredicateWord(names, tuple(known))
    return (word, COMMA, *PAIR, PROPERTIES, COLON, TypeOfGroup("lhs", shared=True))


@arith_op("arith.cmpi", group="comparison")
class CmpiOp(Comparison):
    """Compares integers: s... read signed, u... unsigned, eq and ne either way."""

    predicate = prop_def(INT64)
    lhs = operand_def(WORD)
    rhs = operand_def(WORD)
    result = result_def(I1)
    MEANING: ClassVar = "cmpi"
    SOURCE: ClassVar = "cmpi"
    NAMES: ClassVar = _CMPI_NAMES
    READINGS: ClassVar = _CMPI_READINGS
    SYNTAX: ClassVar = _comparison_syntax(_CMPI_NAMES, _CMPI_NAMES)
    EXAMPLES: ClassVar = examples(
        "%s = arith.cmpi slt, %k, %k : tile<8xi32>",
        "%s = arith.cmpi ugt, %i, %j : index",
    )


@arith_op("arith.cmpf", group="comparison")
class CmpfOp(Comparison):
    """Compares floats: o... is false where an operand is NaN, u... true. -0 equals +0.

    Of upstream's predicates false, true, ord and uno do not exist.
    """

    predicate = prop_def(INT64)
    lhs = operand_def(FLOAT)
    rhs = operand_def(FLOAT)
    result = result_def(I1)
    MEANING: ClassVar = "cmpf"
    SOURCE: ClassVar = "cmpf"
    NAMES: ClassVar = _CMPF_NAMES
    READINGS: ClassVar = _CMPF_READINGS
    SYNTAX: ClassVar = _comparison_syntax(_CMPF_NAMES, tuple(_CMPF_READINGS))
    EXAMPLES: ClassVar = examples(
        "%s = arith.cmpf olt, %f, %g : tile<8xf32>", "%s = arith.cmpf une, %x, %x : f32"
    )


@dataclass(frozen=True, slots=True)
class SelectTypes(Directive):
    """The type of the values, behind that of a condition that is a tile."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        parse_type_into(parser, state, "result")
        if parser.parse_optional_punctuation(","):
            state.types["condition"] = state.types.pop("result")
            state.parts[("type", "condition", 0)] = state.parts.pop(("type", "result", 0))
            parse_type_into(parser, state, "result")

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        condition, result = op.operands[0].type, op.results[0].type
        if isinstance(condition, T.TileType):
            printer.print_string(f" {format_type(condition)},")
        printer.print_string(f" {format_type(result)}")

    def grammar(self) -> str:
        return "[type(%condition) `,`] type(%result)"


@arith_op("arith.select", group="comparison")
class SelectOp(ArithOp):
    """true_value where the condition holds, else false_value; bits are copied.

    A scalar condition chooses between whole values, of any type.
    """

    condition = operand_def(I1)
    true_value = operand_def(ANY_VALUE)
    false_value = operand_def(ANY_VALUE)
    result = result_def(ANY_VALUE)
    traits = traits_def(Pure())
    MEANING: ClassVar = "select"
    SOURCE: ClassVar = "select"
    ELEMENT_OPERAND: ClassVar = 1
    RELATIONS: ClassVar = (same_type("true_value", "false_value", "result"),)
    SYNTAX: ClassVar = (
        Operand("condition"),
        COMMA,
        Operand("true_value"),
        COMMA,
        Operand("false_value"),
        PROPERTIES,
        COLON,
        SelectTypes(),
    )
    INFER: ClassVar = {
        "true_value": "result",
        "false_value": "result",
        "condition": lambda state: [truth_like(IndexType())],
    }
    EXAMPLES: ClassVar = examples(
        "%s = arith.select %mask, %f, %g : tile<8xi1>, tile<8xf32>",
        "%s = arith.select %c, %f, %g : tile<8xf32>",
        "%s = arith.select %c, %p32, %p32 : !nv_tileaa.ptr<f32, 1>",
    )

    def check(self, report: Report) -> None:
        condition, value = self.condition.type, self.result.type
        if isinstance(condition, T.TileType) and condition.dims != T.dims_of(value):
            report.error(
                codes.CONDITION,
                f"expected the condition to be 'i1' or to have the shape of "
                f"'{format_type(value)}', got '{format_type(condition)}'",
                type_of("condition"),
            )


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


@arith_op("arith.extsi", group="conversion")
class ExtSIOp(Extension):
    """The same number, read signed, in a wider type."""

    KEYWORDS: ClassVar = SIGNED
    SOURCE: ClassVar = "exti signed"
    EXAMPLES: ClassVar = examples("%s = arith.extsi %k : tile<8xi32> to tile<8xi64>")


@arith_op("arith.extui", group="conversion")
class ExtUIOp(Extension):
    """The same number, read unsigned, in a wider type."""

    KEYWORDS: ClassVar = UNSIGNED
    SOURCE: ClassVar = "exti unsigned"
    EXAMPLES: ClassVar = examples("%s = arith.extui %mask : tile<8xi1> to tile<8xi8>")


@arith_op("arith.trunci", group="conversion")
class TruncIOp(Conversion):
    """The low bits of integers.

    Flags promise what the dropped bits are: copies of the new sign bit (nsw), zeros (nuw).
    """

    source = operand_def(INTEGER_OR_I4)
    result = result_def(INTEGER_OR_I4)
    overflow_flags = opt_prop_def(OVERFLOW, prop_name="overflowFlags")
    MEANING: ClassVar = "trunci"
    SOURCE: ClassVar = "trunci"
    SYNTAX: ClassVar = WRAPPING_CONVERSION
    HIDDEN: ClassVar = frozenset({"overflowFlags"})
    EXAMPLES: ClassVar = examples(
        "%s = arith.trunci %m : i64 to i32",
        "%s = arith.trunci %k overflow<nsw> : tile<8xi32> to tile<8xi8>",
    )
    UNDEFINED: ClassVar = ("dropped bits other than the overflow flags promise",)

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


@arith_op("arith.index_cast", group="conversion")
class IndexCastOp(IndexConversion):
    """The same number, read signed; narrower integers keep the low bits."""

    MEANING: ClassVar = "exti"
    KEYWORDS: ClassVar = SIGNED
    SOURCE: ClassVar = "pointer offsets"
    EXAMPLES: ClassVar = examples(
        "%s = arith.index_cast %k : tile<8xi32> to tile<8xindex>",
        "%s = arith.index_cast %i : index to i32",
    )


@arith_op("arith.index_castui", group="conversion")
class IndexCastUIOp(IndexConversion):
    """The same number, read unsigned; narrower integers keep the low bits."""

    MEANING: ClassVar = "exti"
    KEYWORDS: ClassVar = UNSIGNED
    SOURCE: ClassVar = "indices, extents and strides"
    EXAMPLES: ClassVar = examples("%s = arith.index_castui %n : i32 to index")


@arith_op("arith.bitcast", group="conversion")
class BitcastOp(Conversion):
    """The same bits as another type of the same width."""

    source = operand_def(NUMBER)
    result = result_def(NUMBER)
    MEANING: ClassVar = "bitcast"
    SOURCE: ClassVar = "bitcast"
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

    def check(self, report: Report) -> None:
        if numeric_element(self.results[0].type) == "f8E8M0FNU":
            report.error(
                codes.CONVERSION,
                "integers have no conversion to f8E8M0FNU, which holds powers of two only",
                type_of("result"),
            )


@arith_op("arith.sitofp", group="conversion")
class SIToFPOp(FromInteger):
    """Integers, read signed, as floats, rounded once to nearest even.

    8-bit and 4-bit floats saturate.
    """

    KEYWORDS: ClassVar = SIGNED
    SOURCE: ClassVar = "itof signed"
    EXAMPLES: ClassVar = examples("%s = arith.sitofp %k : tile<8xi32> to tile<8xf32>")


@arith_op("arith.uitofp", group="conversion")
class UIToFPOp(FromInteger):
    """Integers, read unsigned, as floats, rounded once to nearest even.

    8-bit and 4-bit floats saturate.
    """

    KEYWORDS: ClassVar = UNSIGNED
    SOURCE: ClassVar = "itof unsigned"
    EXAMPLES: ClassVar = examples("%s = arith.uitofp %n : i32 to f16")


class ToInteger(Conversion):
    """Floats truncated to integers."""

    source = operand_def(ANY_FLOAT)
    result = result_def(INTEGER)
    MEANING: ClassVar = "ftoi"


@arith_op("arith.fptosi", group="conversion")
class FPToSIOp(ToInteger):
    """Floats truncated to signed integers.

    What does not fit becomes the nearest number that does, and NaN becomes 0: upstream leaves both
    undefined.
    """

    KEYWORDS: ClassVar = {**SIGNED, "saturating": True}
    SOURCE: ClassVar = "ftoi signed"
    EXAMPLES: ClassVar = examples("%s = arith.fptosi %f : tile<8xf32> to tile<8xi32>")


@arith_op("arith.fptoui", group="conversion")
class FPToUIOp(ToInteger):
    """Floats truncated to unsigned integers.

    What does not fit becomes the nearest number that does, and NaN becomes 0: upstream leaves both
    undefined.
    """

    KEYWORDS: ClassVar = {**UNSIGNED, "saturating": True}
    SOURCE: ClassVar = "ftoi unsigned"
    EXAMPLES: ClassVar = examples("%s = arith.fptoui %x : f32 to i8")
