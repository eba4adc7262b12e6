"""Folds of operations that move elements: splats, views, permutations, slices, pointers."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from tilewright.analysis.tileaa.geometry import memref_axes, view_axes
from tilewright.analysis.tileaa.integers import width_of
from tilewright.dialects import arith
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.arithmetic import FAST, ElementWise, Exp2Op, RsqrtOp
from tilewright.dialects.nv_tileaa.ops.pointers import (
    AddPtrOp,
    BitcastOp,
    FpToFpOp,
    IntToPtrOp,
    PtrToIntOp,
)
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BroadcastOp,
    CatOp,
    ExpandDimsOp,
    ExtractOp,
    ExtractSliceOp,
    GetDimSizeOp,
    MakeRangeOp,
    PermuteOp,
    SplatOp,
    ViewOp,
)
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import is_nan
from tilewright.passes.base import insert_before, replace_op, replace_value
from tilewright.passes.canonicalize import Rule
from tilewright.passes.tileaa.matching import (
    integer_of,
    ints,
    make_integer,
    make_splat,
    splat_source,
)


def moves_nothing(op: Any, rewriter: PatternRewriter) -> None:
    """A view, expansion or broadcast to the type of its source is its source."""
    if op.source.type == op.result.type:
        replace_value(rewriter, op, op.source)


def of_a_splat(op: Any, rewriter: PatternRewriter) -> None:
    """However equal elements are arranged, the result is a splat, or a constant."""
    maker, scalar = op.source.owner, splat_source(op.source)
    if isinstance(maker, arith.ConstantOp) and len(bits := maker.bits()) == 1:
        replace_op(rewriter, op, arith.ConstantOp.from_bits(op.result.type, bits))
    elif scalar is not None:
        replace_value(rewriter, op, make_splat(rewriter, op, scalar, op.result.type))


def expand_a_scalar(op: ExpandDimsOp, rewriter: PatternRewriter) -> None:
    """A scalar with axes of extent 1 is a splat."""
    if not T.dims_of(op.source.type):
        replace_value(rewriter, op, make_splat(rewriter, op, op.source, op.result.type))


def view_of_view(op: ViewOp, rewriter: PatternRewriter) -> None:
    """``view(view(x)) = view(x)``; axes of extent 1 that were added before do not matter."""
    inner = op.source.owner
    if isinstance(inner, ViewOp) or (
        isinstance(inner, ExpandDimsOp) and T.dims_of(inner.source.type)
    ):
        replace_op(
            rewriter, op, ViewOp.create(operands=[inner.source], result_types=[op.result.type])
        )


def permutation(op: PermuteOp, rewriter: PatternRewriter) -> None:
    """A permutation that keeps all axes is its source; two in a row are one."""
    order = ints(op.permutation)
    if order == tuple(range(len(order))):
        replace_value(rewriter, op, op.source)
        return
    inner = op.source.owner
    if isinstance(inner, PermuteOp):
        first = ints(inner.permutation)
        both = DenseArrayBase.from_list(i64, [first[axis] for axis in order])
        made = PermuteOp.create(
            operands=[inner.source],
            result_types=[op.result.type],
            properties={"permutation": both},
        )
        replace_op(rewriter, op, made)


def extract_element(op: ExtractOp, rewriter: PatternRewriter) -> None:
    """An element of a range from a known start is start plus index."""
    inner = op.source.owner
    if not isinstance(inner, MakeRangeOp) or inner.start is None or len(op.indices) != 1:
        return
    index = integer_of(op.indices[0])
    first = inner.start.value.data  # pyright: ignore[reportAttributeAccessIssue]
    if index is not None and 0 <= index < T.dims_of(inner.result.type)[0]:
        replace_value(rewriter, op, make_integer(rewriter, op, first + index, op.result.type))


#: Operations of which each element depends on nothing but the operands' elements at its place.
_PER_ELEMENT = (
    *(op for op in arith.OPERATIONS.values() if op is not arith.ConstantOp),
    *ElementWise.__subclasses__(),
    AddPtrOp,
    BitcastOp,
    FpToFpOp,
    IntToPtrOp,
    PtrToIntOp,
)
#: Those of ``math`` that have one right answer.
_EXACT_MATH = (arith.AbsIOp, arith.AbsFOp, arith.CeilOp, arith.FloorOp)


def slice_of_elements(op: ExtractOp | ExtractSliceOp, rewriter: PatternRewriter) -> None:
    """Part of an element-wise result is the result for these parts of the operands.

    Only where nothing else uses the whole, in the same block, so that nothing is computed twice.
    Not of approximations, which a machine may compute differently for tiles of another shape.
    """
    inner = op.source.owner
    if not isinstance(inner, _PER_ELEMENT) or inner.parent is not op.parent:
        return
    dims, wanted = T.dims_of(op.source.type), T.dims_of(op.result.type)
    same_shape = all(T.dims_of(value.type) in ((), dims) for value in inner.operands)
    if len(list(op.source.uses)) != 1 or not same_shape or _is_approximate(inner):
        return
    parts: dict[SSAValue, SSAValue] = {}
    for value in inner.operands:
        if T.dims_of(value.type) and value not in parts:
            ty = T.tile_or_scalar(wanted, T.element_of(value.type))
            part = type(op).create(
                operands=[value, *op.indices], result_types=[ty], properties=dict(op.properties)
            )
            insert_before(rewriter, op, part)
            parts[value] = part.results[0]
    made = type(inner).create(
        operands=[parts.get(value, value) for value in inner.operands],
        result_types=[op.result.type],
        properties=dict(inner.properties),
        attributes=dict(inner.attributes),
    )
    replace_op(rewriter, op, made)


def _is_approximate(op: Operation) -> bool:
    if op.name.startswith("math."):
        return not isinstance(op, _EXACT_MATH)
    return isinstance(op, RsqrtOp | Exp2Op) or (
        isinstance(op, ElementWise) and enum_property(op, "rounding_mode") in FAST
    )


def slice_of_cat(op: ExtractSliceOp, rewriter: PatternRewriter) -> None:
    """A slice that lies in one half of a ``cat`` is a slice of that half."""
    inner = op.source.owner
    offsets = ints(op.offsets)
    if not isinstance(inner, CatOp) or not offsets:
        return
    axis = inner.axis.value.data  # pyright: ignore[reportAttributeAccessIssue]
    middle = T.dims_of(inner.lhs.type)[axis]
    extent = T.dims_of(op.result.type)[axis]
    if offsets[axis] + extent <= middle:
        half, start = inner.lhs, offsets[axis]
    elif offsets[axis] >= middle:
        half, start = inner.rhs, offsets[axis] - middle
    else:
        return
    moved = [start if a == axis else offset for a, offset in enumerate(offsets)]
    made = ExtractSliceOp.create(
        operands=[half],
        result_types=[op.result.type],
        properties={**op.properties, "offsets": DenseArrayBase.from_list(i64, moved)},
    )
    replace_op(rewriter, op, made)


def whole_slice(op: ExtractSliceOp, rewriter: PatternRewriter) -> None:
    """A slice of the extents of its source is the source."""
    if op.source.type == op.result.type:
        replace_value(rewriter, op, op.source)


def cat_of_slices(op: CatOp, rewriter: PatternRewriter) -> None:
    """The two halves of a tile put together again are the tile."""
    lhs, rhs = op.lhs.owner, op.rhs.owner
    if not isinstance(lhs, ExtractSliceOp) or not isinstance(rhs, ExtractSliceOp):
        return
    if lhs.source is not rhs.source or lhs.source.type != op.result.type:
        return
    axis = op.axis.value.data  # pyright: ignore[reportAttributeAccessIssue]
    first, second = ints(lhs.offsets), ints(rhs.offsets)
    middle = T.dims_of(op.lhs.type)[axis]
    wanted = tuple(middle if a == axis else 0 for a in range(len(first)))
    if first and not any(first) and second == wanted:
        replace_value(rewriter, op, lhs.source)


def no_offset(op: AddPtrOp, rewriter: PatternRewriter) -> None:
    """A pointer moved by nothing is the pointer, repeated where the offset is a tile."""
    if integer_of(op.offset) != 0:
        return
    if op.base.type == op.result.type:
        replace_value(rewriter, op, op.base)
    else:
        replace_value(rewriter, op, make_splat(rewriter, op, op.base, op.result.type))


def offsets_in_a_row(op: AddPtrOp, rewriter: PatternRewriter) -> None:
    """``addptr(addptr(b, x), y) = addptr(b, x + y)`` in 64 bits, where sums wrap as addresses do.

    Only where nothing else uses the pointer in the middle.
    """
    inner = op.base.owner
    if not isinstance(inner, AddPtrOp) or len(list(op.base.uses)) != 1:
        return
    dims = T.dims_of(op.result.type)
    offsets = [inner.offset, op.offset]
    if len({T.dims_of(value.type) for value in offsets} | {dims}) > 1 and T.dims_of(
        inner.base.type
    ):
        return
    widened = []
    for value in offsets:
        if width_of(value.type) != 64:
            wide = T.tile_or_scalar(T.dims_of(value.type), i64)
            cast = arith.ExtSIOp.of(value, result=wide)
            insert_before(rewriter, op, cast)
            value = cast.results[0]
        if T.element_of(value.type) != i64:
            cast = arith.IndexCastOp.of(value, result=T.tile_or_scalar(T.dims_of(value.type), i64))
            insert_before(rewriter, op, cast)
            value = cast.results[0]
        if dims and not T.dims_of(value.type):
            value = make_splat(rewriter, op, value, T.tile_or_scalar(dims, i64))
        widened.append(value)
    total = arith.AddiOp.of(*widened)
    insert_before(rewriter, op, total)
    made = AddPtrOp.create(operands=[inner.base, total.results[0]], result_types=[op.result.type])
    replace_op(rewriter, op, made)


def cast_in_a_row(op: BitcastOp, rewriter: PatternRewriter) -> None:
    """Bits read as one type and then as another are read as the other; back is nothing."""
    if op.source.type == op.result.type:
        replace_value(rewriter, op, op.source)
        return
    inner = op.source.owner
    same_shape = T.dims_of(op.source.type) == T.dims_of(op.result.type)
    if (
        isinstance(inner, BitcastOp)
        and same_shape
        and T.dims_of(inner.source.type) == T.dims_of(inner.result.type)
    ):
        made = BitcastOp.create(operands=[inner.source], result_types=[op.result.type])
        replace_op(rewriter, op, made)


def pointer_and_back(op: IntToPtrOp, rewriter: PatternRewriter) -> None:
    """The pointer to the address of a pointer of the same type is that pointer."""
    inner = op.source.owner
    if isinstance(inner, PtrToIntOp) and inner.source.type == op.result.type:
        replace_value(rewriter, op, inner.source)


def widened_and_back(op: FpToFpOp, rewriter: PatternRewriter) -> None:
    """A float converted to a type that holds all its values, and back, is itself.

    Not where it could be NaN: of that the conversions need not keep the payload.
    """
    inner = op.source.owner
    if not isinstance(inner, FpToFpOp) or inner.source.type != op.result.type:
        return
    narrow = FORMATS[T.element_name(T.element_of(op.result.type))]
    wide = FORMATS[T.element_name(T.element_of(op.source.type))]
    holds = (
        wide.precision >= narrow.precision
        and wide.min_exponent - wide.mantissa_bits <= narrow.min_exponent - narrow.mantissa_bits
        and wide.max_exponent >= narrow.max_exponent
        and wide.has_inf
        and wide.signed
    )
    if holds and never_nan(inner.source):
        replace_value(rewriter, op, inner.source)


def never_nan(value: SSAValue) -> bool:
    """Whether a float is surely a number, as far as the operation that makes it tells."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp):
        fmt = FORMATS[T.element_name(T.element_of(value.type))]
        return not any(is_nan(bits, fmt) for bits in owner.bits())
    if isinstance(owner, SplatOp | BroadcastOp | ExpandDimsOp | ViewOp | PermuteOp):
        return never_nan(owner.source)
    return isinstance(owner, arith.SIToFPOp | arith.UIToFPOp)


def known_extent(op: GetDimSizeOp, rewriter: PatternRewriter) -> None:
    """An extent that the type states is a constant; one given to ``make_memref`` is that value."""
    axis = op.axis.value.data  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(op.source.type, T.MemrefType):
        extent, step = memref_axes(op.source)[axis][0], 1
    else:
        axes = view_axes(op.source, ())
        if axes is None:
            return
        extent, step = axes[axis].extent, axes[axis].step
    if isinstance(extent, int):
        count = make_integer(rewriter, op, -(-extent // step), op.result.type)
        replace_value(rewriter, op, count)
    elif extent is not None and step == 1:
        replace_value(rewriter, op, extent)


SHAPE_RULES: dict[type[Operation], tuple[Rule, ...]] = {
    ViewOp: (moves_nothing, of_a_splat, view_of_view),
    BroadcastOp: (moves_nothing, of_a_splat),
    ExpandDimsOp: (moves_nothing, expand_a_scalar, of_a_splat),
    PermuteOp: (of_a_splat, permutation),
    ExtractOp: (of_a_splat, extract_element, slice_of_elements),
    ExtractSliceOp: (whole_slice, of_a_splat, slice_of_cat, slice_of_elements),
    CatOp: (cat_of_slices,),
    AddPtrOp: (no_offset, offsets_in_a_row),
    BitcastOp: (cast_in_a_row,),
    IntToPtrOp: (pointer_and_back,),
    FpToFpOp: (widened_and_back,),
    GetDimSizeOp: (known_extent,),
}
