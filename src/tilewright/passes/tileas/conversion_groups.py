"""Moves layout conversions to the edges of groups of element-wise operations, where less goes through shared memory.

Tiles keep the layout in which they were loaded until they meet one of another layout, such as the sum of a product. What is
computed from two loaded tiles before it meets the sum four times is converted four times, in f32; converting the two
loaded ones, in bf16, is cheaper, even if a result has to be converted back to be stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TypeGuard

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.types import layout_of
from tilewright.layouts import Layout, plan_conversion
from tilewright.layouts.conversions import WIDEST
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.operand_layouts import operand_layouts
from tilewright.passes.tileas.schedule_builder import put_behind
from tilewright.passes.tileas.tile_layouts import retype

#: Instructions of each thread for which two barriers stand.
EXCHANGE = 40
#: What the cost of conversions must fall to.
_WORTH = 0.8


def conversion_cost(value: SSAValue, source: Layout, target: Layout) -> int:
    """What a thread does to convert a tile through shared memory, in instructions: stores, loads, and waiting for the others.
    0 for a conversion that needs none."""
    size = element_bytes(value.type)
    if plan_conversion(source, target, min(size, WIDEST)).shared_conversion is None:
        return 0
    return EXCHANGE + max((source.registers + target.registers) * size // WIDEST, 2)


def convert_groups(func: FuncOp) -> bool:
    """Let groups of element-wise operations work in the layout of those that take their results, where the conversions at their
    edges then cost less; whether that was so for one."""
    changed, stay = False, set[tuple[Operation, Layout]]()
    for op in [op for op in func.walk() if isinstance(op, S.ConvertLayoutOp)]:
        if op.parent is None or not isinstance(op.source.owner, Operation):
            continue
        own, target = layout_of(op.source.type), layout_of(op.result.type)
        if own is None or target is None or not _joins(op.source.owner, op.parent, own):
            continue
        if (op.source.owner, target) in stay or not conversion_cost(op.source, own, target):
            continue
        group = _Group(op.source.owner, own, target)
        before, after = group.costs()
        if after <= _WORTH * before:
            group.convert()
            changed = True
        else:
            stay.update((each, target) for each in group.ops)
    return changed


def _joins(op: object, block: Block, layout: Layout) -> TypeGuard[Operation]:
    return (
        isinstance(op, Operation)
        and op.parent is block
        and len(op.results) == 1
        and not op.regions
        and tile_ops.is_elementwise(op)
        and layout_of(op.results[0].type) == layout
    )


class _Group:
    """The element-wise operations of a block that are connected, all in one layout, and what another one would cost."""

    def __init__(self, first: Operation, own: Layout, target: Layout):
        self.own, self.target = own, target
        assert first.parent is not None
        self.block = first.parent
        found: set[Operation] = set()
        waiting = [first]
        while waiting:
            op = waiting.pop()
            if op in found:
                continue
            found.add(op)
            near: list[Operation | Block] = [value.owner for value in op.operands]
            near += [use.operation for use in op.results[0].uses]
            waiting += [each for each in near if _joins(each, self.block, own)]
        self._inside = found
        self.ops = [op for op in self.block.ops if op in found]

    @cached_property
    def inputs(self) -> list[SSAValue]:
        """The tiles that operations take from others."""
        values = [value for op in self.ops for value in tile_ops.tiles_of(op.operands)]
        return [value for value in dict.fromkeys(values) if value.owner not in self._inside]

    def users(self, value: SSAValue) -> Iterator[Operation]:
        """The operations outside of the group that use a value, each once."""
        found = dict.fromkeys(use.operation for use in value.uses)
        return (op for op in found if op not in self._inside)

    def costs(self) -> tuple[int, int]:
        """What the group costs in either layout: its operations, which replicated elements make more, and the conversions at
        its edges."""
        before, after = (len(self.ops) * layout.registers for layout in (self.own, self.target))
        if self.own.registers == self.target.registers:
            before = after = 0
        for value in self.inputs:
            one, other = self._of_input(value)
            before, after = before + one, after + other
        for op in self.ops:
            value, back, wanted = op.results[0], False, dict[Layout, None]()
            for user in self.users(value):
                if isinstance(user, S.ConvertLayoutOp):
                    layout = layout_of(user.result.type)
                    assert layout is not None
                    wanted[layout] = None
                else:
                    back = True
            for layout in wanted:
                before += conversion_cost(value, self.own, layout)
                after += conversion_cost(value, self.target, layout)
            if back and self.own not in wanted:
                after += conversion_cost(value, self.target, self.own)
        return before, after

    def _of_input(self, value: SSAValue) -> tuple[int, int]:
        op = value.owner
        if _is_made(op):
            return 0, 0
        if isinstance(op, S.ConvertLayoutOp):
            source = layout_of(op.source.type)
            if source is not None:
                alone = next(self.users(value), None) is None
                old = conversion_cost(value, source, self.own)
                new = conversion_cost(value, source, self.target)
                return (old, new) if alone else (0, new)
        if isinstance(op, Operation) and op.name == tile_ops.BROADCAST:
            source, wanted = op.operands[0], operand_layouts(op, self.target)
            given = layout_of(source.type)
            if 0 in wanted and given is not None:
                return 0, conversion_cost(source, given, wanted[0])
        return 0, conversion_cost(value, self.own, self.target)

    def convert(self) -> None:
        """Let the group work in the other layout."""
        made = {value: self._converted_input(value) for value in self.inputs}
        for op in self.ops:
            op.operands = [made.get(value, value) for value in op.operands]
            retype(op.results[0], self.target)
        for op in self.ops:
            self._convert_output(op)

    def _converted_input(self, value: SSAValue) -> SSAValue:
        op = value.owner
        if _is_made(op):
            assert isinstance(op, Operation)
            new = op.clone()
            put_behind(value, new)
            retype(new.results[0], self.target)
            return new.results[0]
        if isinstance(op, S.ConvertLayoutOp) and layout_of(op.source.type) is not None:
            return self._conversion(op.source, value)
        if isinstance(op, Operation) and op.name == tile_ops.BROADCAST:
            source, wanted = op.operands[0], operand_layouts(op, self.target)
            if 0 in wanted and layout_of(source.type) is not None:
                new = op.clone()
                if layout_of(source.type) != wanted[0]:
                    given = S.ConvertLayoutOp.to(source, wanted[0])
                    put_behind(value, given)
                    new.operands = [given.result]
                    Rewriter.insert_op(new, InsertPoint.after(given))
                    inherit_location(new, op)
                else:
                    put_behind(value, new)
                retype(new.results[0], self.target)
                return new.results[0]
        return self._conversion(value, value)

    def _conversion(self, source: SSAValue, value: SSAValue) -> SSAValue:
        if layout_of(source.type) == self.target:
            return source
        new = S.ConvertLayoutOp.to(source, self.target)
        put_behind(value, new)
        new.result.name_hint = value.name_hint
        return new.result

    def _convert_output(self, op: Operation) -> None:
        value, others = op.results[0], list[Operation]()
        for user in list(self.users(value)):
            if not isinstance(user, S.ConvertLayoutOp):
                others.append(user)
            elif layout_of(user.result.type) == self.target:
                user.result.replace_all_uses_with(value)
                Rewriter.erase_op(user)
        if others:
            back = S.ConvertLayoutOp.to(value, self.own)
            inherit_location(back, op)
            Rewriter.insert_op(back, InsertPoint.after(op))
            back.result.name_hint = value.name_hint
            for user in others:
                user.operands = [
                    back.result if operand is value else operand for operand in user.operands
                ]


def _is_made(op: object) -> bool:
    """Whether an operation makes a tile without others, so that threads make it in any layout."""
    return (
        isinstance(op, Operation) and tile_ops.is_source(op) and not tile_ops.tiles_of(op.operands)
    )
