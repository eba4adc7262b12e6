"""Grid queries, and taking over tile blocks that have not started."""

from __future__ import annotations

import numpy as np

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.ops import queues
from tilewright.machine.compile import Step, SwitchPoint, Translator, implements
from tilewright.machine.faults import Fault
from tilewright.machine.tileaa.faults import INVALID_PROGRAM_ID
from tilewright.machine.values import Registers


@implements(queues.GetProgramIdOp)
def _get_program_id(op: queues.GetProgramIdOp, t: Translator) -> Step | None:
    axis = int_property(op, "axis")
    if op.program_id is None:
        t.block_slots.append((t.slot(op.result), axis))
        return None
    source, result = t.slot(op.program_id), t.slot(op.result)

    def step(regs: Registers) -> None:
        block = regs[source]
        if block is None:
            raise Fault(
                INVALID_PROGRAM_ID, "no work was taken over, so it has no position in the grid"
            )
        regs[result] = np.array(block[axis], np.int32)

    return step


@implements(queues.GetNumProgramsOp)
def _get_num_programs(op: queues.GetNumProgramsOp, t: Translator) -> None:
    t.grid_slots.append((t.slot(op.result), int_property(op, "axis")))


@implements(queues.CancelNextProgramIdOp)
def _cancel_next_program_id(op: queues.CancelNextProgramIdOp, t: Translator) -> SwitchPoint:
    """Takes over the block that would start next."""
    result, machine = t.slot(op.result), t.machine

    def step(regs: Registers) -> None:
        regs[result] = machine.take_over()

    return SwitchPoint(step)


@implements(queues.IsValidProgramIdOp)
def _is_valid_program_id(op: queues.IsValidProgramIdOp, t: Translator) -> Step:
    source, result = t.slot(op.program_id), t.slot(op.result)

    def step(regs: Registers) -> None:
        regs[result] = np.array(regs[source] is not None)

    return step
