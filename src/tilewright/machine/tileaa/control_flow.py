"""Control flow by ``scf``: every region runs to its end."""

from __future__ import annotations

import numpy as np
from xdsl.dialects import scf, ub
from xdsl.dialects.builtin import UnitAttr

from tilewright.dialects.nv_tileaa.types import MemTokenType
from tilewright.launching.value_types import tile_like
from tilewright.machine.compile import (
    BREAK,
    Coroutine,
    Nested,
    Scope,
    Signal,
    Step,
    Translator,
    implements,
)
from tilewright.machine.fused_blocks import called
from tilewright.machine.ops.control_flow import copy_slots, for_step, if_step
from tilewright.machine.ops.reductions import CONSTANTS
from tilewright.machine.values import TOKEN, Registers
from tilewright.numerics.arrays import dtype_of


@implements(scf.IfOp)
def _if(op: scf.IfOp, t: Translator) -> Step | Nested:
    return if_step(op, t)


@implements(scf.ForOp)
def _for(op: scf.ForOp, t: Translator) -> Step | Nested:
    unsigned = isinstance(op.attributes.get("unsignedCmp"), UnitAttr)
    return for_step(op, t, unsigned=unsigned)


@implements(scf.YieldOp)
def _yield(op: scf.YieldOp, t: Translator) -> Step | None:
    if not op.operands:
        return None
    in_branch = isinstance(op.parent_op(), scf.IfOp)
    targets = t.yields[-1].results if in_branch else t.loops[-1].carried
    return copy_slots(t.flow(op.operands), targets)


@implements(scf.ConditionOp)
def _condition(op: scf.ConditionOp, t: Translator) -> Step:
    loop = op.parent_op()
    assert isinstance(loop, scf.WhileOp)
    flag, passed = t.slot(op.operands[0]), t.flow(op.operands[1:])
    go_on = called(copy_slots(passed, t.flow(loop.after_region.block.args)))
    end = called(copy_slots(passed, t.loops[-1].results))

    def step(regs: Registers) -> Signal:
        if regs[flag]:
            go_on(regs)
            return None
        end(regs)
        return BREAK

    return step


@implements(scf.WhileOp)
def _while(op: scf.WhileOp, t: Translator) -> Step | Nested:
    carried = t.flow(op.before_region.block.args)
    enter = called(copy_slots(t.flow(op.operands), carried))
    machine = t.machine
    t.loops.append(Scope(results=t.flow(op.results), carried=carried))
    before, after = t.block(op.before_region.block), t.block(op.after_region.block)
    t.loops.pop()

    def step(regs: Registers) -> Signal:
        enter(regs)
        for _ in machine.iterations(range(machine.max_iterations)):
            if before.run(regs) == BREAK:
                return None
            after.run(regs)
        raise machine.endless_loop()

    def start(regs: Registers) -> Coroutine:
        enter(regs)
        for _ in machine.iterations(range(machine.max_iterations)):
            signal = (yield from before.start(regs)) if before.suspends else before.run(regs)
            if signal == BREAK:
                return None
            if after.suspends:
                yield from after.start(regs)
            else:
                after.run(regs)
        raise machine.endless_loop()

    return Nested(start) if before.suspends or after.suspends else step


@implements(ub.PoisonOp)
def _poison(op: ub.PoisonOp, t: Translator) -> None:
    """Zero, for a value that must not be read."""
    ty = tile_like(op.result.type)
    if ty is not None:
        t.preset(op.result, np.zeros(ty.dims, dtype_of(ty.element)))
    elif isinstance(op.result.type, MemTokenType):
        t.preset(op.result, TOKEN)


CONSTANTS.add(ub.PoisonOp)
