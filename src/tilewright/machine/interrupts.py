"""In which loop a run was when an outside exception ended it, such as KeyboardInterrupt on Ctrl-C."""

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
    """Note in an exception which loop, and which tile block, the run was in; nothing outside of loops.

    A plain run keeps no record of where it is. The frames that the exception has passed know it.
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
