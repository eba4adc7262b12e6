"""``tileas-remove-conversions``: a tile that would change its layout through shared memory is computed again in the
layout that is wanted, down to what is loaded, where that costs less.

An exchange lets all threads meet twice. Numbers of rows or pages, of which there are few, each thread had better
load for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import SSAValue

from tilewright.analysis.tileaa import Facts
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.types import layout_of
from tilewright.layouts import Layout, plan_conversion
from tilewright.layouts.conversions import WIDEST
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.again import Again
from tilewright.passes.tileas.cleaning import erase_unused
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.remarks import Remarks

#: Instructions of each thread for which two barriers stand.
_EXCHANGE = 40


@dataclass(frozen=True)
class RemoveConversions(FunctionPass):
    """Computes tiles in the layouts that are wanted, where that costs less than to convert them."""

    name: ClassVar[str] = "tileas-remove-conversions"

    def rewrite_function(self, func: FuncOp) -> None:
        remove_conversions(func)


def remove_conversions(func: FuncOp, remarks: Remarks | None = None) -> None:
    """Let no tile of a function go through shared memory that can be had in another way for less; what still does is
    told."""
    remarks = Remarks() if remarks is None else remarks
    facts = Facts(func)
    made: dict[tuple[SSAValue, Layout], SSAValue] = {}
    for op in list(func.walk()):
        if not isinstance(op, S.ConvertLayoutOp) or not _is_exchanged(op):
            continue
        layout = layout_of(op.result.type)
        assert layout is not None
        again = Again(facts, made)
        if again.find(op.source, layout) and again.cost <= _cost_of_shared_conversion(op):
            op.result.replace_all_uses_with(again.make(op.source, layout))
            continue
        name = op.source.name_hint or "a tile"
        shape = "x".join(map(str, T.dims_of(op.source.type)))
        remarks.add("layout", f"'{name}' ({shape}) changes its layout through shared memory", op)
    if made:
        erase_unused(list(func.walk()))


def _is_exchanged(op: S.ConvertLayoutOp) -> bool:
    source, target = layout_of(op.source.type), layout_of(op.result.type)
    if source is None or target is None:
        return False
    size = min(element_bytes(op.source.type), WIDEST)
    return plan_conversion(source, target, size).shared_conversion is not None


def _cost_of_shared_conversion(op: S.ConvertLayoutOp) -> int:
    """What a thread does for it: stores, loads, and waiting for the others."""
    size = element_bytes(op.source.type)
    layouts = (layout_of(value.type) for value in (op.source, op.result))
    moved = sum(layout.registers for layout in layouts if layout is not None)
    return _EXCHANGE + max(moved * size // WIDEST, 2)
