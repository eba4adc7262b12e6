"""Where the elements of a tile lie in global memory: their addresses, and which of them exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import OpResult, SSAValue

from tilewright.dialects.cuda_tile.types import DYNAMIC
from tilewright.dialects.declare import bool_values, enum_property, int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import AliasOp, int_list
from tilewright.dialects.nv_tileaa.ops import memory, pointers, shapes
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nvgpu.support import arith_vectors as V
from tilewright.dialects.syntax.engine import values_of
from tilewright.lowering.nvgpu.elementwise import pointee_bytes
from tilewright.lowering.nvgpu.exchange import rearranged
from tilewright.lowering.nvgpu.state import Memref, Threads, View
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import I32, I64


@dataclass(frozen=True, slots=True)
class Place:
    """The addresses of a thread's elements, a number or a vector of i64, and which of them may be
    accessed; ``inside`` are those that lie in the memory of a view. None stands for all."""

    addresses: SSAValue
    mask: SSAValue | None
    inside: SSAValue | None


@lowers("make_memref")
def make_memref(low: Threads, op: pointers.MakeMemrefOp) -> None:
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
    low: Threads, static: Sequence[int], given: Sequence[SSAValue]
) -> tuple[SSAValue, ...]:
    left = iter(given)
    return tuple(
        low.value(next(left)) if number == DYNAMIC else low.constant(number, I64)
        for number in static
    )


@lowers("block_tile")
def block_tile(low: Threads, op: shapes.BlockTileOp) -> None:
    groups = op.properties["dimGroups"]
    assert isinstance(groups, ArrayAttr)
    axes = [
        [axis.value.data for axis in group.data if isinstance(axis, IntegerAttr)]
        for group in groups.data
        if isinstance(group, ArrayAttr)
    ]
    if any(len(group) != 1 for group in axes):
        raise low.refuse("several axes are in one of its dimGroups")
    sizes = int_list(op.properties["tileSizes"])
    steps = int_list(op.properties.get("traversalStrides")) or sizes
    sparse = int_property(op, "sparseDim") if "sparseDim" in op.properties else None
    padding = enum_property(op, "padding_value") or "zero"
    made = View(
        low.memref(op.source), sizes, tuple(axis for (axis,) in axes), steps, padding, sparse
    )
    low.bind(op.result, made)


@lowers("get_dim_size")
def get_dim_size(low: Threads, op: shapes.GetDimSizeOp) -> None:
    axis = int_property(op, "axis")
    held = low.held[op.source]
    if isinstance(held, Memref):
        low.bind(op.result, held.sizes[axis])
        return
    assert isinstance(held, View)
    size, step = held.memref.sizes[held.axes[axis]], held.steps[axis]
    low.bind(op.result, low.binary(A.DivUIOp, low.plus(size, step - 1), step))


@lowers("get_global")
def get_global(low: Threads, op: memory.GetGlobalOp) -> None:
    from tilewright.lowering.nvgpu.tables import global_address

    result = op.result
    address, ty = global_address(low, op)
    if isinstance(result.type, T.PtrType):
        low.bind(result, address)
        return
    strides: list[int] = []
    inner = 1
    for extent in reversed(ty.dims):
        strides.append(inner)
        inner *= extent
    sizes = tuple(low.constant(extent, I64) for extent in ty.dims)
    made = tuple(low.constant(stride, I64) for stride in reversed(strides))
    low.bind(result, Memref(ty.element_type, address, sizes, made))


def known(value: SSAValue) -> int | None:
    """The number that an integer constant is."""
    if isinstance(value, OpResult) and isinstance(value.op, A.ConstantOp):
        found = value.op.value
        return found.value.data if isinstance(found, IntegerAttr) else None
    return None


def place_of_access(low: Threads, op: Access) -> Place:
    """Where the elements lie that an access is to."""
    (base,) = values_of(op, "base")
    masks = values_of(op, "mask")
    mask = low.value(masks[0]) if masks else None
    if isinstance(T.element_of(base.type), T.PtrType):
        return Place(low.value(base), mask, None)
    indices = list(values_of(op, "indices"))
    promised = bool_values(op.properties.get("in_bounds"))
    dims = T.dims_of(op.moved.type)
    if isinstance(base.type, T.TiledViewType):
        view = low.view(base)
        if not dims:
            raise low.refuse("it moves a scalar through a view")
        return _in_view(low, view, indices, promised, mask)
    held = low.memref(base)
    if not dims and not promised:
        promised = (True,) * len(indices)
    whole = View(
        held,
        dims or (1,) * len(indices),
        tuple(range(len(indices))),
        (1,) * len(indices),
        "zero",
        None,
    )
    return _in_view(low, whole, indices, promised, mask)


def _in_view(
    low: Threads,
    view: View,
    indices: Sequence[SSAValue],
    promised: Sequence[bool],
    mask: SSAValue | None,
) -> Place:
    element = view.memref.element
    size = pointee_bytes(low, T.PtrType(element))
    coordinates = low.coordinates(view.dims)
    count = low.layout(view.dims).registers
    vector = b.VectorType(I64, [count])
    start: SSAValue = view.memref.address
    offsets: SSAValue | None = None
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
            part = low.binary(A.MuliOp, rows, low.splat(stride, count))
            offsets = part if offsets is None else low.plus(offsets, part)
            continue
        origin = low.times(low.value(index), step)
        if not is_sure:
            inside = low.both(inside, _below(low, at, origin, limit, extent))
        start = low.plus(start, low.times(low.times(origin, stride), size))
        if extent == 1:
            continue
        part = low.widen(at)
        if known(stride) != 1:
            part = low.binary(A.MuliOp, part, low.splat(stride, count))
        offsets = part if offsets is None else low.plus(offsets, part)
    addresses = low.splat(start, count)
    if offsets is not None:
        addresses = low.plus(addresses, low.times(offsets, size))
    assert addresses.type == vector
    return Place(addresses, low.both(inside, mask), inside)


def _below(low: Threads, at: SSAValue, origin: SSAValue, limit: SSAValue, extent: int) -> SSAValue:
    """Whether the elements at places of a tile that starts at ``origin`` lie below a limit."""
    left = low.binary(A.SubiOp, limit, origin)
    some = low.compare("slt", origin, limit)
    left = low.select(some, left, low.constant(0, I64))
    left = low.binary(A.MinSIOp, left, extent)
    count = at.type.get_shape()[0]  # pyright: ignore[reportAttributeAccessIssue]
    return low.compare("ult", at, low.splat(low.one(V.TruncIOp, (left,), I32), count))


def _rows(low: Threads, index: SSAValue, dims: tuple[int, ...], axis: int) -> SSAValue:
    """For each element of a tile the index that stands for its place along an axis."""

    def place(coordinates: Sequence[SSAValue]) -> list[SSAValue]:
        return [coordinates[axis]]

    found = rearranged(low, index, (dims[axis],), dims, place)
    return low.widen(found)


def padding_name(op: AliasOp, base: SSAValue, low: Threads) -> str:
    """What lies outside of the memory of a view."""
    own = enum_property(op, "padding_value") if "padding_value" in op.properties else ""
    held = low.held[base]
    return own or (held.padding if isinstance(held, View) else "zero")
