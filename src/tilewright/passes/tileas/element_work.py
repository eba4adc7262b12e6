"""Estimates the instructions that threads spend on tile elements outside of products."""

from __future__ import annotations

import math
from collections.abc import Iterable

from xdsl.ir import Operation

from tilewright.dialects import facts
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.memory import Load, Store
from tilewright.passes.tileas import tile_ops

#: The instructions of an elementary function at most, of f32 and below.
_FUNCTION = 6


def element_work(ops: Iterable[Operation]) -> float:
    """The instructions, each for one element, of the element-wise operations and reductions among some; without what is in
    their regions."""
    total = 0.0
    for op in ops:
        tiles = tile_ops.tiles_of((*op.operands, *op.results))
        if not tiles or isinstance(op, Load | Store):
            continue
        elements = max(math.prod(T.dims_of(tile.type)) for tile in tiles)
        if tile_ops.is_elementwise(op):
            total += elements * min(facts.cost(op), _FUNCTION)
        elif op.name == tile_ops.REDUCE:
            total += elements
    return total
