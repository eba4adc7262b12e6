"""Constants, shapes and slices of tiles."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects import arith
from tilewright.dialects.cuda_tile.ops import core
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import extensions, shapes
from tilewright.dialects.nv_tileaa.ops.pointers import BitcastOp
from tilewright.lowering.tileaa.state import Lowering, i32_number, i64_list
from tilewright.lowering.tileaa.table import lowers


@lowers(core.BroadcastOp)
def broadcast(low: Lowering, op: core.BroadcastOp) -> Sequence[SSAValue]:
    """``broadcast``; nothing if no extent changes."""
    source, result = low.value(op.source), low.type_of(op.result)
    if source.type == result:
        return (source,)
    return low.emit(shapes.BroadcastOp, (source,), (result,))


@lowers(core.ReshapeOp)
def reshape(low: Lowering, op: core.ReshapeOp) -> Sequence[SSAValue]:
    """``splat``, ``extract``, ``expand_dims`` or ``view``, whichever is the most specific."""
    source, result = low.value(op.source), low.type_of(op.result)
    if source.type == result:
        return (source,)
    if not T.dims_of(source.type):
        return low.emit(shapes.SplatOp, (source,), (result,))
    if not T.dims_of(result):
        zeros = [low.index_constant(0)] * len(T.dims_of(source.type))
        return low.emit(shapes.ExtractOp, (source, *zeros), (result,))
    if (axes := _new_axes(T.dims_of(source.type), T.dims_of(result))) is not None:
        return low.emit(shapes.ExpandDimsOp, (source,), (result,), {"axes": i64_list(axes)})
    return low.emit(shapes.ViewOp, (source,), (result,))


def _new_axes(source: tuple[int, ...], result: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of extent 1 that were inserted, if the shapes differ in nothing else."""
    axes: list[int] = []
    kept = 0
    for axis, extent in enumerate(result):
        if kept < len(source) and source[kept] == extent:
            kept += 1
        elif extent == 1:
            axes.append(axis)
        else:
            return None
    return tuple(axes) if kept == len(source) else None


@lowers(core.PermuteOp)
def permute(low: Lowering, op: core.PermuteOp) -> Sequence[SSAValue]:
    """The same permutation: axis i of the result is axis ``permutation[i]`` of the source."""
    order = {"permutation": i64_list(op.axes)}
    return low.emit(shapes.PermuteOp, low.values(op.operands), low.types_of(op.results), order)


@lowers(core.CatOp)
def cat(low: Lowering, op: core.CatOp) -> Sequence[SSAValue]:
    """``cat`` along the same axis."""
    axis = {"axis": i32_number(int_property(op, "dim"))}
    return low.emit(shapes.CatOp, low.values(op.operands), low.types_of(op.results), axis)


@lowers(core.IotaOp)
def iota(low: Lowering, op: core.IotaOp) -> Sequence[SSAValue]:
    """``make_range`` from 0 to the extent."""
    ty = low.type_of(op.result)
    (extent,) = T.dims_of(ty)
    bounds: dict[str, Attribute] = {"start": IntegerAttr(0, i64), "end": IntegerAttr(extent, i64)}
    return low.emit(shapes.MakeRangeOp, (), (ty,), bounds)


@lowers(core.PackOp, core.UnpackOp)
def repack(low: Lowering, op: core.PackOp | core.UnpackOp) -> Sequence[SSAValue]:
    """A bitcast between bytes and packed elements, whose row-major bits are the same."""
    return low.emit(BitcastOp, low.values(op.operands), low.types_of(op.results))


@lowers(core.ExtractOp)
def extract(low: Lowering, op: core.ExtractOp) -> Sequence[SSAValue]:
    """``extract_slice``, whose offsets count elements rather than slices; a scalar is returned as is."""
    source, result = low.value(op.source), low.type_of(op.result)
    if not T.dims_of(result):
        return (source,)
    offsets = _offsets(low, op.indices, T.dims_of(result))
    return low.emit(shapes.ExtractSliceOp, (source, *offsets), (result,))


@lowers(core.InsertOp)
def insert(low: Lowering, op: core.InsertOp) -> Sequence[SSAValue]:
    """``ext.insert_slice``, with offsets in elements; a scalar replaces the destination."""
    source, destination = low.value(op.source), low.value(op.destination)
    if not T.dims_of(source.type):
        return (source,)
    offsets = _offsets(low, op.indices, T.dims_of(source.type))
    operands = (destination, source, *offsets)
    return low.emit(extensions.InsertSliceOp, operands, (destination.type,))


def _offsets(
    low: Lowering, indices: Sequence[SSAValue], extents: tuple[int, ...]
) -> list[SSAValue]:
    """The offset of a subtile in elements: its index times its extent."""
    found: list[SSAValue] = []
    for index, extent in zip(low.indices(indices), extents, strict=True):
        if extent > 1:
            (index,) = low.emit(arith.MuliOp, (index, low.index_constant(extent)), (T.INDEX,))
        found.append(index)
    return found
