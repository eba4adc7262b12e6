"""Maps the types of ``cuda_tile`` to those of ``nv_tileaa``."""

from __future__ import annotations

from functools import lru_cache

from xdsl.ir import Attribute

from tilewright.dialects.cuda_tile import types as C
from tilewright.dialects.nv_tileaa import types as T


@lru_cache(maxsize=4096)
def lower_type(ty: Attribute) -> Attribute:
    """The ``nv_tileaa`` type of a ``cuda_tile`` value.

    Tiles of rank 0 become scalars, tensor views memrefs, views on them tiled views; pointers are to global memory.
    Raises ``TypeError`` for types that no value has.
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
    """The type of a scalar: numbers stay, pointers no longer tell how their memory is reached."""
    return T.PtrType(element.pointee) if isinstance(element, C.PtrType) else element
