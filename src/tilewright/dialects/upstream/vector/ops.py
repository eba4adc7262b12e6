"""``vector.splat``, an older ``broadcast``, and ``vector.shape_cast``."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from xdsl.ir import Attribute
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.dialects.declare import Report, examples, type_of
from tilewright.dialects.narrowing import vector_type
from tilewright.dialects.syntax.engine import ParseState
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base.constraints import ANY_VALUE, VECTOR
from tilewright.dialects.upstream.base.directives import syntax
from tilewright.dialects.upstream.base.operations import UpstreamOp, upstream_op
from tilewright.dialects.upstream.base.shapes import element_of


def _element(state: ParseState) -> list[Attribute]:
    (ty,) = state.types["aggregate"]
    return [element_of(ty)]


@upstream_op("vector", "splat")
class SplatOp(UpstreamOp):
    """A vector whose elements are all ``input``; ``vector.broadcast`` says the same."""

    input = operand_def(ANY_VALUE)
    aggregate = result_def(VECTOR)

    traits = traits_def(Pure())
    INFER: ClassVar = {"input": _element}
    SYNTAX: ClassVar = syntax("$input attr-dict : type($aggregate)")
    EXAMPLES: ClassVar = examples(
        """
        %x = arith.constant 1.0 : f32
        %all = vector.splat %x : vector<2x2xf32>
        """
    )

    def check(self, report: Report) -> None:
        ty = vector_type(self.aggregate)
        if ty.element_type != self.input.type:
            report.error(
                codes.ELEMENT_TYPE,
                f"expected elements of '{format_type(self.input.type)}', got '{format_type(ty)}'",
                type_of("aggregate"),
            )


@upstream_op("vector", "shape_cast")
class ShapeCastOp(UpstreamOp):
    """The elements of a vector in another shape, in the same order."""

    source = operand_def(VECTOR)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    SYNTAX: ClassVar = syntax("$source attr-dict : type($source) to type($result)")
    EXAMPLES: ClassVar = examples("%flat = vector.shape_cast %a : vector<4x2xf16> to vector<8xf16>")

    def check(self, report: Report) -> None:
        source, result = vector_type(self.source), vector_type(self.result)
        kinds = [(prod(ty.get_shape()), ty.element_type) for ty in (source, result)]
        if kinds[0] != kinds[1]:
            report.error(
                codes.FRAGMENT,
                f"expected as many elements of the same type as in '{format_type(source)}', got "
                f"'{format_type(result)}'",
                type_of("result"),
            )
