"""Which values can hold no NaN but the canonical one, and which no signalling NaN.

By Tile IR, the minimum and maximum of two NaNs are the canonical NaN. If the operands' NaNs are canonical already, the
processor's instruction gives that by itself. For a signalling NaN and a number, however, it gives a NaN where Tile IR has
the number; arithmetic never produces a signalling NaN.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan

from xdsl.ir import Operation, OpResult, SSAValue

from tilewright.dialects import facts
from tilewright.dialects.arith import ConstantOp, SelectOp
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp, ScanOp
from tilewright.numerics import FORMATS
from tilewright.numerics.floats import bits_to_float

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


#: What rounds, and so gives no NaN that signals.
_ARITHMETIC = frozenset({"addf", "subf", "mulf", "divf", "fma", "sqrt", "itof"})
_FEW = 1024


def find_quiet(ops: Iterable[Operation]) -> set[SSAValue]:
    """The values that can hold no NaN that signals: those that arithmetic or extrema made, constants that are
    numbers, and what operations only choose or move of them. The operations must come in an order in which
    values stand before their uses, and operations before those that they hold."""
    found: set[SSAValue] = set()
    for op in ops:
        meaning = facts.meaning(op)
        if meaning in _EXTREMA:
            is_quiet = True
        elif meaning in _ARITHMETIC:
            # LLVM takes out what changes no number, such as a product by one.
            is_quiet = not any(_is_neutral(value) for value in op.operands)
        elif isinstance(op, ConstantOp):
            is_quiet = _is_number(op)
        elif isinstance(op, SelectOp):
            is_quiet = all(value in found for value in op.operands[1:])
        elif facts.elements(op) in _MOVES:
            taken = [v for v in op.operands if isinstance(v.type, T.TileType)]
            is_quiet = bool(taken) and all(value in found for value in taken)
        else:
            is_quiet = False
            if isinstance(op, ReduceOp | ScanOp) and all(value in found for value in op.operands):
                found.update(op.regions[0].block.args)
        if is_quiet:
            found.update(op.results)
    return found


def _floats(op: ConstantOp) -> set[float]:
    """The numbers of a constant; of more than a few nothing is said, nor of integers."""
    bits = op.bits()
    fmt = FORMATS.get(T.element_name(T.element_of(op.results[0].type)))
    if fmt is None or not fmt.is_float or len(bits) > _FEW:
        return set()
    return {bits_to_float(word, fmt) for word in bits}


def _is_number(op: ConstantOp) -> bool:
    return bool(found := _floats(op)) and not any(map(isnan, found))


def _is_neutral(value: SSAValue) -> bool:
    """Whether a value may be, for every element, a zero or one that arithmetic is left out with."""
    while isinstance(value, OpResult) and facts.elements(value.op) in _MOVES:
        value = value.op.operands[0]
    if not isinstance(value, OpResult) or not isinstance(value.op, ConstantOp):
        return False
    return _floats(value.op) <= {0.0, 1.0, -1.0}
