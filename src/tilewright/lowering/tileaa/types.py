"""What the types of ``cuda_tile`` become."""

from __future__ import annotations

from functools import lru_cache

from xdsl.ir import Attribute

from tilewright.dialects.cuda_tile import types as C
from tilewright.dialects.nv_tileaa import types as T


@lru_cache(maxsize=4096)
def lower_type(ty: Attribute) -> Attribute:
    """The type in ``nv_tileaa`` of a value of ``cuda_tile``.

    Tiles of rank 0 become scalars, pointers point into global memory, tensor views become memrefs
    and the views on them tiled views.
    """
    match ty:
        case C.TileType():
            return T.tile_or_scalar(ty.dims, lower_element(ty.element_type))
        case C.TokenType():
            return T.MEM_TOKEN
        case C.TensorViewType():
            return T.MemrefType(ty.element_type, ty.dims, ty.stride_dims)
        case C.TileViewType():
            return T.TiledViewType(ty.tile_dims, lower_type(ty.view))
        case _:
            raise TypeError(f"no type of a cuda_tile value: {ty}")


def lower_element(element: Attribute) -> Attribute:
    """The type of a scalar: numbers stay, pointers lose how their memory is reached."""
    return T.PtrType(element.pointee) if isinstance(element, C.PtrType) else element
