"""What launches accept, whichever the kernel: the dtypes of arrays, grids, and what becomes of arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.diagnostics import TileIRError
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.launching.codes import BAD_GRID
from tilewright.numerics.arrays import Array, dtype_of

__tracebackhide__ = hides_frames

#: The most blocks along an axis of the grid.
MAX_GRID_EXTENT = 2**24 - 1

#: The array dtypes that are accepted for a pointer, by its pointee.
ARRAY_DTYPES: Mapping[str, tuple[np.dtype[Any], ...]] = MappingProxyType(
    {
        "i1": (np.dtype(np.bool_),),
        **{
            f"i{bits}": (np.dtype(f"i{bits // 8}"), np.dtype(f"u{bits // 8}"))
            for bits in (8, 16, 32, 64)
        },
        **{
            name: (dtype_of(name),)
            for name in ("f16", "bf16", "f32", "tf32", "f64", "f8E4M3FN", "f8E5M2", "f8E8M0FNU")
        },
        "f8E5M3FNU": (np.dtype(np.uint8),),
        # Two elements in a byte, the first in the low bits.
        "f4E2M1FN": (np.dtype(np.uint8), np.dtype(np.int8)),
    }
)


def check_grid(grid: object, promised: tuple[int, ...] | None = None) -> tuple[int, int, int]:
    """Return the grid as three extents; missing ones are 1.

    Raises ``TileIRError`` (``bad-grid``) for an invalid grid, and for one other than ``promised``, the grid that the
    kernel was lowered for.
    """
    given = (grid,) if isinstance(grid, int | np.integer) else grid
    extents = tuple(given) if isinstance(given, Sequence) else ()
    whole = all(isinstance(e, int | np.integer) and not isinstance(e, bool) for e in extents)
    if not 1 <= len(extents) <= 3 or not whole:
        raise TileIRError.single(
            BAD_GRID, f"expected a grid of one to three integer extents, got {grid!r}"
        )
    for axis, extent in zip("xyz", extents, strict=False):
        if not 1 <= extent <= MAX_GRID_EXTENT:
            raise TileIRError.single(
                BAD_GRID,
                f"the grid extent {axis} is {extent}; expected 1 to {MAX_GRID_EXTENT}",
            )
    x, y, z = (*(int(e) for e in extents), 1, 1)[:3]
    if promised is not None and promised != (x, y, z):
        raise TileIRError.single(
            BAD_GRID,
            f"the kernel was lowered for a grid of {list(promised)}, but the grid is {[x, y, z]}",
            help="lower it without the option `grid`, or for this grid",
        )
    return x, y, z


@dataclass(frozen=True, slots=True)
class Converted:
    """Converted arguments: a value per parameter (scalars as rank-0 tiles), and the arrays by parameter number."""

    values: list[Array]
    arrays: dict[int, Array]
