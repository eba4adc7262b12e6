"""Where the lanes of a vector likely lie, of addresses that no pattern describes: their formula, computed once for numbers like those
of images and matrices.

This only chooses which code looks at the addresses first; that code asks whether they lie so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from llvmlite import ir

from tilewright.cpu.codegen.loops.indices import Coords
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Elementwise, Mapped, Range, Tile, Uniform
from tilewright.numerics.arrays import Array

#: Places of the first lane, in the middle of a row: one behind each multiple of three, and of other numbers.
_PLACES = (1000, 1096, 1208)
#: What numbers are taken for that only show when the code runs: extents of several images.
_EXTENTS = (1920, 2688, 3763)
#: Scales are taken for this one.
_SCALE = 0.75


def likely_lanes(pointers: Tile, coords: Coords) -> list[list[int]] | None:
    """How many bytes each lane likely lies behind the first one, at some places; None where the formula does not tell."""
    lists: list[list[int]] = []
    for place in _PLACES:
        there = tuple(
            replace(index, base=0 if index.offsets is None else place // index.align * index.align)
            for index in coords
        )
        with np.errstate(all="ignore"):
            found = _Values().of(pointers, there)
        if found is None or found.ndim == 0 or found.dtype.kind == "b":
            return None
        lists.append([int(number) for number in found - found[0]])
    return lists


_INTEGERS: Mapping[str, Callable[..., Array]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "andi": operator.and_,
    "ori": operator.or_,
    "xori": operator.xor,
    "shli": lambda x, by: x << np.clip(by, 0, 31),
    "shri": lambda x, by: x >> np.clip(by, 0, 31),
    "divi": lambda x, by: x // np.where(by == 0, 1, by),
    "remi": lambda x, by: x % np.where(by == 0, 1, by),
}
_FLOATS: Mapping[str, Callable[..., Array]] = {
    "addf": operator.add,
    "subf": operator.sub,
    "mulf": operator.mul,
    "divf": operator.truediv,
    "fma": lambda x, y, z: x * y + z,
    "floor": np.floor,
    "ceil": np.ceil,
    "maxf": np.maximum,
    "minf": np.minimum,
    "absf": np.abs,
}
_SAME = frozenset({"exti", "trunci", "index_cast", "ftof", "itof", "bitcast"})


def _lie_apart(numbers: Array) -> bool:
    """Whether numbers are those of rows, or of planes in turn, and not of neighbours of which some are the same."""
    steps = np.diff(numbers) if numbers.ndim else numbers
    return bool((steps == 1).all() or (steps < 0).any())


def _is_unknown(tile: Tile) -> bool:
    return isinstance(tile, Uniform) and not isinstance(tile.value, ir.Constant)


def _scaled(tile: Elementwise) -> Tile | None:
    """What a quotient scales by two numbers that only show when the code runs."""
    number, by = tile.operands
    if not _is_unknown(by) or not isinstance(number, Elementwise) or number.name != "muli":
        return None
    return _strided(number)


def _strided(tile: Elementwise) -> Tile | None:
    """What a number multiplies that only shows when the code runs: a stride, which is one for the axis that neighbours lie along."""
    for number, other in (tile.operands, reversed(tile.operands)):
        if _is_unknown(number):
            return other
    return None


@dataclass(slots=True)
class _Values:
    """What elements are taken for."""

    _unknown: dict[int, Array] = field(default_factory=dict)
    _known: dict[tuple[object, ...], Array | None] = field(default_factory=dict)

    def of(self, tile: Tile, coords: Coords) -> Array | None:
        key = (id(tile), *(index.key for index in coords))
        if key not in self._known:
            self._known[key] = self._there(tile, coords)
        return self._known[key]

    def _there(self, tile: Tile, coords: Coords) -> Array | None:
        if isinstance(tile, Uniform):
            return self._number(tile)
        if isinstance(tile, Range):
            (index,) = coords
            start = tile.start.constant if isinstance(tile.start, ir.Constant) else 0
            assert isinstance(index.base, int)
            return np.asarray(index.offsets or 0) + index.base + start
        if isinstance(tile, Mapped):
            inner = tile.mapping(LoopNest(None), coords)
            return None if inner is None else self.of(tile.source, inner)
        if isinstance(tile, Elementwise):
            return self._computed(tile, coords)
        return None

    def _computed(self, tile: Elementwise, coords: Coords) -> Array | None:
        name = tile.name
        if name == "select":
            # Conditions mend numbers below zero and the like.
            return self.of(tile.operands[2], coords)
        if name in ("maxi", "mini"):
            return self._limited(tile, coords)
        if name == "muli" and (strided := _strided(tile)) is not None:
            known = self.of(strided, coords)
            return None if known is None or _lie_apart(known) else known
        if name == "divi" and (scaled := _scaled(tile)) is not None:
            known = self.of(scaled, coords)
            return None if known is None else (known * _SCALE).astype(np.int64)
        found = [self.of(operand, coords) for operand in tile.operands]
        parts = [part for part in found if part is not None]
        if len(parts) < len(found):
            return None
        if name == "offset":
            return parts[0] + parts[1] * tile.unit
        if name == "ftoi":
            return parts[0].astype(np.int64)
        if name == "itof":
            return parts[0].astype(np.float64)
        if name in _SAME:
            return parts[0]
        make = (_FLOATS if tile.element.is_float else _INTEGERS).get(name)
        return None if make is None else make(*parts)

    def _limited(self, tile: Elementwise, coords: Coords) -> Array | None:
        """A limit is likely not reached."""
        parts = [operand for operand in tile.operands if not isinstance(operand, Uniform)]
        return self.of((parts or list(tile.operands))[0], coords)

    def _number(self, tile: Uniform) -> Array:
        value = tile.value
        if isinstance(value, ir.Constant) and isinstance(value.constant, int | float):
            return np.asarray(value.constant)
        if tile.element.is_float:
            return np.asarray(_SCALE)
        if id(value) not in self._unknown:
            extent = _EXTENTS[len(self._unknown) % len(_EXTENTS)]
            self._unknown[id(value)] = np.asarray(extent)
        return self._unknown[id(value)]
