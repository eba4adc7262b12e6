"""Folding rules for operations that move elements: splats, views, permutations, slices, pointers."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from tilewright.analysis.tileaa.geometry import memref_axes, view_axes
from tilewright.analysis.tileaa.integers import width_of
from tilewright.dialects import arith
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileaa.ops.arithmetic import FAST, ElementWise, Exp2Op, RsqrtOp
from tilewright.dialects.nv_tileaa.ops.pointers import (
    AddPtrOp,
    BitcastOp,
    FpToFpOp,
    IntToPtrOp,
    PtrToIntOp,
)
from tilewright.dialects.nv_tileaa.ops.shapes import (
    CatOp,
    ExtractOp,
    ExtractSliceOp,
    GetDimSizeOp,
    MakeRangeOp,
)
from tilewright.passes.base import insert_before, replace_op, replace_value
from tilewright.passes.laws import Rules
from tilewright.passes.tileaa.matching import (
    WORDS,
    integer_of,
    make_integer,
    make_splat,
)

SHAPE_RULES = Rules(WORDS)
law = SHAPE_RULES.law

law("moves_nothing", "view(x) -> x", "broadcast(x) -> x", "expand_dims(x) -> x")
law("whole_slice", "extract_slice(x, ...) -> x")
law("expand_a_scalar", "expand_dims(x) -> splat(x) if is_scalar(x)")
law(
    "of_a_splat",
    "moved(k := constant(), ...) -> constant(k) if is_uniform(k)",
    "moved(splat(x), ...) -> splat(x)",
)
law(
    "view_of_view",
    "view(view(x)) -> view(x)",
    "view(expand_dims(x)) -> view(x) if not is_scalar(x)",
)
law(
    "permutation",
    "permute(x) -> x if keeps_axes(op)",
    "permute(p := permute(x)) -> permute_both(x, p)",
)
law(
    "cat_of_slices",
    "cat(a := extract_slice(x, ...), b := extract_slice(x, ...)) -> x if are_halves(op)",
)
law("no_offset", "addptr(p, 0) -> p", "addptr(p, 0) -> splat(p)")
law(
    "cast_in_a_row",
    "bitcast(x) -> x",
    "bitcast(b := bitcast(x)) -> bitcast(x) if keeps_shape(op) and keeps_shape(b.owner)",
)
law("pointer_and_back", "int_to_ptr(ptr_to_int(p)) -> p")
law("widened_and_back", "fp_to_fp(w := fp_to_fp(x)) -> x if holds(w, x) and never_nan(x)")


@SHAPE_RULES.on(ExtractOp)
def extract_element(op: ExtractOp, rewriter: PatternRewriter) -> None:
    """Fold an element of a range with a known start to start plus index."""
    inner = op.source.owner
    if not isinstance(inner, MakeRangeOp) or inner.start is None or len(op.indices) != 1:
        return
    index = integer_of(op.indices[0])
    first = inner.start.value.data
    if index is not None and 0 <= index < T.dims_of(inner.result.type)[0]:
        replace_value(rewriter, op, make_integer(rewriter, op, first + index, op.result.type))


#: Operations whose elements depend only on the operands' elements at the same position.
_PER_ELEMENT = (
    *(op for op in arith.OPERATIONS.values() if op is not arith.ConstantOp),
    *ElementWise.__subclasses__(),
    AddPtrOp,
    BitcastOp,
    FpToFpOp,
    IntToPtrOp,
    PtrToIntOp,
)
#: The operations of ``math`` with one correct result.
_EXACT_MATH = (arith.AbsIOp, arith.AbsFOp, arith.CeilOp, arith.FloorOp)


@SHAPE_RULES.on(ExtractOp, ExtractSliceOp)
def slice_of_elements(op: ExtractOp | ExtractSliceOp, rewriter: PatternRewriter) -> None:
    """Compute part of an element-wise result from the same parts of the operands.

    Applies only if nothing else uses the whole and both are in the same block, so that nothing is
    computed twice. Excludes approximations, which a machine may compute differently for another
    tile shape.
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


@SHAPE_RULES.on(ExtractSliceOp)
def slice_of_cat(op: ExtractSliceOp, rewriter: PatternRewriter) -> None:
    """Rewrite a slice within one half of a ``cat`` as a slice of that half."""
    inner = op.source.owner
    offsets = int_list(op.offsets)
    if not isinstance(inner, CatOp) or not offsets:
        return
    axis = inner.axis.value.data
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


@SHAPE_RULES.on(AddPtrOp)
def offsets_in_a_row(op: AddPtrOp, rewriter: PatternRewriter) -> None:
    """``addptr(addptr(b, x), y) = addptr(b, x + y)``, with offsets in 64 bits, which wrap as addresses do.

    Applies only if nothing else uses the inner pointer.
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


@SHAPE_RULES.on(GetDimSizeOp)
def known_extent(op: GetDimSizeOp, rewriter: PatternRewriter) -> None:
    """Fold an extent given by the type to a constant, and one given to ``make_memref`` to its value."""
    axis = op.axis.value.data
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
