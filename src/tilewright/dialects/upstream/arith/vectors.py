"""Comparisons, choices and conversions of ``arith`` on vectors, which xDSL's take of numbers only."""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.dialects.arith import FastMathFlagsAttr, IntegerOverflowAttr
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatTF32Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.dialects.declare import Report, examples, same_type, type_of
from tilewright.dialects.narrowing import is_vector
from tilewright.dialects.syntax.engine import ParseState, values_of
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.arith.syntax import (
    FLOAT_PREDICATES,
    INTEGER_PREDICATES,
    FastMath,
    OverflowFlags,
    Predicate,
    SelectTypes,
)
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base.constraints import ANY_VALUE, Kind
from tilewright.dialects.upstream.base.directives import syntax
from tilewright.dialects.upstream.base.operations import UpstreamOp, upstream_op
from tilewright.dialects.upstream.base.shapes import bit_width, element_of


def _of(description: str, *classes: Any) -> Kind:
    return Kind(
        f"{description}, or a vector of such",
        Attribute,
        lambda ty: isinstance(element_of(ty), classes),
    )


INTEGER = _of("an integer", IntegerType)
WHOLE = _of("an index or integer", IndexType, IntegerType)
FLOAT = _of("a float", AnyFloat)
NUMBER = _of("a number", IntegerType, AnyFloat)
BIT = Kind("an i1, or a vector of such", Attribute, lambda ty: element_of(ty) == i1)
_PREDICATE = Kind("an integer", IntegerAttr)
FAST_MATH = Kind("flags for floats", FastMathFlagsAttr)
_OVERFLOW = Kind("overflow flags", IntegerOverflowAttr)


def i1_like(ty: Attribute) -> Attribute:
    """i1 in the shape of a type."""
    return VectorType(i1, ty.get_shape()) if isinstance(ty, VectorType) else i1


def _like_lhs(state: ParseState) -> list[Attribute]:
    return [i1_like(ty) for ty in state.types["lhs"]]


class Comparison(UpstreamOp):
    """What comparisons share."""

    predicate = prop_def(_PREDICATE)
    result = result_def(BIT)
    traits = traits_def(Pure())
    PREDICATES: ClassVar[tuple[str, ...]] = ()
    INFER: ClassVar = {"rhs": "lhs", "result": _like_lhs}

    def check(self, report: Report) -> None:
        lhs, rhs, result = (values_of(self, name)[0].type for name in ("lhs", "rhs", "result"))
        if lhs != rhs or result != i1_like(lhs):
            report.error(
                codes.ELEMENT_TYPE,
                f"expected two values of one type and '{format_type(i1_like(lhs))}', got "
                f"'{format_type(lhs)}', '{format_type(rhs)}' and '{format_type(result)}'",
                type_of("lhs"),
            )
        number = self.properties["predicate"]
        assert isinstance(number, IntegerAttr)
        if not 0 <= number.value.data < len(self.PREDICATES):
            report.error(codes.ELEMENT_TYPE, f"there is no comparison {number.value.data}")


@upstream_op("arith", "cmpi")
class CmpiOp(Comparison):
    """Compares integers: s... read signed, u... unsigned, eq and ne either way."""

    lhs = operand_def(WHOLE)
    rhs = operand_def(WHOLE)

    PREDICATES: ClassVar = INTEGER_PREDICATES
    HIDDEN: ClassVar = frozenset({"predicate"})
    SYNTAX: ClassVar = syntax(
        Predicate(INTEGER_PREDICATES, INTEGER_PREDICATES), ", $lhs, $rhs attr-dict : type($lhs)"
    )
    EXAMPLES: ClassVar = examples("%less = arith.cmpi slt, %i, %i : index")


@upstream_op("arith", "cmpf")
class CmpfOp(Comparison):
    """Compares floats: o... is false where an operand is NaN, u... true."""

    lhs = operand_def(FLOAT)
    rhs = operand_def(FLOAT)
    fastmath = opt_prop_def(FAST_MATH)

    PREDICATES: ClassVar = FLOAT_PREDICATES
    HIDDEN: ClassVar = frozenset({"predicate", "fastmath"})
    SYNTAX: ClassVar = syntax(
        Predicate(FLOAT_PREDICATES, FLOAT_PREDICATES),
        ", $lhs, $rhs",
        FastMath(),
        "attr-dict : type($lhs)",
    )
    EXAMPLES: ClassVar = examples(
        """
        %x = arith.constant dense<1.0> : vector<2xf32>
        %less = arith.cmpf olt, %x, %x : vector<2xf32>
        """
    )


@upstream_op("arith", "select")
class SelectOp(UpstreamOp):
    """The first value where the condition holds, else the second; by element for a vector of i1."""

    condition = operand_def(BIT)
    true_value = operand_def(ANY_VALUE)
    false_value = operand_def(ANY_VALUE)
    result = result_def(ANY_VALUE)

    traits = traits_def(Pure())
    INFER: ClassVar = {"true_value": "result", "false_value": "result"}
    SYNTAX: ClassVar = syntax("$condition, $true_value, $false_value attr-dict :", SelectTypes())
    EXAMPLES: ClassVar = examples(
        """
        %t = arith.constant dense<true> : vector<2xi1>
        %x = arith.constant dense<1.0> : vector<2xf32>
        %y = arith.select %t, %x, %x : vector<2xi1>, vector<2xf32>
        """
    )

    def check(self, report: Report) -> None:
        condition, result = self.condition.type, self.result.type
        given = (self.true_value.type, self.false_value.type)
        if given != (result, result):
            report.error(
                codes.ELEMENT_TYPE,
                f"expected two values of '{format_type(result)}', got '{format_type(given[0])}' and "
                f"'{format_type(given[1])}'",
                type_of("result"),
            )
        elif is_vector(condition) and condition != i1_like(result):
            report.error(
                codes.FRAGMENT,
                f"expected a condition like '{format_type(result)}', got "
                f"'{format_type(condition)}'",
                type_of("condition"),
            )


class Conversion(UpstreamOp):
    """A conversion element by element; ``WIDENS`` says how widths must differ: 1 if the result is
    wider, -1 if it is narrower, 0 if nothing is asked."""

    WIDENS: ClassVar[int] = 0

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
        if not self.WIDENS:
            return
        widths = [significant_width(ty) for ty in (source, result)]
        if (widths[1] - widths[0]) * self.WIDENS <= 0:
            than = "wider" if self.WIDENS > 0 else "narrower"
            report.error(
                codes.ELEMENT_TYPE,
                f"expected a {than} type than '{format_type(source)}', got '{format_type(result)}'",
                type_of("result"),
            )


def significant_width(ty: Attribute) -> int:
    """The bits that an element has: 19 of tf32, whatever it takes in memory."""
    element = element_of(ty)
    return 19 if isinstance(element, FloatTF32Type) else bit_width(element)


_CONVERSION = syntax("$input attr-dict : type($input) to type($result)")


class Extension(Conversion):
    """The same number in a wider type."""

    input = operand_def(INTEGER)
    result = result_def(INTEGER)
    traits = traits_def(Pure())
    WIDENS: ClassVar = 1
    SYNTAX: ClassVar = _CONVERSION


class FromInteger(Conversion):
    """Integers as floats, rounded."""

    input = operand_def(INTEGER)
    result = result_def(FLOAT)
    traits = traits_def(Pure())
    SYNTAX: ClassVar = _CONVERSION


class ToInteger(Conversion):
    """Floats as integers, truncated."""

    input = operand_def(FLOAT)
    result = result_def(INTEGER)
    traits = traits_def(Pure())
    SYNTAX: ClassVar = _CONVERSION


def _example(name: str, source: str, result: str) -> tuple[str, ...]:
    one = "1.0" if source[0] == "f" else "1"
    return examples(
        f"%one = arith.constant dense<{one}> : vector<2x{source}>\n"
        f"%made = {name} %one : vector<2x{source}> to vector<2x{result}>"
    )


@upstream_op("arith", "extsi")
class ExtSIOp(Extension):
    """The same number, read signed, in a wider type."""

    EXAMPLES: ClassVar = _example("arith.extsi", "i8", "i32")


@upstream_op("arith", "extui")
class ExtUIOp(Extension):
    """The same number, read unsigned, in a wider type."""

    EXAMPLES: ClassVar = _example("arith.extui", "i8", "i32")


@upstream_op("arith", "trunci")
class TruncIOp(Conversion):
    """The low bits of integers."""

    input = operand_def(INTEGER)
    overflowFlags = opt_prop_def(_OVERFLOW)
    result = result_def(INTEGER)
    traits = traits_def(Pure())
    WIDENS: ClassVar = -1
    HIDDEN: ClassVar = frozenset({"overflowFlags"})
    SYNTAX: ClassVar = syntax(
        "$input", OverflowFlags(), "attr-dict : type($input) to type($result)"
    )
    EXAMPLES: ClassVar = _example("arith.trunci", "i32", "i8")


class IndexCast(Conversion):
    """Casts between index and an integer."""

    input = operand_def(WHOLE)
    result = result_def(WHOLE)
    traits = traits_def(Pure())
    SYNTAX: ClassVar = _CONVERSION

    def check(self, report: Report) -> None:
        super().check(report)
        kinds = [isinstance(element_of(v.type), IndexType) for v in (self.input, self.result)]
        if kinds[0] == kinds[1]:
            report.error(
                codes.ELEMENT_TYPE,
                f"expected a cast between index and an integer, got "
                f"'{format_type(self.input.type)}' to '{format_type(self.result.type)}'",
                type_of("result"),
            )


@upstream_op("arith", "index_cast")
class IndexCastOp(IndexCast):
    """An index as an integer or the reverse, read signed."""

    EXAMPLES: ClassVar = examples("%wide = arith.index_cast %i : index to i64")


@upstream_op("arith", "index_castui")
class IndexCastUIOp(IndexCast):
    """An index as an integer or the reverse; what is too narrow is filled with zeros."""

    EXAMPLES: ClassVar = examples("%wide = arith.index_castui %i : index to i64")


@upstream_op("arith", "sitofp")
class SIToFPOp(FromInteger):
    """Integers, read signed, as floats."""

    EXAMPLES: ClassVar = _example("arith.sitofp", "i32", "f32")


@upstream_op("arith", "uitofp")
class UIToFPOp(FromInteger):
    """Integers, read unsigned, as floats."""

    EXAMPLES: ClassVar = _example("arith.uitofp", "i32", "f32")


@upstream_op("arith", "fptosi")
class FPToSIOp(ToInteger):
    """Floats as signed integers, truncated."""

    EXAMPLES: ClassVar = _example("arith.fptosi", "f32", "i32")


@upstream_op("arith", "fptoui")
class FPToUIOp(ToInteger):
    """Floats as unsigned integers, truncated."""

    EXAMPLES: ClassVar = _example("arith.fptoui", "f32", "i32")


@upstream_op("arith", "remf")
class RemFOp(UpstreamOp):
    """lhs - trunc(lhs / rhs) * rhs, exact; the sign follows lhs."""

    lhs = operand_def(FLOAT)
    rhs = operand_def(FLOAT)
    fastmath = opt_prop_def(FAST_MATH)
    result = result_def(FLOAT)

    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("lhs", "rhs", "result"),)
    INFER: ClassVar = {"lhs": "result", "rhs": "result"}
    HIDDEN: ClassVar = frozenset({"fastmath"})
    SYNTAX: ClassVar = syntax("$lhs, $rhs", FastMath(), "attr-dict : type($result)")
    EXAMPLES: ClassVar = examples(
        """
        %seven = arith.constant 7.0 : f32
        %rest = arith.remf %seven, %seven : f32
        """
    )
