"""Which values can hold no NaN but the canonical one.

The smaller and the larger of two numbers are, by Tile IR, the canonical NaN where there is no number. Of two
values whose NaN is canonical already, the processor's instruction gives that by itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from tilewright.dialects import facts
from tilewright.dialects.arith import SelectOp
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T

_EXTREMA = frozenset({"maxf", "minf"})
_MOVES = frozenset({Elements.RESHAPED, Elements.MOVED})


def find_canonical(ops: Iterable[Operation]) -> set[SSAValue]:
    """The values made by extrema, and by operations that only choose or move their elements. The
    operations must come in an order in which values stand before their uses."""
    found: set[SSAValue] = set()
    for op in ops:
        if facts.meaning(op) in _EXTREMA:
            found.update(op.results)
            continue
        if isinstance(op, SelectOp):
            taken = list(op.operands[1:])
        elif facts.elements(op) in _MOVES:
            taken = [v for v in op.operands if isinstance(v.type, T.TileType)]
        else:
            continue
        if taken and all(value in found for value in taken):
            found.update(op.results)
    return found
