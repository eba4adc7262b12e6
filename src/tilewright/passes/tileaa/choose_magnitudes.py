"""``choose-magnitudes``: magnitudes that say where accesses go become one of two numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects import arith
from tilewright.dialects.arith.base import ArithOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.pointers import AddPtrOp
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.matching import REPEATING


@dataclass(frozen=True)
class ChooseMagnitudes(TileAAPass):
    """Rewrites ``absi(x)`` to ``select(x < 0, 0 - x, x)`` where pointers are computed of it.

    Rows that are mirrored at their ends are read at ``abs(i)``. Which of the two numbers is chosen is the same for all places but those at the end,
    and a choice is what the analysis of addresses knows.

    Proof. ``absi`` gives that number; of the smallest one, which has no negation, both give itself. Cost: one walk, and one of what depends on
    magnitudes.
    """

    name: ClassVar[str] = "choose-magnitudes"

    def rewrite_function(self, function: FuncOp) -> None:
        choose_magnitudes(function)


def magnitudes(function: FuncOp) -> list[Operation]:
    """Return the magnitudes of tiles of which pointers are computed."""
    reaching: set[SSAValue] = set()
    found: list[Operation] = []
    for op in reversed(list(function.walk())):
        if isinstance(op, AddPtrOp):
            reaching.add(op.offset)
        elif isinstance(op, (ArithOp, *REPEATING)) and op.results[0] in reaching:
            reaching.update(op.operands)
            if isinstance(op, arith.AbsIOp) and T.dims_of(op.result.type):
                found.append(op)
    return found[::-1]


def choose_magnitudes(function: FuncOp) -> None:
    """Rewrite the operations that ``magnitudes`` names in place."""
    less = IntegerAttr(arith.CmpiOp.NAMES.index("slt"), i64)
    for op in magnitudes(function):
        (source,) = op.operands
        zero = _insert(arith.ConstantOp.from_value(source.type, 0), op)
        negative = _insert(arith.CmpiOp.of(source, zero, predicate=less), op)
        negated = _insert(arith.SubiOp.of(zero, source), op)
        chosen = arith.SelectOp.create(
            operands=[negative, negated, source], result_types=[source.type]
        )
        made = _insert(chosen, op)
        made.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(made)
        Rewriter.erase_op(op)


def _insert(made: Operation, before: Operation) -> SSAValue:
    inherit_location(made, before)
    Rewriter.insert_op(made, InsertPoint.before(before))
    return made.results[0]
