"""Representation of register values.

Tiles are NumPy arrays in the dtypes of ``numerics.arrays``, including rank 0; pointers are uint64. They are
immutable, and may share memory with one another, but never with memory that a kernel accesses. A tile view is
represented by its tensor view; everything else about it is in its type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class TensorView:
    """A base address, with extents and strides in elements, all unsigned."""

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Token:
    """The value of every token. Operations take effect in program order, so a token carries nothing."""

    def __repr__(self) -> str:
        return "TOKEN"


TOKEN: Final = _Token()

Registers = list[Any]
"""The values of one tile block by slot; slot ``ARENA`` holds its live alloca memory."""

ARENA = 0
