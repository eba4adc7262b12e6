"""Shapes: what only gives elements other numbers costs nothing; broadcasts rename registers."""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.dialects.nv_tileaa import types as T
from tilewright.layouts import gf2
from tilewright.layouts.layout import axis_bits
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers


@lowers("permute")
def permute(low: ScheduledKernel, op: Operation) -> None:
    """The layouts of both sides differ as the axes do."""
    low.bind(op.results[0], low.value(op.operands[0]))


@lowers("broadcast")
def broadcast(low: ScheduledKernel, op: Operation) -> None:
    source, result = op.operands[0], op.results[0]
    given, wanted = T.dims_of(source.type), T.dims_of(result.type)
    own, layout = low.layout_of(source.type), low.layout_of(result.type)
    registers: list[int] = []
    for offset in layout.offsets:
        number = below = 0
        for axis, bits in reversed(list(enumerate(axis_bits(wanted)))):
            if given[axis] == 1:
                continue
            for bit in bits:
                number |= (offset >> bit & 1) << below
                below += 1
        register = gf2.solve(own.register, number)
        assert register is not None, "the layout of a broadcast does not fit its source"
        registers.append(register)
    low.bind(result, low.picked(low.value(source), registers))
