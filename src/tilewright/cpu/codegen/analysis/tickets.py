"""Numbers that a loop without a counter goes through: counted by the loop itself, or drawn from a counter in memory.

Blocks that share work draw the number of the next piece by an atomic addition. What one block draws next is most likely
what it drew last and the addend: where others draw meanwhile it is a little more. That is enough to fetch memory ahead.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tilewright.cpu.codegen.analysis.known_numbers import CASTS, known_number
from tilewright.dialects.arith import AddiOp
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa.ops.memory import AtomicRMWOp


def while_around(op: Operation) -> scf.WhileOp | None:
    """The loop without a counter of which an operation is part, or a branch in it; None outside of such loops."""
    loop = op.parent_op()
    while isinstance(loop, scf.IfOp):
        loop = loop.parent_op()
    return loop if isinstance(loop, scf.WhileOp) else None


def likely_rise(value: SSAValue, loop: scf.WhileOp) -> int:
    """By how much a number most likely rises from one iteration of a loop to the next; 0 where nothing tells."""
    value = _without_casts(value)
    for region in (loop.before_region, loop.after_region):
        block = region.block
        if value in block.args:
            known = [_step(each, value) for each in _next(loop, block.args.index(value), region)]
            return next((rise for rise in known if rise), 0)
    return 0


def _next(loop: scf.WhileOp, number: int, region: object) -> Iterator[SSAValue]:
    """What a carried number may be in the next iteration."""
    condition, end = loop.before_region.block.last_op, loop.after_region.block.last_op
    assert condition is not None and end is not None
    if region is loop.after_region:
        # The first region decides on what the second gets.
        given = condition.operands[1 + number]
        if given not in loop.before_region.block.args:
            yield from _branches(given)
            return
        number = loop.before_region.block.args.index(given)
    following = end.operands[number]
    if following in loop.after_region.block.args:
        following = condition.operands[1 + loop.after_region.block.args.index(following)]
    yield from _branches(following)


def _branches(value: SSAValue) -> Iterator[SSAValue]:
    """A value, or what the branches give that it comes from."""
    owner = value.owner
    if not isinstance(owner, scf.IfOp):
        yield value
        return
    number = owner.results.index(value)
    for region in owner.regions:
        end = region.block.last_op if region.blocks else None
        if isinstance(end, scf.YieldOp):
            yield from _branches(end.operands[number])


def _step(following: SSAValue, value: SSAValue) -> int:
    """By how much the one is more than the other, or than what another thread has drawn."""
    owner = _without_casts(following).owner
    if isinstance(owner, AtomicRMWOp) and enum_property(owner, "rmw_mode") == "add":
        return known_number(owner.value) or 0
    if isinstance(owner, AddiOp):
        for one, other in (owner.operands, reversed(owner.operands)):
            if _without_casts(one) is value:
                return known_number(other) or 0
    return 0


def _without_casts(value: SSAValue) -> SSAValue:
    while isinstance(owner := value.owner, Operation) and owner.name in CASTS:
        value = owner.operands[0]
    return value
