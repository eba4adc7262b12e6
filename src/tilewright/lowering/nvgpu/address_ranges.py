"""Global addresses of a tile's elements, and which elements are in bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import OpResult, SSAValue

from tilewright.dialects.cuda_tile.types import DYNAMIC
from tilewright.dialects.declare import bool_values, enum_property, int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp
from tilewright.dialects.nv_tileaa.ops import pointers, shapes
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.memory import Scattered
from tilewright.dialects.syntax.engine import values_of
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.layouts.layout import coordinates_of
from tilewright.lowering.nvgpu.elementwise import pointee_bytes
from tilewright.lowering.nvgpu.pieces import rearranged
from tilewright.lowering.nvgpu.state import Memref, ThreadLowering, View
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import I32, I64


@dataclass(frozen=True, slots=True)
class AddressRange:
    """The addresses of a thread's elements, an i64 scalar or vector, and the mask of the access.

    ``inside`` is the mask of elements in bounds of a view. A mask of None is all true.
    """

    addresses: SSAValue
    mask: SSAValue | None
    inside: SSAValue | None


@lowers("make_memref")
def make_memref(low: ThreadLowering, op: pointers.MakeMemrefOp) -> None:
    """Builds no operation: binds the result to a base address, in bytes, and extents and strides, in elements."""
    ty = op.result.type
    assert isinstance(ty, T.MemrefType)
    address = low.value(op.base)
    if op.offset is not None:
        address = low.plus(address, low.value(op.offset))
    sizes, strides = (
        _extents(low, static, given)
        for static, given in ((ty.dims, op.sizes), (ty.stride_dims, op.strides))
    )
    low.bind(op.result, Memref(ty.element_type, address, sizes, strides))


def _extents(
    low: ThreadLowering, static: Sequence[int], given: Sequence[SSAValue]
) -> tuple[SSAValue, ...]:
    left = iter(given)
    return tuple(
        low.value(next(left)) if number == DYNAMIC else low.constant(number, I64)
        for number in static
    )


@lowers("block_tile")
def block_tile(low: ThreadLowering, op: shapes.BlockTileOp) -> None:
    """Builds no operation: binds the result to a memref cut into tiles.

    Raises ``not-lowered-to-threads`` if a group has several axes.
    """
    if (cut := op.cut) is None:
        raise low.refuse("several axes are in one of its dimGroups")
    padding = enum_property(op, "padding_value") or "zero"
    low.bind(op.result, View.of_cut(low.memref(op.source), cut, padding))


@lowers("get_dim_size")
def get_dim_size(low: ThreadLowering, op: shapes.GetDimSizeOp) -> None:
    """Binds an extent in elements; for a tiled view the number of tiles, rounded up."""
    axis = int_property(op, "axis")
    held = low.held[op.source]
    if isinstance(held, Memref):
        low.bind(op.result, held.sizes[axis])
        return
    assert isinstance(held, View)
    size, step = held.memref.sizes[held.axes[axis]], held.steps[axis]
    low.bind(op.result, low.binary(A.DivUIOp, low.plus(size, step - 1), step))


def known(value: SSAValue) -> int | None:
    """The value of an integer constant, else None."""
    if isinstance(value, OpResult) and isinstance(value.op, A.ConstantOp):
        found = value.op.value
        return found.value.data if isinstance(found, IntegerAttr) else None
    return None


Order = tuple[int, ...]
"""A permutation of the axes of a tile: the order in which its elements are distributed to threads for an access."""


def address_range_of(low: ThreadLowering, op: Access, order: Order | None = None) -> AddressRange:
    """The addresses (i64, in bytes) and masks of the elements of an access that the thread holds.

    ``order``: the axes by which elements are dealt to threads, by default as they are.
    """
    masks = values_of(op, "mask")
    mask = low.value(masks[0]) if masks else None
    if isinstance(op, Scattered) and isinstance(values_of(op, "base")[0].type, T.MemrefType):
        return AddressRange(_scattered(low, op), mask, None)
    found = view_of_access(low, op, order)
    if found is None:
        (base,) = values_of(op, "base")
        return AddressRange(low.value(base), mask, None)
    return _in_view(low, *found, mask)


def _scattered(low: ThreadLowering, op: Scattered) -> SSAValue:
    """The addresses of elements of a memref at tiles of indices; scalar indices are broadcast."""
    (base,) = values_of(op, "base")
    held = low.memref(base)
    size = pointee_bytes(low, T.PtrType(held.element))
    ty = low.type_of(T.tile_or_scalar(T.dims_of(op.moved.type), T.INDEX))
    count = ty.get_shape()[0]  # pyright: ignore[reportAttributeAccessIssue]
    total = low.splat(held.pointer, count)
    for index, stride in zip(values_of(op, "indices"), held.strides, strict=True):
        steps = low.times(low.operand(index, ty), low.splat(stride, count))
        total = low.plus(total, low.times(steps, size))
    return total


def view_of_access(
    low: ThreadLowering, op: Access, order: Order | None = None
) -> tuple[View, Sequence[SSAValue], Sequence[bool]] | None:
    """The view that an access goes through, the indices of its tile, and for each axis whether it is known in bounds.

    None for an access through pointers. With ``order`` the axes are permuted by it. Raises ``TileIRError``
    (``not-lowered-to-threads``) for a scalar that is moved through a tiled view.
    """
    found = _view_of_access(low, op)
    if found is None or order is None:
        return found
    view, indices, promised = found
    sure = [axis < len(promised) and promised[axis] for axis in order]
    return view.turned(order), [indices[axis] for axis in order], sure


def _view_of_access(
    low: ThreadLowering, op: Access
) -> tuple[View, Sequence[SSAValue], Sequence[bool]] | None:
    (base,) = values_of(op, "base")
    if isinstance(T.element_of(base.type), T.PtrType):
        return None
    indices = list(values_of(op, "indices"))
    promised = bool_values(op.properties.get("in_bounds"))
    dims = T.dims_of(op.moved.type)
    if isinstance(base.type, T.TiledViewType):
        view = low.view(base)
        if not dims:
            raise low.refuse("it moves a scalar through a view")
        return view, indices, promised
    held = low.memref(base)
    if not dims and not promised:
        promised = (True,) * len(indices)
    return View.whole(held, dims, "zero"), indices, promised


def _in_view(
    low: ThreadLowering,
    view: View,
    indices: Sequence[SSAValue],
    promised: Sequence[bool],
    mask: SSAValue | None,
) -> AddressRange:
    element = view.memref.element
    size = pointee_bytes(low, T.PtrType(element))
    coordinates = low.coordinates(view.dims)
    layout, first = low.layout(view.dims), low.first_coordinates(view.dims)
    others = [coordinates_of(offset, view.dims) for offset in layout.offsets]
    count = layout.registers
    vector = b.VectorType(I64, [count])
    start: SSAValue = view.memref.pointer
    # Constant offsets are added last, so that an access can fold them into its immediate offset.
    parts: list[SSAValue] = []
    fixed: list[int] = [0] * count
    inside: SSAValue | None = None
    for axis, (index, at) in enumerate(zip(indices, coordinates, strict=True)):
        extent, step = view.dims[axis], view.steps[axis]
        limit = view.memref.sizes[view.axes[axis]]
        stride = view.memref.strides[view.axes[axis]]
        is_sure = axis < len(promised) and promised[axis]
        if T.dims_of(index.type):
            rows = _rows(low, low.value(index), view.dims, axis)
            rows = low.times(rows, step)
            if not is_sure:
                inside = low.both(inside, low.compare("ult", rows, low.splat(limit, count)))
            parts.append(low.binary(A.MuliOp, rows, low.splat(low.times(stride, size), count)))
            continue
        origin = low.times(low.value(index), step)
        if not is_sure:
            inside = low.both(inside, _below(low, at, origin, limit, extent))
        start = low.plus(start, low.times(low.times(origin, stride), size))
        if extent == 1:
            continue
        mine = low.widen(first[axis])
        if known(stride) != 1:
            mine = low.times(mine, stride)
        start = low.plus(start, low.times(mine, size))
        steps = [place[axis] for place in others]
        number = known(stride)
        if number is not None:
            fixed = [one + number * size * more for one, more in zip(fixed, steps, strict=True)]
        elif any(steps):
            by_step = low.splat(low.times(stride, size), count)
            parts.append(low.binary(A.MuliOp, low.constant_vector(steps, I64), by_step))
    addresses = low.splat(start, count)
    if any(fixed):
        parts.append(low.constant_vector(fixed, I64))
    for part in parts:
        addresses = low.plus(addresses, part)
    assert addresses.type == vector
    return AddressRange(addresses, low.both(inside, mask), inside)


def _below(
    low: ThreadLowering, at: SSAValue, origin: SSAValue, limit: SSAValue, extent: int
) -> SSAValue:
    """The mask of elements below a limit, for a tile that starts at ``origin``."""
    left = low.binary(A.SubiOp, limit, origin)
    some = low.compare("slt", origin, limit)
    left = low.select(some, left, low.constant(0, I64))
    left = low.binary(A.MinSIOp, left, extent)
    count = at.type.get_shape()[0]  # pyright: ignore[reportAttributeAccessIssue]
    return low.compare("ult", at, low.splat(low.one(V.TruncIOp, (left,), I32), count))


def _rows(low: ThreadLowering, index: SSAValue, dims: tuple[int, ...], axis: int) -> SSAValue:
    """The index of each element of a tile: that of its coordinate along an axis."""

    def place(coordinates: Sequence[SSAValue]) -> list[SSAValue]:
        return [coordinates[axis]]

    found = rearranged(low, index, (dims[axis],), dims, place)
    return low.widen(found)


def padding_name(op: TileAAOp, base: SSAValue, low: ThreadLowering) -> str:
    """The padding value of an access as a keyword of the dialect: its own, else that of the view, else zero."""
    own = enum_property(op, "padding_value") if "padding_value" in op.properties else ""
    held = low.held[base]
    return own or (held.padding if isinstance(held, View) else "zero")
