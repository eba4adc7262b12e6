"""Writes tiles to buffers: concatenated ones half by half, those with short rows as one long row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    if len(dims) < 2 or dims[-1] >= lanes or count < lanes:
        return None
    found: list[Fill] = []
    for target, tile in pairs:
        if not is_dense(target) or not all(_reads_anywhere(source) for source in walk(tile)):
            return None
        row = Mapped(tile.element, (count,), tile, reshaped(dims, (count,)))
        found.append((Strided(target.element, (count,), target.pointer, (1,), target.slot), row))
    return found


def as_before(pair: Fill, lanes: int) -> Fill | None:
    """The same in the shape that a tile had before it was reshaped to rows shorter than vectors, if it was; else None."""
    target, tile = pair
    if not is_dense(target) or not tile.dims or tile.dims[-1] >= lanes:
        return None
    found = _before(tile, {})
    if found is None or not found.dims or found.dims[-1] <= tile.dims[-1]:
        return None
    strides = row_major(found.dims)
    return Strided(target.element, found.dims, target.pointer, strides, target.slot), found


def _before(tile: Tile, known: dict[int, Tile | None]) -> Tile | None:
    """A tile, and what it is computed from, before a reshape; None where it is of something else, too."""
    if id(tile) not in known:
        known[id(tile)] = None
        if isinstance(tile, Mapped) and tile.mapping is reshaped(tile.source.dims, tile.dims):
            known[id(tile)] = _before(tile.source, known) or tile.source
        elif type(tile) is Elementwise:
            known[id(tile)] = _computed_before(tile, known)
    return known[id(tile)]


def _computed_before(tile: Elementwise, known: dict[int, Tile | None]) -> Tile | None:
    numbers = [isinstance(each, Uniform) for each in tile.operands]
    found = [_before(each, known) for each in tile.operands]
    shapes = {each.dims for each in found if each is not None}
    if len(shapes) != 1 or not all(
        each or number for each, number in zip(found, numbers, strict=True)
    ):
        return None
    (dims,) = shapes
    operands = tuple(
        replace(own, dims=dims) if each is None else each
        for each, own in zip(found, tile.operands, strict=True)
    )
    return Elementwise(tile.element, dims, operands, tile.emit, tile.name, tile.unit)


def _reads_anywhere(tile: Tile) -> bool:
    return isinstance(tile, _WITHOUT_ROWS) or (
        type(tile) is Strided and tile.strides == row_major(tile.dims)
    )
