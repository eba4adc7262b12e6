"""Functions on arrays that a caller gives for code that a module calls but does not hold.

``extern_elementwise``, ``elementwise_inline_asm`` and ``call_elementwise_intrinsic`` hand over whole
tiles, whatever their code does for one element. Tiles go in as read-only arrays, memrefs as arrays over
their memory; a function returns an array for each result, tokens aside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.launching.value_types import TileLike
from tilewright.numerics.arrays import Array, dtype_of

Plugin = Callable[..., object]
"""Takes the operands as arrays, scalars of rank 0; gives an array for each result, or the one."""


class PluginResultError(Exception):
    """What a plugin returned does not fit the results of the operation."""


def plugin_results(name: str, found: object, types: Sequence[TileLike]) -> list[Array]:
    """What a plugin returned, as arrays of the results' types; PluginResultError where it does not fit."""
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
