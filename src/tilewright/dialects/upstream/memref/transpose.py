"""``memref.transpose``: a view of memory with its dimensions in another order."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
)
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr
from xdsl.irdl import operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.dialects.declare import Report, attr, examples, type_of
from tilewright.dialects.narrowing import memref_type
from tilewright.dialects.syntax.directives import Property
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base.constraints import MEMREF, Kind
from tilewright.dialects.upstream.base.directives import syntax
from tilewright.dialects.upstream.base.operations import UpstreamOp, upstream_op

PERMUTATION = Property(
    "permutation",
    lambda parser: AffineMapAttr(parser.parse_affine_map()),
    lambda permutation: str(permutation.data),
    "`(` d0 `,` ... `)` `->` `(` d1 `,` ... `)`",
)


def _order(permutation: Attribute, rank: int) -> list[int] | None:
    """The source's number of each dimension of the result; None for maps that are no permutation."""
    assert isinstance(permutation, AffineMapAttr)
    found = [e.position for e in permutation.data.results if isinstance(e, AffineDimExpr)]
    is_whole = len(found) == len(permutation.data.results) and permutation.data.num_dims == rank
    return found if is_whole and sorted(found) == list(range(rank)) else None


def _strides(ty: MemRefType) -> tuple[list[int], int] | None:
    """Strides and offset as a strided layout has them; None for other layouts."""
    if isinstance(ty.layout, NoneAttr):
        strides = [1] * ty.get_num_dims()
        for axis in range(ty.get_num_dims() - 2, -1, -1):
            step, extent = strides[axis + 1], ty.get_shape()[axis + 1]
            is_open = DYNAMIC_INDEX in (step, extent)
            strides[axis] = DYNAMIC_INDEX if is_open else step * extent
        return strides, 0
    if not isinstance(ty.layout, StridedLayoutAttr):
        return None
    offset = ty.layout.get_offset()
    return (
        list(map(_open, ty.layout.get_strides())),
        _open(offset),
    )


def _open(number: int | None) -> int:
    return DYNAMIC_INDEX if number is None else number


@upstream_op("memref", "transpose")
class TransposeOp(UpstreamOp):
    """The same memory with its dimensions in another order; nothing moves."""

    source = operand_def(MEMREF)
    permutation = prop_def(Kind("an affine map", AffineMapAttr))
    result = result_def(MEMREF)

    traits = traits_def(Pure())
    HIDDEN: ClassVar = frozenset({"permutation"})
    SYNTAX: ClassVar = syntax("$source", PERMUTATION, "attr-dict : type($source) to type($result)")
    EXAMPLES: ClassVar = examples(
        "%t = memref.transpose %big (d0, d1) -> (d1, d0) : memref<128x128xf32, 3> to "
        "memref<128x128xf32, strided<[1, 128]>, 3>"
    )

    @property
    def order(self) -> list[int]:
        """The source's number of each dimension of the result."""
        found = _order(self.properties["permutation"], memref_type(self.source).get_num_dims())
        assert found is not None, "the verifier has seen the map"
        return found

    def check(self, report: Report) -> None:
        source, result = memref_type(self.source), memref_type(self.result)
        order = _order(self.properties["permutation"], source.get_num_dims())
        if order is None:
            report.error(
                codes.TRANSPOSE,
                f"expected each of {source.get_num_dims()} dimensions once",
                attr("permutation"),
            )
            return
        found = _strides(source)
        if found is None:
            report.error(
                codes.TRANSPOSE,
                f"expected a memref with a strided layout, got '{format_type(source)}'",
                type_of("source"),
            )
            return
        strides, offset = found
        wanted = MemRefType(
            source.element_type,
            [source.get_shape()[axis] for axis in order],
            _layout([strides[axis] for axis in order], offset),
            source.memory_space,
        )
        if _strides(result) != _strides(wanted) or _rest(result) != _rest(wanted):
            report.error(
                codes.TRANSPOSE,
                f"expected the result to be '{format_type(wanted)}', got '{format_type(result)}'",
                type_of("result"),
            )


def _layout(strides: list[int], offset: int) -> StridedLayoutAttr:
    """A strided layout, with what is open left open."""
    return StridedLayoutAttr(
        [None if s == DYNAMIC_INDEX else s for s in strides],
        None if offset == DYNAMIC_INDEX else offset,
    )


def _rest(ty: MemRefType) -> tuple[object, ...]:
    return ty.element_type, tuple(ty.get_shape()), ty.memory_space
