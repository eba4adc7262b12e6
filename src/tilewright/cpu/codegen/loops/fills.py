"""Writes tiles to buffers: concatenated ones half by half, those with short rows as one long row."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from llvmlite import ir

from tilewright.cpu.codegen.ir.elements import I64
from tilewright.cpu.codegen.ir.types import Builder
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Joined,
    Mapped,
    Range,
    Strided,
    Tile,
    Uniform,
    is_dense,
    reshaped,
    walk,
)
from tilewright.numerics.strides import row_major

Fill = tuple[Strided, Tile]
_WITHOUT_ROWS = (Elementwise, Mapped, Joined, Range, Uniform)
"""Tiles that may be read along several axes at once, if all that they come from may."""


def side_by_side(b: Builder, pairs: Sequence[Fill], lanes: int) -> list[Fill]:
    """The same, with joined tiles taken apart, so that no element is computed that is not wanted.

    Nothing is done where the parts differ in shape, or where their rows are shorter than a vector.
    """
    found = list(pairs)
    while all(
        isinstance(tile, Joined) and tile.lhs.dims == tile.rhs.dims and type(target) is Strided
        for target, tile in found
    ):
        parts = [part for pair in found for part in _halves(b, *pair)]
        rows = max((extent for extent in parts[0][0].dims[-1:]), default=1)
        if rows < lanes or len({target.dims for target, _ in parts}) > 1:
            break
        found = parts
    return found


def _halves(b: Builder, target: Strided, tile: Tile) -> list[Fill]:
    assert isinstance(tile, Joined)
    found: list[Fill] = []
    behind = 0
    for part in (tile.lhs, tile.rhs):
        offset = ir.Constant(I64, behind * target.strides[tile.axis])
        pointer = b.gep(target.pointer, [offset], source_etype=target.element.buffer)
        half = Strided(target.element, part.dims, pointer, target.strides, target.slot)
        found.append((half, part))
        behind += part.dims[tile.axis]
    return found


def flattened(pairs: Sequence[Fill], lanes: int) -> list[Fill] | None:
    """The same as one long row, where rows are shorter than vectors and all is computed from buffers
    and from formulas; else None."""
    dims = pairs[0][1].dims
    count = prod(dims)
    if len(dims) < 2 or dims[-1] >= lanes or count < lanes or len(pairs) > 1:
        return None
    found: list[Fill] = []
    for target, tile in pairs:
        if not is_dense(target) or not all(_reads_anywhere(source) for source in walk(tile)):
            return None
        row = Mapped(tile.element, (count,), tile, reshaped(dims, (count,)))
        found.append((Strided(target.element, (count,), target.pointer, (1,), target.slot), row))
    return found


def _reads_anywhere(tile: Tile) -> bool:
    return isinstance(tile, _WITHOUT_ROWS) or (
        type(tile) is Strided and tile.strides == row_major(tile.dims)
    )
