"""Records on each function which scheduling passes have run, so that printed IR can be compiled from where it stopped."""

from __future__ import annotations

from xdsl.dialects import builtin as b

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas.base import is_schedule_op
from tilewright.dialects.nv_tileas.types import layout_of

#: The discardable attribute of a function that names the last scheduling pass that ran on it.
LAST_PASS = "nv_tileas.done"


def record_pass(func: FuncOp, name: str) -> None:
    """Record that the pass of that name has run on a function."""
    func.attributes[LAST_PASS] = b.StringAttr(name)


def last_pass(func: FuncOp) -> str | None:
    """Return the last scheduling pass that ran on a function, or None if it is not recorded."""
    found = func.attributes.get(LAST_PASS)
    return found.data if isinstance(found, b.StringAttr) else None


def is_scheduled(func: FuncOp) -> bool:
    """Whether a function is at the level ``nv_tileas``: a scheduling pass has run on it, or it has tiles with layouts or
    operations of that level."""
    if LAST_PASS in func.attributes:
        return True
    return any(
        is_schedule_op(op) or any(layout_of(value.type) is not None for value in op.results)
        for op in func.walk()
    )
