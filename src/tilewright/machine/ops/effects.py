"""Printing and assertions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from tilewright.dialects.cuda_tile.ops import control_flow, misc
from tilewright.launching.assertions import (
    MAX_SHOWN_FAILURES,
    AssertionFailure,
    OperationSource,
)
from tilewright.launching.printing import format_tiles, parse_format
from tilewright.machine.compile import Step, Translator, implements, tile_type
from tilewright.machine.ops.comparisons import comparison_of
from tilewright.machine.values import TOKEN, Registers


@implements(misc.PrintTkoOp)
def _print(op: misc.PrintTkoOp, t: Translator) -> Step:
    t.preset(op.result_token, TOKEN)
    return print_step(t, op.format, op.args)


def print_step(t: Translator, text: str, values: Sequence[SSAValue]) -> Step:
    """Prints tiles by a format."""
    pieces = parse_format(text)
    slots = t.slots(values)
    elements = [tile_type(value).element for value in values]
    machine = t.machine

    def step(regs: Registers) -> None:
        machine.emit(format_tiles(pieces, [regs[slot] for slot in slots], elements))

    return step


@implements(control_flow.AssertOp)
def _assert(op: control_flow.AssertOp, t: Translator) -> Step:
    return assert_step(op, t, op.condition)


def assert_step(op: Operation, t: Translator, value: SSAValue) -> Step:
    """Records each false element of a condition, with the operation's message."""
    condition = t.slot(value)
    message = op.properties["message"]
    assert isinstance(message, StringAttr)
    machine, source = t.machine, OperationSource.of(op)
    compared = comparison_of(value, t)

    def step(regs: Registers) -> None:
        holds = regs[condition]
        if not holds.all():
            # argwhere behaves differently for arrays of rank 0.
            where: list[list[int]] = np.argwhere(~holds).tolist() if holds.ndim else [[]]
            for index in map(tuple, where):
                # All failures are counted, but only the first ones are shown.
                is_shown = len(machine.failures) < MAX_SHOWN_FAILURES
                said = compared(regs, index) if compared and is_shown else ""
                machine.failures.append(
                    AssertionFailure(message.data, index, machine.block, source, said)
                )

    return step
