"""The extents, strides and tile sizes of memrefs and tiled views: traced to their definitions, and as back ends hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.cuda_tile.types import DYNAMIC, Cut
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


_Element = TypeVar("_Element")
_Pointer = TypeVar("_Pointer")
_Number = TypeVar("_Number")
_Padding = TypeVar("_Padding")


@dataclass(frozen=True, slots=True)
class HeldMemref(Generic[_Element, _Pointer, _Number]):
    """What a memref is in a back end: an element type and an address, and for each axis the extent and the stride in elements, as
    the numbers of that back end."""

    element: _Element
    pointer: _Pointer
    sizes: tuple[_Number, ...]
    strides: tuple[_Number, ...]


_Memref = TypeVar("_Memref", bound=HeldMemref[Any, Any, Any])


@dataclass(frozen=True, slots=True)
class HeldView(Generic[_Memref, _Number, _Padding]):
    """What a tiled view is in a back end: axis i of its tiles, of ``dims[i]`` elements, runs along axis ``axes[i]`` of the memref,
    and tile number k begins at element ``k * steps[i]`` there. Along axis ``sparse``, if any, an access has an index for
    each row. ``padding`` says what lies outside."""

    memref: _Memref
    dims: tuple[int, ...]
    axes: tuple[int, ...]
    steps: tuple[_Number | int, ...]
    padding: _Padding
    sparse: int | None = None

    @classmethod
    def of_cut(cls, memref: _Memref, cut: Cut, padding: _Padding) -> Self:
        """The view that ``block_tile`` makes."""
        return cls(memref, cut.tile_dims, cut.dim_map, cut.steps, padding, cut.sparse_dim)

    @classmethod
    def whole(cls, memref: _Memref, dims: tuple[int, ...], padding: _Padding) -> Self:
        """A memref as tiles that begin one element apart; of one element where ``dims`` is empty."""
        rank = len(memref.sizes)
        return cls(memref, dims or (1,) * rank, tuple(range(rank)), (1,) * rank, padding)

    def turned(self, order: Sequence[int]) -> Self:
        """The view with the axes of its tiles in another order: axis i is axis ``order[i]`` of this one."""
        return replace(
            self,
            dims=tuple(self.dims[axis] for axis in order),
            axes=tuple(self.axes[axis] for axis in order),
            steps=tuple(self.steps[axis] for axis in order),
        )


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
    """Return extent and stride of each axis of a memref, in elements.

    A number where the type has it, else the operand of the operation that made the memref, else None.
    """
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
