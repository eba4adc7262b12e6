"""Which ``nv_tileaa`` operations may be removed, merged or hoisted."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation
from xdsl.traits import IsTerminator, SymbolOpInterface, is_side_effect_free, is_speculatable

from tilewright.analysis.preorder import operations
from tilewright.analysis.tileaa import Ranges, synchronises
from tilewright.analysis.tileaa.integers import width_of
from tilewright.dialects.arith import (
    ArithOp,
    Division,
    FPToSIOp,
    FPToUIOp,
    ShLIOp,
    ShRSIOp,
    ShRUIOp,
)
from tilewright.dialects.declare import DeclaredOp
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.dialects.nv_tileaa.ops.shapes import GenerateOp

#: Operations that have only the effects of their regions, and always terminate.
TRANSPARENT = (scf.ForOp, scf.IfOp, ReduceOp, ScanOp, GenerateOp)


def is_removable(op: Operation) -> bool:
    """Whether an operation may be erased or merged once its results allow it.

    True of effect-free operations, and of operations whose regions hold only such. False of
    ``scf.while``, which may be there to wait.
    """
    if op.has_trait(IsTerminator, value_if_unregistered=True) or op.has_trait(SymbolOpInterface):
        return False
    if not isinstance(op, TRANSPARENT):
        return not op.regions and is_side_effect_free(op)
    return all(
        inner is op
        or inner.has_trait(IsTerminator)
        or isinstance(inner, TRANSPARENT)
        or (not inner.regions and is_side_effect_free(inner))
        for inner in operations(op)
    )


def is_dead(op: Operation) -> bool:
    """Whether the results are unused and the operation may be erased."""
    return all(not result.uses for result in op.results) and is_removable(op)


def is_idle_load(op: Operation) -> bool:
    """Whether an operation only reads, and nothing uses the values read."""
    return isinstance(op, Load) and not synchronises(op) and not op.moved.uses


_SHIFTS = (ShLIOp, ShRSIOp, ShRUIOp)


def may_run_early(op: Operation, ranges: Ranges) -> bool:
    """Whether an operation may be executed where it was not executed before.

    Where its class says that it can be undefined behaviour, that takes a proof about the operands, which exists for
    divisions and shifts.
    """
    if op.regions or op.has_trait(IsTerminator, value_if_unregistered=True):
        return False
    if not is_side_effect_free(op) or not is_speculatable(op):
        return False
    if isinstance(op, FPToSIOp | FPToUIOp) or "overflowFlags" in op.properties:
        return False
    if isinstance(op, Division):
        divisor = ranges.of(op.operands[1])
        return divisor.low > 0
    if isinstance(op, _SHIFTS):
        width = width_of(op.results[0].type)
        amount = ranges.of(op.operands[1])
        return width is not None and amount.low >= 0 and amount.high < width
    if isinstance(op, ArithOp) or not isinstance(op, DeclaredOp) or not op.operands:
        return True
    return not op.UNDEFINED or op.UNDEFINED_AT_USE
