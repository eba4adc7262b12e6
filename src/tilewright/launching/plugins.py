"""Functions on arrays that a caller supplies for external code of a module.

``extern_elementwise``, ``elementwise_inline_asm`` and ``call_elementwise_intrinsic`` pass whole tiles, although their
code is per element. Tiles are passed as read-only arrays, memrefs as arrays over their memory; a function returns an
array per result, except tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.launching.storage import storage_of
from tilewright.numerics.arrays import Array, dtype_of

if TYPE_CHECKING:
    from tilewright.launching.value_types import TileLike

Plugin = Callable[..., object]
"""Takes the operands as arrays, scalars of rank 0; returns an array per result, or a single one."""


class PluginResultError(Exception):
    """The value returned by a plugin does not match the results of the operation."""


def plugin_results(name: str, found: object, types: Sequence[TileLike]) -> list[Array]:
    """Convert the return value of a plugin to arrays of the results' types, which are copies.

    Several results are a tuple or a list. Raises PluginResultError for another number of them, another shape, and a
    dtype that does not convert within its kind.
    """
    given: Sequence[Any] = found if isinstance(found, tuple | list) else (found,)
    if not types:
        return []
    if len(given) != len(types):
        raise PluginResultError(f"plugin '{name}' gave {len(given)} results, not {len(types)}")
    arrays: list[Array] = []
    for number, (value, ty) in enumerate(zip(given, types, strict=True)):
        array, dtype = np.asarray(value), dtype_of(ty.element)
        castable = array.dtype == dtype or np.can_cast(array.dtype, dtype, "same_kind")
        if array.shape != ty.dims or not castable:
            raise PluginResultError(
                f"result {number} of plugin '{name}' must be an array of {dtype} of shape "
                f"{ty.dims}, got {array.dtype} of shape {array.shape}",
            )
        arrays.append(array.astype(dtype))
    return arrays


def reach_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The number of elements from the first one of a memref to its last; strides are in elements."""
    pairs = zip(shape, strides, strict=True)
    return sum((extent - 1) * stride for extent, stride in pairs if extent) + 1


def array_over(
    memory: Array, offset: int, element: str, shape: Sequence[int], strides: Sequence[int]
) -> Array:
    """A memref as an array over ``memory`` from byte ``offset`` on; raw bytes if elements share bytes.

    ``memory`` is a rank-1 array of uint8; ``strides`` count elements.
    """
    storage, dtype = storage_of(element), dtype_of(element)
    steps = tuple(stride * storage.size for stride in strides)
    raw = np.ndarray(tuple(shape), storage.raw, memory, offset, steps)
    return raw if storage.packed or dtype.itemsize != storage.raw.itemsize else raw.view(dtype)
