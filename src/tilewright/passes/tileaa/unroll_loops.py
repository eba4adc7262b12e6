"""``unroll-loops``: unrolls short loops with constant bounds that compute a tile element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.scf import ForOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa import synchronises
from tilewright.dialects import facts
from tilewright.dialects.arith import ConstantOp
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.passes.base import clone_with_locations, inherit_location
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.matching import constant_iterations
from tilewright.passes.tileas.remarks import Remarks

#: How many iterations a loop has at most, and how many operations all of them.
_MOST_ROUNDS = 48
_MOST_OPERATIONS = 400
#: So many iterations are unrolled however many operations follow one another in them, more only if all that do are not too many.
_FEW_ROUNDS, _DEEPEST = 8, 48


@dataclass(frozen=True)
class UnrollLoops(TileAAPass):
    """Unrolls short loops with constant bounds.

    They have up to 48 iterations and 400 operations in all, carry a tile, and contain only element-wise arithmetic and weak
    loads: loops over the taps of a filter, or the positions of a window. The tile then stays in registers from the first
    iteration to the last, and goes to memory once. In loops of more than 8 iterations no more than 48 operations in all
    wait for one another, from the tile that the first one begins with on.

    The loops inside go first, so that one over the rows of a filter follows one over its columns. Operations
    stay in the order in which they ran. Cost: one walk, and a copy of what is written out.
    """

    name: ClassVar[str] = "unroll-loops"

    def rewrite_function(self, function: FuncOp) -> None:
        unroll_loops(function, Remarks())


def short_loops(function: FuncOp) -> list[Operation]:
    """Return the innermost loops of a function that are unrolled."""
    return [op for op in function.walk() if isinstance(op, ForOp) and _rounds(op) is not None]


def unroll_loops(function: FuncOp, remarks: Remarks) -> None:
    """Unroll the short loops of a function in place, inner ones first; a remark ``loop`` tells of each."""
    for op in reversed(list(function.walk())):  # what stands inside before what is around it
        if isinstance(op, ForOp) and (rounds := _rounds(op)) is not None:
            told = f"its {len(rounds)} iterations are unrolled"
            remarks.add("loop", told, op, iterations=len(rounds))
            _write_out(op, rounds)


def _rounds(loop: ForOp) -> range | None:
    """Return the values of the induction variable, one per iteration; None if the loop stays."""
    rounds, body = constant_iterations(loop), list(loop.body.block.ops)
    if not rounds or len(rounds) > _MOST_ROUNDS or len(rounds) * len(body) > _MOST_OPERATIONS:
        return None
    carries = any(_is_long(value) for value in loop.results)
    if not carries or not all(map(is_by_elements, body[:-1])):
        return None
    deep = len(rounds) > _FEW_ROUNDS and len(rounds) * _depth(loop) > _DEEPEST
    return None if deep else rounds


def _depth(loop: ForOp) -> int:
    """Return how many operations on tiles wait for one another in an iteration, from what it is handed on."""
    depths: dict[SSAValue, int] = dict.fromkeys(loop.body.block.args[1:], 0)
    for op in loop.body.block.ops:
        known = [depths[value] for value in op.operands if value in depths]
        if known:
            deepest = max(known) + any(_is_long(value) for value in op.results)
            depths |= dict.fromkeys(op.results, deepest)
    last = loop.body.block.last_op
    handed = () if last is None else last.operands
    return max((depths.get(value, 0) for value in handed), default=0)


def _is_long(value: SSAValue) -> bool:
    return any(extent > 1 for extent in T.dims_of(value.type))


def is_by_elements(op: Operation) -> bool:
    """Whether an operation has no effects and is element-wise."""
    if op.regions:
        return False
    if isinstance(op, Load):
        return not synchronises(op)
    tiles = any(_is_long(result) for result in op.results)
    return is_side_effect_free(op) and (not tiles or facts.elements(op) is not Elements.UNKNOWN)


def _write_out(loop: ForOp, rounds: range) -> None:
    block = loop.body.block
    carried: list[SSAValue] = list(loop.iter_args)
    for number in rounds:
        counter = ConstantOp.from_value(loop.lb.type, number)
        inherit_location(counter, loop)
        Rewriter.insert_op(counter, InsertPoint.before(loop))
        values: dict[SSAValue, SSAValue] = dict(
            zip(block.args, [counter.result, *carried], strict=True)
        )
        for op in block.ops:
            if op is block.last_op:
                carried = [values.get(value, value) for value in op.operands]
                break
            copy = clone_with_locations(op, values)
            Rewriter.insert_op(copy, InsertPoint.before(loop))
    for result, value in zip(loop.results, carried, strict=True):
        result.replace_all_uses_with(value)
    Rewriter.erase_op(loop)
