"""Printing and assertions."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import StringAttr

from tilewright.dialects.cuda_tile.ops import control_flow, misc
from tilewright.machine.compile import Step, Translator, implements, tile_type
from tilewright.machine.printing import format_tiles, parse_format
from tilewright.machine.state import AssertionFailure
from tilewright.machine.values import TOKEN, Registers


@implements(misc.PrintTkoOp)
def print_(op: misc.PrintTkoOp, t: Translator) -> Step:
    pieces = parse_format(op.format)
    slots = t.slots(op.args)
    elements = [tile_type(value).element for value in op.args]
    machine = t.machine
    t.preset(op.result_token, TOKEN)

    def step(regs: Registers) -> None:
        machine.emit(format_tiles(pieces, [regs[slot] for slot in slots], elements))

    return step


@implements(control_flow.AssertOp)
def assert_(op: control_flow.AssertOp, t: Translator) -> Step:
    condition = t.slot(op.condition)
    message = op.properties["message"]
    assert isinstance(message, StringAttr)
    machine = t.machine

    def step(regs: Registers) -> None:
        holds = regs[condition]
        if not holds.all():
            # argwhere of a rank-0 array is not defined the way it is for others.
            where = np.argwhere(~holds).tolist() if holds.ndim else [[]]
            machine.failures.extend(
                AssertionFailure(message.data, tuple(index), machine.block, op) for index in where
            )

    return step
