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

#: A number that the type states, the value that gives it at run time, or None: not seen from here.
Extent = int | SSAValue | None


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a space of tiles: the memref's axis behind it, and how tiles follow on it."""

    extent: Extent
    """Elements along the memref's axis."""
    stride: Extent
    """Elements from one to the next in memory."""
    tile: int
    """Elements of a tile."""
    step: int
    """Elements from the start of a tile to the start of the next."""
    sparse: bool = False
    """Whether a tile of indices picks the elements one by one."""


def source_of_assumes(value: SSAValue) -> SSAValue:
    """The value behind all assumptions about it."""
    while isinstance(value.owner, AssumeOp):
        value = value.owner.value
    return value


def made_by(memref: SSAValue) -> MakeMemrefOp | None:
    """The operation that made a memref, where it is seen."""
    owner = source_of_assumes(memref).owner
    return owner if isinstance(owner, MakeMemrefOp) else None


def cut_by(view: SSAValue) -> BlockTileOp | None:
    """The operation that cut a tiled view, where it is seen."""
    owner = source_of_assumes(view).owner
    return owner if isinstance(owner, BlockTileOp) else None


def memref_axes(memref: SSAValue) -> tuple[tuple[Extent, Extent], ...]:
    """Extent and stride of each axis of a memref."""
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
    """The axes that the indices of an access count on; ``tile`` is the shape of what moves.

    None where the view comes from elsewhere or covers several axes of the memref by one, or where
    tiles of indices give what moves a shape of its own.
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
    """The number of an integer attribute, if there is one."""
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def int_array(attribute: Attribute) -> tuple[int, ...]:
    """The numbers of a dense array."""
    assert isinstance(attribute, DenseArrayBase)
    return tuple(int(value) for value in attribute.iter_values())
