"""The extents, strides and tile sizes of memrefs and tiled views, traced to their definitions."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.cuda_tile.types import DYNAMIC
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.pointers import MakeMemrefOp
from tilewright.dialects.nv_tileaa.ops.shapes import BlockTileOp

#: A number stated by the type, the value that provides it at run time, or None if unknown.
Extent = int | SSAValue | None


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a tile space: the memref axis below it, and how tiles are spaced along it."""

    extent: Extent
    """Elements along the memref's axis."""
    stride: Extent
    """Distance between consecutive elements, in elements."""
    tile: int
    """Elements per tile."""
    step: int
    """Elements from the start of one tile to the start of the next."""
    sparse: bool = False
    """Whether a tile of indices selects elements individually."""


def source_of_assumes(value: SSAValue) -> SSAValue:
    """Return the value below all assumptions about it."""
    while isinstance(value.owner, AssumeOp):
        value = value.owner.value
    return value


def made_by(memref: SSAValue) -> MakeMemrefOp | None:
    """Return the operation that created a memref, if known."""
    owner = source_of_assumes(memref).owner
    return owner if isinstance(owner, MakeMemrefOp) else None


def cut_by(view: SSAValue) -> BlockTileOp | None:
    """Return the operation that created a tiled view, if known."""
    owner = source_of_assumes(view).owner
    return owner if isinstance(owner, BlockTileOp) else None


def memref_axes(memref: SSAValue) -> tuple[tuple[Extent, Extent], ...]:
    """Return extent and stride of each axis of a memref."""
    ty = memref.type
    assert isinstance(ty, T.MemrefType)
    maker = made_by(memref)
    sizes = iter(() if maker is None else maker.sizes)
    strides = iter(() if maker is None else maker.strides)
    return tuple(
        (
            next(sizes, None) if extent == DYNAMIC else extent,
            next(strides, None) if stride == DYNAMIC else stride,
        )
        for extent, stride in zip(ty.dims, ty.stride_dims, strict=True)
    )


def view_axes(base: SSAValue, tile: tuple[int, ...]) -> tuple[Axis, ...] | None:
    """Return the axes that the indices of an access count along; ``tile`` is the shape moved.

    None if the origin of the view is unknown, if one axis of it covers several axes of the memref,
    or if tiles of indices determine the shape.
    """
    if isinstance(base.type, T.MemrefType):
        shape = tile or (1,) * base.type.rank
        axes = memref_axes(base)
        if len(axes) != len(shape):
            return None
        return tuple(Axis(e, s, t, 1) for (e, s), t in zip(axes, shape, strict=True))
    cutter = cut_by(base)
    if cutter is None:
        return None
    behind = memref_axes(cutter.source)
    if (cut := cutter.cut) is None:
        return None
    return tuple(
        Axis(*behind[axis], size, step, number == cut.sparse_dim)
        for number, (axis, size, step) in enumerate(
            zip(cut.dim_map, cut.tile_dims, cut.steps, strict=True)
        )
    )


def int_of(attribute: Attribute | None) -> int | None:
    """Return the number of an integer attribute, or None."""
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def int_array(attribute: Attribute) -> tuple[int, ...]:
    """Return the numbers of a dense array."""
    assert isinstance(attribute, DenseArrayBase)
    return tuple(int(value) for value in attribute.iter_values())
