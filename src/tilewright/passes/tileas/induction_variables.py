"""Rewrites counters that a loop carries as formulas in the loop's own counter.

Kernels often count tiles beside the loop::

    tile = first // extent
    for at in range(first, last, extent): load(view, tile); tile += 1

Where the next tile lies then depends on what the loop carries, so that it could not be loaded ahead. As
``tile = first // extent + (at - first) / extent`` it depends on the loop's counter alone.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from tilewright.dialects import arith
from tilewright.dialects.arith.constants import scalar_value
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.passes.tileaa.matching import integer_of
from tilewright.passes.tileas.schedule_builder import ScheduleBuilder


def close_inductions(func: FuncOp) -> None:
    """Replace each carried integer to which an iteration only adds a constant by a formula in the loop's counter.

    The formula wraps as the carried integer does. The counter's distance from its start is exact as an unsigned number,
    because a loop ends before its counter wraps; the rest is modulo two to the number's bits.
    """
    for loop in func.walk():
        if not isinstance(loop, scf.ForOp):
            continue
        step = integer_of(loop.step)
        if step is not None and step > 0:
            for number in range(len(loop.iter_args)):
                _close(loop, step, number)


def _close(loop: scf.ForOp, step: int, number: int) -> None:
    body, start = loop.body.block, loop.iter_args[number]
    counter, argument = body.args[0], body.args[number + 1]
    end, first = body.last_op, body.first_op
    if argument.type != counter.type or end is None or first is None:
        return
    following = end.operands[number].owner
    if not isinstance(following, arith.AddiOp) or following.parent is not body:
        return
    sides = [side for side in (following.lhs, following.rhs) if side is not argument]
    added = integer_of(sides[0]) if len(sides) == 1 else None
    uses = [use for use in argument.uses if use.operation is not following]
    if added is None or not uses:
        return
    build, ty = ScheduleBuilder(InsertPoint.before(first), loop), counter.type

    def constant(number: int) -> SSAValue:
        bits = number & ((1 << 64) - 1)
        width = getattr(getattr(ty, "width", None), "data", 64)
        value = scalar_value(ty, bits & ((1 << width) - 1))
        made = arith.ConstantOp.create(result_types=(ty,), properties={"value": value})
        return build.add(made).results[0]

    turns = build.one(arith.SubiOp, (counter, loop.lb), ty)
    if step != 1:
        turns = build.one(arith.DivUIOp, (turns, constant(step)), ty)
    if added != 1:
        turns = build.one(arith.MuliOp, (turns, constant(added)), ty)
    value = build.one(arith.AddiOp, (start, turns), ty)
    value.name_hint = argument.name_hint
    for use in uses:
        use.operation.operands[use.index] = value
