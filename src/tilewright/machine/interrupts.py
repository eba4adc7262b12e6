"""Determines the loop in which an outside exception, such as KeyboardInterrupt, ended a run."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation

from tilewright.dialects.cuda_tile.ops.control_flow import ForOp, LoopOp
from tilewright.launching.assertions import OperationSource
from tilewright.launching.time_limits import stopped_here
from tilewright.machine.fused_blocks import OP_AT
from tilewright.machine.schedules import BlockId

_LOOPS = (ForOp, LoopOp, scf.ForOp, scf.WhileOp)


def note_loop(error: BaseException, block: BlockId) -> None:
    """Add to an exception the loop and tile block in which the run was; nothing outside of loops.

    A plain run does not record its position. It is recovered from the exception's traceback.
    """
    loop: Operation | None = None
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        op_at = frame.f_globals.get(OP_AT)
        op = frame.f_locals.get("op") if op_at is None else op_at(traceback.tb_lineno)
        if isinstance(op, _LOOPS):
            loop = op
        traceback = traceback.tb_next
    if loop is not None:
        error.add_note(stopped_here(OperationSource.of(loop), f"tile block {block}"))
