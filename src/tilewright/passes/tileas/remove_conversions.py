"""``tileas-remove-conversions``: a tile that would change its layout through shared memory is computed again in the
layout that is wanted, down to what is loaded, where that costs less.

An exchange lets all threads meet twice. Numbers of rows or pages, of which there are few, each thread had better
load for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.analysis.tileaa import Facts
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.types import layout_of, with_layout
from tilewright.layouts import Layout, plan_conversion
from tilewright.layouts.conversions import WIDEST
from tilewright.passes.base import inherit_place
from tilewright.passes.tileas import kinds
from tilewright.passes.tileas.access_layouts import access_shape, element_bytes
from tilewright.passes.tileas.assign_layouts import goes_by_element, operand_layouts, retype
from tilewright.passes.tileas.cleaning import erase_unused
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.remarks import Remarks

#: Instructions of each thread for which two barriers stand, and for which a load stands: its address, and its wait.
_EXCHANGE, _LOAD = 40, 4
#: The bytes of a tile that may be loaded again, in a layout in which it does not come as whole sectors.
_FEW_BYTES = 2048
#: The operations that are computed again at most.
_MOST = 16


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
        again = _Again(facts, made)
        if again.find(op.source, layout) and again.cost <= _cost_of_exchange(op):
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
    return plan_conversion(source, target, size).exchange is not None


def _cost_of_exchange(op: S.ConvertLayoutOp) -> int:
    """What a thread does for it: stores, loads, and waiting for the others."""
    size = element_bytes(op.source.type)
    layouts = (layout_of(value.type) for value in (op.source, op.result))
    moved = sum(layout.registers for layout in layouts if layout is not None)
    return _EXCHANGE + max(moved * size // WIDEST, 2)


class _Again:
    """What a value is computed from, as far as it has to be computed again in another layout: ``order`` lists the
    operations, each behind those that it needs; ``cost`` in instructions of a thread. ``made``: what was computed
    again before, by value and layout."""

    def __init__(self, facts: Facts, made: dict[tuple[SSAValue, Layout], SSAValue]):
        self.facts, self._made = facts, made
        self.cost = 0
        self.order: list[Operation] = []
        self._seen: dict[SSAValue, Layout] = {}

    def find(self, value: SSAValue, layout: Layout) -> bool:
        """Whether a value can be had in a layout without shared memory."""
        own = layout_of(value.type)
        if own is None or not kinds.is_tile(value) or value in self._seen:
            return not kinds.is_tile(value) or self._seen.get(value) == layout
        if own == layout or (value, layout) in self._made:
            return True
        self._seen[value] = layout
        op = value.owner
        size = min(element_bytes(value.type), WIDEST)
        if plan_conversion(own, layout, size).exchange is None:
            self.cost += layout.registers
            return True
        if not isinstance(op, Operation) or op.regions or len(self.order) >= _MOST:
            return False
        if isinstance(op, S.ConvertLayoutOp):
            return self.find(op.source, layout)
        wanted = self._operands(op, value, layout)
        if wanted is None:
            return False
        found = all(self.find(op.operands[position], each) for position, each in wanted.items())
        self.order.append(op)
        return found

    def _operands(self, op: Operation, value: SSAValue, layout: Layout) -> dict[int, Layout] | None:
        """The layouts in which an operation takes tiles to give its result in one; None where it cannot."""
        if isinstance(op, Load):
            if value is not op.moved or goes_by_element(op):
                return None
            if prod(T.dims_of(value.type)) * element_bytes(value.type) > _FEW_BYTES:
                return None
            shape = access_shape(self.facts, op)
            width = min(shape.known, layout.run(T.dims_of(value.type), shape.axis))
            self.cost += _LOAD * layout.registers // max(width, 1)
            tiles = [n for n, operand in enumerate(op.operands) if kinds.is_tile(operand)]
            return dict.fromkeys(tiles, layout)
        if len(op.results) != 1 or not _keeps_layouts(op):
            return None
        self.cost += 0 if op.name in kinds.RESHAPES else layout.registers
        return operand_layouts(op, layout)

    def make(self, value: SSAValue, layout: Layout) -> SSAValue:
        """The value in the layout, for which it was found."""
        if not kinds.is_tile(value) or layout_of(value.type) == layout:
            return value
        if (value, layout) in self._made:
            return self._made[value, layout]
        op = value.owner
        if isinstance(op, S.ConvertLayoutOp) and op not in self.order:
            made = self.make(op.source, layout)
        elif isinstance(op, Operation) and op in self.order:
            made = self._copy(op, value, layout)
        else:
            made = _converted(value, layout)
        self._made[value, layout] = made
        return made

    def _copy(self, op: Operation, value: SSAValue, layout: Layout) -> SSAValue:
        wanted = operand_layouts(op, layout)
        if isinstance(op, Load):
            tiles = [n for n, operand in enumerate(op.operands) if kinds.is_tile(operand)]
            wanted = dict.fromkeys(tiles, layout)
        new = op.clone({})
        for position, each in wanted.items():
            new.operands[position] = self.make(op.operands[position], each)
        inherit_place(new, op)
        Rewriter.insert_op(new, InsertPoint.after(op))
        made = new.results[list(op.results).index(value)]  # pyright: ignore[reportArgumentType]
        retype(made, layout)
        made.name_hint = value.name_hint
        return made


def _keeps_layouts(op: Operation) -> bool:
    """Whether the layouts of an operation's operands follow from that of its result."""
    moves = op.name in (kinds.BROADCAST, kinds.PERMUTE, *kinds.RESHAPES)
    return moves or kinds.is_source(op) or kinds.is_elementwise(op)


def _converted(value: SSAValue, layout: Layout) -> SSAValue:
    """A value in a layout in which threads can have it without shared memory."""
    new = S.ConvertLayoutOp.create(
        operands=(value,), result_types=(with_layout(value.type, layout),)
    )
    owner = value.owner
    if isinstance(owner, Operation):
        inherit_place(new, owner)
        Rewriter.insert_op(new, InsertPoint.after(owner))
    else:
        parent = owner.parent_op()
        if parent is not None:
            inherit_place(new, parent)
        Rewriter.insert_op(new, InsertPoint.at_start(owner))
    return new.results[0]
