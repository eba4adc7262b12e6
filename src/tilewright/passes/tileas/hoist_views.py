"""Hoists views out of branches and loops, for tensor maps, which describe arrays before a kernel starts.

cuTile makes the view of an access beside the access. A kernel that returns early has all but that in a branch, so that
its views are made there, though they only depend on arguments of the kernel.
"""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.shapes import BlockTileOp
from tilewright.dialects.nv_tileas.storage import at_level


def hoist_views(func: FuncOp) -> None:
    """Move each view of a memref that is made at the top of the function there, too: it has no effects, and costs
    nothing where it is not used."""
    top = func.body.block

    def is_at_top(value: SSAValue) -> bool:
        return value.owner is top or getattr(value.owner, "parent", None) is top

    for op in list(func.walk()):
        if (
            isinstance(op, BlockTileOp)
            and op.parent is not top
            and all(map(is_at_top, op.operands))
        ):
            point = InsertPoint.before(at_level(op, top))
            op.detach()
            Rewriter.insert_op(op, point)
