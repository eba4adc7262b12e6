"""The types of values in registers, for every level of IR.

In ``cuda_tile`` all values are tiles; in ``nv_tileaa`` and related dialects scalars have bare element types, and
``index`` is a 64-bit integer. Registers hold scalars as tiles of rank 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.nv_tileaa import types as A
from tilewright.launching.interfaces import INDEX_ELEMENT
from tilewright.numerics.arrays import PTR


@dataclass(frozen=True, slots=True)
class HeldType:
    """A tile or scalar: extents, and the element type with its name (``ptr`` for pointers)."""

    dims: tuple[int, ...]
    element: str
    element_type: Attribute

    @property
    def rank(self) -> int:
        """The number of extents; 0 for a scalar."""
        return len(self.dims)

    @property
    def element_count(self) -> int:
        """The product of the extents; 1 for a scalar."""
        return prod(self.dims)


TileLike = T.TileType | HeldType


def tile_type(value: SSAValue) -> TileLike:
    """The type of a value that the verifier has checked to be a tile or scalar."""
    found = tile_like(value.type)
    assert found is not None, value.type
    return found


def tile_like(ty: Attribute) -> TileLike | None:
    """A tile or scalar type as registers hold it; None for all other types."""
    return ty if isinstance(ty, T.TileType) else _held_type(ty)


@cache
def _held_type(ty: Attribute) -> HeldType | None:
    element = A.element_of(ty)
    name = A.element_name(element)
    if name == "?":
        return None
    return HeldType(A.dims_of(ty), INDEX_ELEMENT if name == "index" else name, element)


def pointee_of(value: SSAValue) -> str:
    """The name of the pointee's element type, for a tile of pointers."""
    return pointee_in(tile_type(value))


def pointee_in(ty: TileLike) -> str:
    """The name of the pointee's element type, for the type of a tile of pointers."""
    pointer = ty.element_type
    assert isinstance(pointer, T.PtrType | A.PtrType)
    return T.element_name(pointer.pointee)


def is_pointer(ty: TileLike) -> bool:
    """Whether the elements are pointers."""
    return ty.element == PTR


def is_address(ty: Attribute) -> bool:
    """Whether values of a type reference memory: pointers and views."""
    if isinstance(ty, T.TensorViewType | T.TileViewType | A.MemrefType | A.TiledViewType):
        return True
    held = tile_like(ty)
    return held is not None and is_pointer(held)
