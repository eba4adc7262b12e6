"""Tiles in the layout of compiled kernels' buffers: row-major, each element in bytes of its own."""

from __future__ import annotations

import ctypes
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.launching.storage import storage_of
from tilewright.numerics.arrays import PTR, Array

if TYPE_CHECKING:
    from tilewright.launching.interfaces import PassedType
    from tilewright.launching.value_types import TileLike

_NIBBLE = np.uint8(15)


def bytes_at(address: int, size: int) -> Array:
    """The bytes at an address, as an array over them that does not own them."""
    memory = memoryview((ctypes.c_uint8 * size).from_address(address))
    return np.frombuffer(memory, np.uint8)


def read_tile(kind: TileLike, address: int) -> Array:
    """The tile in a buffer, as a read-only array of the tile's shape and the dtype of its elements.

    It may lie over the buffer, and then changes with that.
    """
    if kind.element == PTR:
        array = bytes_at(address, prod(kind.dims) * 8).view(np.uint64)
    else:
        storage = storage_of(kind.element)
        raw = bytes_at(address, prod(kind.dims) * storage.raw.itemsize).view(storage.raw)
        if kind.element == "i4":
            raw = ((raw << 4).view(np.int8) >> 4).view(np.uint8)
        array = storage.to_tile(raw)
    array = array.reshape(kind.dims)
    array.flags.writeable = False
    return array


def tile_bytes(kind: TileLike | PassedType, array: Array) -> Array:
    """The bytes of a tile in a buffer, row-major; an element of 4 bits takes the lower half of one."""
    dense = np.ascontiguousarray(array).reshape(-1)
    if kind.element != PTR:
        dense = storage_of(kind.element).from_tile(dense)
    return dense & _NIBBLE if kind.element == "i4" else dense.view(np.uint8)
