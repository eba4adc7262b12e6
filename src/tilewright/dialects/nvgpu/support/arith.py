"""The ``arith`` dialect around ``nvgpu``: xDSL's, with ``arith.index_castui``."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import IndexType, IntegerType, VectorType
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.dialects.declare import Report, examples, type_of
from tilewright.dialects.nvgpu import codes
from tilewright.dialects.nvgpu.constraints import Kind
from tilewright.dialects.nvgpu.signature import ATTRIBUTES
from tilewright.dialects.nvgpu.support import arith_floats, arith_vectors
from tilewright.dialects.nvgpu.support.base import SupportOp, support_op
from tilewright.dialects.nvgpu.type_syntax import format_type
from tilewright.dialects.syntax.directives import COLON, Keyword, Operand, TypeOf


def _element(ty: Attribute) -> Attribute:
    return ty.element_type if isinstance(ty, VectorType) else ty


_WHOLE = Kind(
    "an index or integer, or a vector of such",
    Attribute,
    lambda ty: isinstance(_element(ty), IndexType | IntegerType),
)


@support_op("arith", "index_castui")
class IndexCastUIOp(SupportOp):
    """An index as an integer or the reverse; what is too narrow is filled with zeros."""

    input = operand_def(_WHOLE)
    result = result_def(_WHOLE)

    traits = traits_def(Pure())
    SYNTAX: ClassVar = (
        Operand("input"),
        ATTRIBUTES,
        COLON,
        TypeOf("input"),
        Keyword("to"),
        TypeOf("result"),
    )
    EXAMPLES: ClassVar = examples("%wide = arith.index_castui %i : index to i64")

    def check(self, report: Report) -> None:
        source, result = self.input.type, self.result.type
        shapes = [ty.get_shape() if isinstance(ty, VectorType) else None for ty in (source, result)]
        casts = isinstance(_element(source), IndexType) != isinstance(_element(result), IndexType)
        if shapes[0] != shapes[1] or not casts:
            report.error(
                codes.ELEMENT_TYPE,
                f"expected a cast between index and an integer, got '{format_type(source)}' to "
                f"'{format_type(result)}'",
                type_of("result"),
            )


@cache
def load() -> Dialect:
    """xDSL's operations, ours in place of those that take no vectors, and the unsigned cast."""
    ours = [*arith_vectors.OPERATIONS, *arith_floats.OPERATIONS, IndexCastUIOp]
    names = {op.name for op in ours}
    theirs = [op for op in Arith.operations if op.name not in names]
    return Dialect("arith", [*theirs, *ours], list(Arith.attributes))
