"""Promises that cuTile writes though they need not hold, and on which nothing depends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dialects.cuda_tile.ops.misc import AssumeOp
from tilewright.dialects.cuda_tile.ops.views import MakeTensorViewOp
from tilewright.dialects.cuda_tile.types import DYNAMIC

if TYPE_CHECKING:
    from xdsl.ir import Use

    from tilewright.dialects.cuda_tile.ops.module import ModuleOp


def drop_unneeded_assumptions(module: ModuleOp) -> None:
    """Remove what is promised of strides along axes of one element.

    For those, cuTile promises the divisibility that suits the hardware best, whatever the stride.
    No address depends on it, but to the letter of Tile IR a broken promise is undefined behaviour,
    which the sanitizer reports.
    """
    # Promises of promises come later than what they are made of.
    for op in reversed(list(module.walk())):
        uses = list(op.result.uses) if isinstance(op, AssumeOp) else []
        if uses and all(_is_idle_stride(use) for use in uses):
            assert isinstance(op, AssumeOp)
            op.result.replace_all_uses_with(op.value)
            op.detach()
            op.erase()


def _is_idle_stride(use: Use) -> bool:
    """Whether a value is used as the stride of an axis that has one element."""
    view = use.operation
    if not isinstance(view, MakeTensorViewOp):
        return False
    position = use.index - 1 - len(view.dynamicShape)
    if position < 0:
        return False
    dynamic = [axis for axis, d in enumerate(view.view_type.stride_dims) if d == DYNAMIC]
    return view.view_type.dims[dynamic[position]] == 1
