"""Creating, reshaping, cutting and concatenating tiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import arith
from tilewright.dialects.cuda_tile.types import DYNAMIC
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as A
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileaa.ops import extensions, shapes
from tilewright.dialects.nv_tileaa.types import strides_of
from tilewright.launching.constants import elements_of
from tilewright.launching.value_types import TileLike, tile_type
from tilewright.machine.compile import Step, Translator, implements
from tilewright.machine.faults import Fault
from tilewright.machine.ops.reductions import (
    CONSTANTS,
    is_vector_body,
    scalar_body,
    vector_body,
)
from tilewright.machine.ops.tiles import (
    Locate,
    cat_step,
    counted,
    insert_step,
    rearranged,
    spreading,
)
from tilewright.machine.tileaa.faults import RANGE_EXTENT, SLICE_OUTSIDE
from tilewright.machine.values import Registers, TensorView
from tilewright.numerics.arrays import dtype_of


@implements(arith.ConstantOp)
def _constant(op: arith.ConstantOp, t: Translator) -> None:
    ty = tile_type(op.result)
    t.preset(op.result, elements_of(op.properties["value"], ty.element, ty.dims))


CONSTANTS.add(arith.ConstantOp)


@implements(shapes.SplatOp, shapes.BroadcastOp)
def _broadcast(op: shapes.SplatOp | shapes.BroadcastOp, t: Translator) -> Step | None:
    return rearranged(t, op.source, op.result, spreading(tile_type(op.result)))


@implements(shapes.ExpandDimsOp, shapes.ViewOp)
def _view(op: shapes.ExpandDimsOp | shapes.ViewOp, t: Translator) -> Step | None:
    if isinstance(op.result.type, A.MemrefType):
        return _view_memref(op, t, op.result.type)
    dims = tile_type(op.result).dims
    return rearranged(t, op.source, op.result, lambda tile: tile.reshape(dims))


def _view_memref(op: Operation, t: Translator, result: A.MemrefType) -> Step | None:
    """Another type for the same memory: keeps the actual extents, or takes those of the new shape."""
    source = op.operands[0]
    assert isinstance(source.type, A.MemrefType)
    if source.type.rank == result.rank:
        return rearranged(t, source, op.results[0], lambda tensor: tensor)
    if DYNAMIC in result.dims:
        raise t.refusal(
            op,
            f"'{op.name}' to a memref of another rank with dynamic extents, which are unspecified",
        )
    dims, strides = result.dims, strides_of(result)
    given, made = t.slots((source, op.results[0]))

    def step(regs: Registers) -> None:
        regs[made] = TensorView(regs[given].base, dims, strides)

    return step


@implements(shapes.PermuteOp)
def _permute(op: shapes.PermuteOp, t: Translator) -> Step | None:
    axes = int_list(op.properties["permutation"])
    return rearranged(t, op.source, op.result, lambda tile: tile.transpose(axes))


@implements(shapes.CatOp)
def _cat(op: shapes.CatOp, t: Translator) -> Step:
    return cat_step(t.slot(op.lhs), t.slot(op.rhs), t.slot(op.result), int_property(op, "axis"))


@implements(shapes.MakeRangeOp)
def _make_range(op: shapes.MakeRangeOp, t: Translator) -> Step | None:
    ty = tile_type(op.result)
    if not op.bounds:
        t.preset(op.result, counted(int_property(op, "start"), ty))
        return None
    start, end = t.slots(op.bounds)
    result = t.slot(op.result)
    count, dtype = ty.element_count, dtype_of(ty.element)

    def step(regs: Registers) -> None:
        first, last = regs[start].item(), regs[end].item()
        if last - first != count:
            raise Fault(
                RANGE_EXTENT,
                f"the range from {first} to {last} has {last - first} elements, but the result "
                f"has {count}",
            )
        regs[result] = np.arange(first, last, dtype=np.int64).astype(dtype)

    return step


@implements(shapes.GenerateOp)
def _generate(op: shapes.GenerateOp, t: Translator) -> Step:
    block = op.body.blocks[0]
    ty, result = tile_type(op.result), t.slot(op.result)
    arguments = t.slots(block.args)
    dims, dtype = ty.dims, dtype_of(ty.element)
    if not is_vector_body(block):
        return _generate_each(op, t)
    spread, execute, (yielded,) = vector_body(block, t)
    indices = np.indices(dims, dtype=np.int64)

    def step(regs: Registers) -> None:
        spread(regs, dims)
        for slot, index in zip(arguments, indices, strict=True):
            regs[slot] = index
        execute(regs)
        regs[result] = np.ascontiguousarray(regs[yielded], dtype)

    return step


def _generate_each(op: shapes.GenerateOp, t: Translator) -> Step:
    """Computes elements one by one, for bodies that branch."""
    block = op.body.blocks[0]
    ty, result = tile_type(op.result), t.slot(op.result)
    arguments = t.slots(block.args)
    execute, (yielded,) = scalar_body(block, t)

    def step(regs: Registers) -> None:
        tile = np.empty(ty.dims, dtype_of(ty.element))
        for index in np.ndindex(ty.dims):
            for slot, number in zip(arguments, index, strict=True):
                regs[slot] = np.array(number, np.int64)
            execute(regs)
            tile[index] = regs[yielded]
        regs[result] = tile

    return step


def _slices(
    t: Translator, whole: TileLike, offsets: Sequence[int | SSAValue], sizes: Sequence[int]
) -> Locate:
    """Return a function that locates slices of given sizes along the leading axes; offsets are numbers or values."""
    walk = tuple(
        (t.slot(offset), 0, extent, size)
        if isinstance(offset, SSAValue)
        else (None, offset, extent, size)
        for offset, extent, size in zip(offsets, whole.dims, sizes, strict=False)
    )

    def locate(regs: Registers) -> tuple[slice, ...]:
        found: list[slice] = []
        for slot, offset, extent, size in walk:
            start: int = offset if slot is None else regs[slot].item()
            if not 0 <= start <= extent - size:
                raise Fault(
                    SLICE_OUTSIDE,
                    f"along axis {len(found)}, elements [{start}, {start + size}) lie outside of "
                    f"the tile, [0, {extent})",
                )
            found.append(slice(start, start + size))
        return tuple(found)

    return locate


@implements(shapes.ExtractOp)
def _extract(op: shapes.ExtractOp, t: Translator) -> Step:
    source, result = t.slot(op.source), t.slot(op.result)
    dims = tile_type(op.result).dims
    locate = _slices(t, tile_type(op.source), list(op.indices), [1] * len(op.indices))

    def step(regs: Registers) -> None:
        regs[result] = regs[source][locate(regs)].reshape(dims)

    return step


def _offsets(op: Operation, indices: Sequence[SSAValue]) -> Sequence[int | SSAValue]:
    return list(indices) or int_list(op.properties.get("offsets"))


@implements(shapes.ExtractSliceOp)
def _extract_slice(op: shapes.ExtractSliceOp, t: Translator) -> Step:
    source, result = t.slot(op.source), t.slot(op.result)
    offsets = _offsets(op, op.indices)
    locate = _slices(t, tile_type(op.source), offsets, tile_type(op.result).dims)

    def step(regs: Registers) -> None:
        regs[result] = regs[source][locate(regs)]

    return step


@implements(extensions.InsertSliceOp)
def _insert_slice(op: extensions.InsertSliceOp, t: Translator) -> Step:
    source, destination, result = t.slots((op.source, op.destination, op.result))
    offsets = _offsets(op, op.indices)
    locate = _slices(t, tile_type(op.destination), offsets, tile_type(op.source).dims)
    return insert_step(source, destination, result, locate)
