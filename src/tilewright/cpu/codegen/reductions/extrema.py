"""Reductions and scans by extrema of floats, as those of integers in their order."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from tilewright.cpu.codegen.elementwise.float_keys import Keys, has_keys
from tilewright.cpu.codegen.ir.elements import element_of
from tilewright.cpu.codegen.loops.tiles import Elementwise, Tile, walk
from tilewright.cpu.target import CpuTarget
from tilewright.dialects.arith import MaximumfOp, MaxnumfOp, MinimumfOp, MinnumfOp
from tilewright.dialects.nv_tileaa.base import is_set

_LARGER, _PROPAGATING = (MaximumfOp, MaxnumfOp), (MaximumfOp, MinimumfOp)
_EXTREMA = (MaximumfOp, MaxnumfOp, MinimumfOp, MinnumfOp)


class Bits(Elementwise):
    """Elements as integers. Of those that are only read and moved, vectors hold as many as there are bits for."""

    __slots__ = ()

    @property
    def computed(self) -> tuple[Tile, ...]:
        """The sources, if something is computed of floats."""
        return self.sources if any(isinstance(t, Elementwise) for t in walk(*self.sources)) else ()


def as_keys(keys: Keys, tile: Tile) -> Tile:
    """The keys of a tile."""
    return Bits(keys.integer, tile.dims, (tile,), keys.encode)


def keys_of(ops: Sequence[Operation], target: CpuTarget) -> tuple[Keys, ...] | None:
    """The keys for a body that is one extremum for each operand; None where floats are cheaper."""
    found: list[Keys] = []
    for op in ops:
        if not isinstance(op, _EXTREMA) or is_set(op, "flush_to_zero"):
            return None
        element = element_of(op.results[0].type)
        if not has_keys(element, target):
            return None
        found.append(Keys(element, isinstance(op, _LARGER), isinstance(op, _PROPAGATING)))
    return tuple(found)
