"""Shape operations: reshapes are free, broadcasts rename registers."""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.layouts.broadcasts import broadcast_registers
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers

#: Tiles without a layout are dealt to the threads in order, which fits few broadcasts.
MISFIT = "the layouts of its tiles do not match"
MISFIT_HELP = "the pipeline tileas assigns layouts"


@lowers("permute")
def permute(low: ScheduledKernel, op: Operation) -> None:
    """Binds the same registers: the layouts of both sides differ as the axes do.

    Raises ``TileIRError`` (``not-lowered-to-threads``) where they do not.
    """
    source, order = op.operands[0], int_list(op.properties["permutation"])
    if low.layout_of(source.type).permuted(T.dims_of(source.type), order) != low.layout_of(
        op.results[0].type
    ):
        raise low.refuse(MISFIT, MISFIT_HELP)
    low.bind(op.results[0], low.value(op.operands[0]))


@lowers("broadcast")
def broadcast(low: ScheduledKernel, op: Operation) -> None:
    """Picks registers.

    Raises ``TileIRError`` (``not-lowered-to-threads``) where the layouts would need an exchange, which a conversion
    makes before.
    """
    source, result = op.operands[0], op.results[0]
    given, wanted = T.dims_of(source.type), T.dims_of(result.type)
    own, layout = low.layout_of(source.type), low.layout_of(result.type)
    registers = broadcast_registers(own, layout, given, wanted)
    if registers is None:
        raise low.refuse(MISFIT, MISFIT_HELP)
    low.bind(result, low.picked(low.value(source), registers))
