"""Comparisons, and the selection between values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.dialects.arith import codes
from tilewright.dialects.arith.base import (
    WORD,
    ArithOp,
    arith_op,
    i1_like,
    syntax,
)
from tilewright.dialects.declare import (
    Report,
    attr,
    examples,
    same_shape,
    same_type,
    type_of,
)
from tilewright.dialects.facts import Pointing
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.constraints import ANY_VALUE, FLOAT, I1, INT64
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.dialects.syntax.engine import Directive, ParseState
from tilewright.dialects.upstream.arith.syntax import (
    FLOAT_PREDICATES,
    INTEGER_PREDICATES,
    Predicate,
    SelectTypes,
    predicate_name,
)

GROUP = "comparison"


def _truth_of_lhs(state: ParseState) -> Sequence[Attribute]:
    return [i1_like(state.types["lhs"][0])]


class Comparison(ArithOp):
    """Two operands of one type, compared element by element; the result is i1 in their shape.

    ``NAMES`` are the predicates by number, as upstream counts them; ``READINGS`` say what those
    mean that exist here.
    """

    traits = traits_def(Pure())
    NAMES: ClassVar[tuple[str, ...]] = ()
    READINGS: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    HIDDEN: ClassVar = frozenset({"predicate"})
    RELATIONS: ClassVar = (same_type("lhs", "rhs"), same_shape("lhs", "result"))
    INFER: ClassVar = {"rhs": "lhs", "result": _truth_of_lhs}

    @classmethod
    def compare(cls, predicate: str, lhs: SSAValue, rhs: SSAValue) -> Self:
        """The comparison by the name of its predicate."""
        return cls.of(lhs, rhs, predicate=IntegerAttr(cls.NAMES.index(predicate), i64))

    @classmethod
    def result_type(cls, operands: Sequence[Attribute]) -> Attribute:
        return i1_like(operands[0])

    @property
    def predicate_name(self) -> str:
        """The predicate as its text spells it, such as ``slt`` or ``oeq``."""
        return predicate_name(self, self.NAMES)

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
_CMPI_READINGS = {
    name: {
        "comparison_predicate": _RELATIONS_OF[name[-2:]],
        "signedness": "signed" if name[0] == "s" else "unsigned",
    }
    for name in INTEGER_PREDICATES
}
_CMPF_READINGS = {
    name: {
        "comparison_predicate": _RELATIONS_OF[name[1:]],
        "comparison_ordering": "ordered" if name[0] == "o" else "unordered",
    }
    for name in FLOAT_PREDICATES
    if name[1:] in _RELATIONS_OF
}


def _comparison_syntax(names: tuple[str, ...], known: Sequence[str]) -> tuple[Directive, ...]:
    word = Predicate(names, tuple(known))
    return syntax(word, ", $lhs, $rhs attr-dict : type($lhs)")


@arith_op("arith.cmpi", group=GROUP)
class CmpiOp(Comparison):
    """Compares integers: s... read signed, u... unsigned, eq and ne either way."""

    predicate = prop_def(INT64)
    lhs = operand_def(WORD)
    rhs = operand_def(WORD)
    result = result_def(I1)
    NAMES: ClassVar = INTEGER_PREDICATES
    READINGS: ClassVar = _CMPI_READINGS
    SYNTAX: ClassVar = _comparison_syntax(INTEGER_PREDICATES, INTEGER_PREDICATES)
    EXAMPLES: ClassVar = examples(
        "%s = arith.cmpi slt, %k, %k : tile<8xi32>",
        "%s = arith.cmpi ugt, %i, %j : index",
    )


@arith_op("arith.cmpf", group=GROUP)
class CmpfOp(Comparison):
    """Compares floats: o... is false where an operand is NaN, u... true. -0 equals +0.

    Of upstream's predicates false, true, ord and uno do not exist.
    """

    predicate = prop_def(INT64)
    lhs = operand_def(FLOAT)
    rhs = operand_def(FLOAT)
    result = result_def(I1)
    NAMES: ClassVar = FLOAT_PREDICATES
    READINGS: ClassVar = _CMPF_READINGS
    SYNTAX: ClassVar = _comparison_syntax(FLOAT_PREDICATES, tuple(_CMPF_READINGS))
    EXAMPLES: ClassVar = examples(
        "%s = arith.cmpf olt, %f, %g : tile<8xf32>", "%s = arith.cmpf une, %x, %x : f32"
    )


@arith_op("arith.select", group=GROUP)
class SelectOp(ArithOp):
    """true_value where the condition holds, else false_value; bits are copied.

    A scalar condition chooses between whole values, of any type.
    """

    condition = operand_def(I1)
    true_value = operand_def(ANY_VALUE)
    false_value = operand_def(ANY_VALUE)
    result = result_def(ANY_VALUE)
    traits = traits_def(Pure())
    POINTS: ClassVar = Pointing.OPERANDS
    ELEMENT_OPERAND: ClassVar = 1
    RELATIONS: ClassVar = (same_type("true_value", "false_value", "result"),)
    SYNTAX: ClassVar = syntax("$condition, $true_value, $false_value attr-dict :", SelectTypes())
    INFER: ClassVar = {"true_value": "result", "false_value": "result"}
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
