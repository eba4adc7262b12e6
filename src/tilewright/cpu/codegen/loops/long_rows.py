"""Tiles whose rows are shorter than a vector, such as pairs and pixels, as tiles with long rows.

The last two axes become one. Loads whose rows follow one another in memory are then loads of long rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.tiles import Elementwise, Mapped, Tile, Uniform, reshaped

#: What is told of accesses that are made so.
REMARK = "short rows that follow one another in memory are accessed as long ones"


@dataclass(slots=True)
class LongRows:
    """Tiles of one shape with rows that are shorter than so many lanes, as tiles with long rows."""

    builder: Builder
    lanes: int
    conditions: list[Value] = field(default_factory=list)
    """Where all hold, the tiles that were made can be read."""
    _made: dict[int, Tile] = field(default_factory=dict)

    def of(self, tile: Tile) -> Tile:
        """The same elements; those of tiles that do not follow one another in memory one by one, where that has to be."""
        if id(tile) not in self._made:
            self._made[id(tile)] = self._make(tile)
        return self._made[id(tile)]

    def _make(self, tile: Tile) -> Tile:
        dims = _long(tile.dims)
        if type(tile) is Elementwise:
            operands = tuple(self.of(operand) for operand in tile.operands)
            return replace(tile, dims=dims, operands=operands)
        if isinstance(tile, Uniform):
            return replace(tile, dims=dims)
        joined = tile.rows_as_one(self.builder, self.lanes)
        if joined is None:
            return Mapped(tile.element, dims, tile, reshaped(tile.dims, dims))
        found, condition = joined
        if condition is not None:
            self.conditions.append(condition)
        return found


def _long(dims: Sequence[int]) -> tuple[int, ...]:
    *outer, height, width = dims
    return (*outer, height * width)
