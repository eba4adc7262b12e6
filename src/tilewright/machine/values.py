"""Representation of register values.

Tiles are NumPy arrays in the dtypes of ``numerics.arrays``, rank 0 included; pointers are uint64. They are immutable, and may
share memory with one another, but never with the memory that a kernel accesses. A tile view holds the same value as the
tensor view under it: everything else about it is in its type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class TensorView:
    """A base address, and extents and strides in elements, all read unsigned."""

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Token:
    """An ordering edge: operations take effect in the order of the text, so it carries nothing."""

    def __repr__(self) -> str:
        return "TOKEN"


TOKEN: Final = _Token()

Registers = list[Any]
"""The values of one tile block by slot; slot ``ARENA`` holds its live alloca memory."""

ARENA = 0
