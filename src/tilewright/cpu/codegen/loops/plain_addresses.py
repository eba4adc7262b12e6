"""Addresses where no number wraps and no limit is reached: sums in 64 bits.

Kernels compute indices in 32 bits, extend them, and keep them inside an array by limits. Code that is run where all of that is
known to change nothing adds in 64 bits from the start: what changes from vector to vector is then one register, and the rest of
an address a constant beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import ELEMENTS, I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.tiles import Elementwise, Mapped, Range, Tile, Uniform

_I64 = ELEMENTS["i64"]
_ADDS: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "addi": lambda b, x, y: b.add(x, y),
    "subi": lambda b, x, y: b.sub(x, y),
    "muli": lambda b, x, y: b.mul(x, y),
}


@dataclass(slots=True)
class PlainAddresses:
    """Tiles of addresses as they are in the code of a nest. ``settled``: the tiles of numbers, by ``id``, that lose nothing when
    they are extended; ``instead``: what a tile is there, which has the same numbers."""

    settled: set[int] = field(default_factory=set[int])
    instead: dict[int, Tile] = field(default_factory=dict[int, Tile])
    _same: dict[int, Tile] = field(default_factory=dict[int, Tile])
    _wide: dict[int, Tile] = field(default_factory=dict[int, Tile])
    _kept: list[Tile] = field(default_factory=list[Tile])

    def of(self, tile: Tile) -> Tile:
        """A tile of the same numbers."""
        found = self._same.get(id(tile))
        if found is None:
            found = self._same[id(tile)] = self._computed(tile)
            self._kept.append(tile)
        return found

    def _computed(self, tile: Tile) -> Tile:
        if id(tile) in self.instead:
            return self.of(self.instead[id(tile)])
        if isinstance(tile, Mapped):
            source = self.of(tile.source)
            return tile if source is tile.source else replace(tile, source=source)
        if not isinstance(tile, Elementwise):
            return tile
        if tile.name == "exti" and id(tile.operands[0]) in self.settled:
            if tile.element.name == _I64.name:
                return self._widened(tile.operands[0])
            return tile
        operands = tuple(self.of(each) for each in tile.operands)
        if tile.name == "offset" and id(tile.operands[1]) in self.settled:
            operands = operands[0], self._widened(tile.operands[1])
        if all(x is y for x, y in zip(operands, tile.operands, strict=True)):
            return tile
        return _like(tile, operands)

    def _widened(self, tile: Tile) -> Tile:
        """The numbers of a settled tile in 64 bits."""
        found = self._wide.get(id(tile))
        if found is None:
            found = self._wide[id(tile)] = self._computed_widely(tile)
            self._kept.append(tile)
        return found

    def _computed_widely(self, tile: Tile) -> Tile:
        if id(tile) in self.instead:
            return self._widened(self.instead[id(tile)])
        if isinstance(tile, Mapped):
            return Mapped(_I64, tile.dims, self._widened(tile.source), tile.mapping, tile.along)
        if isinstance(tile, Range):
            places = Range(_I64, tile.dims, ir.Constant(I64, 0))
            start = Uniform(tile.element, tile.dims, tile.start)
            return _sum(tile, (places, _extended(start)), "addi")
        if isinstance(tile, Elementwise) and tile.name in _ADDS:
            return _sum(tile, tuple(self._widened(each) for each in tile.operands), tile.name)
        if (
            isinstance(tile, Elementwise)
            and tile.name == "exti"
            and id(tile.operands[0]) in self.settled
        ):
            return self._widened(tile.operands[0])
        return _extended(self.of(tile))


def _sum(tile: Tile, operands: tuple[Tile, ...], name: str) -> Tile:
    return Elementwise(_I64, tile.dims, operands, _ADDS[name], name)


def _like(tile: Elementwise, operands: tuple[Tile, ...]) -> Tile:
    return Elementwise(tile.element, tile.dims, operands, tile.emit, tile.name, tile.unit)


def _extended(tile: Tile) -> Tile:
    if tile.element.register == I64:
        return tile

    def extend(b: Builder, number: Value) -> Value:
        return b.sext(number, llvm.shaped(I64, number.type))

    return Elementwise(_I64, tile.dims, (tile,), extend)
