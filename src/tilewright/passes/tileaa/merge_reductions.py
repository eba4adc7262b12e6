"""``merge-reductions``: fuses several reductions over tiles of one shape into one operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa import synchronises
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp, YieldOp
from tilewright.dialects.nv_tileaa.ops.memory import Atomic, Load, Store
from tilewright.passes.base import blocks_below, inherit_location
from tilewright.passes.tileaa.base import TileAAPass

_MOST = 8


@dataclass(frozen=True)
class MergeReductions(TileAAPass):
    """Merges reductions over tiles of one shape along one axis into one reduction of several values.

    A single loop then reads what all the tiles are computed from. Each merged reduction must combine
    two elements by one operation.

    The merged reduction takes the position of the last one, and users of the earlier results move
    after it. Only effect-free operations, loads, and, after the last load, weak stores and atomics
    may therefore stand between two merged reductions. No load or reduction may use an earlier
    result. Each value is still combined by its own operation in the same element order, so results
    are identical, and effects keep their order. Cost: one walk, plus the users of each reduction.
    """

    name: ClassVar[str] = "merge-reductions"

    def rewrite_function(self, function: FuncOp) -> None:
        merge_reductions(function)


def mergeable(function: FuncOp) -> list[Operation]:
    """Return the reductions of a function that will be merged with others."""
    return [op for group in _groups(function) for op in group.members]


def merge_reductions(function: FuncOp) -> None:
    """Merge the reductions of a function in place, those that ``mergeable`` names, keeping the order of each one's
    elements.
    """
    for group in _groups(function):
        _merge(group.members)
        previous = group.members[-1]
        made = previous.prev_op
        assert made is not None
        _replace(group.members, made)
        for op in group.behind:
            op.detach()
            Rewriter.insert_op(op, InsertPoint.after(made))
            made = op


@dataclass(slots=True)
class _Group:
    """Reductions to be merged. ``behind`` are the operations between them that move after the last
    one; ``waiting`` are those that will, if another member is found."""

    members: list[ReduceOp] = field(default_factory=list)
    behind: list[Operation] = field(default_factory=list)
    waiting: list[Operation] = field(default_factory=list)
    results: set[SSAValue] = field(default_factory=set)
    """The results of the reductions, and everything computed from them."""
    stores: bool = False

    def takes(self, op: ReduceOp) -> bool:
        """Add a reduction to the group if it fits. Returns whether it did."""
        if self.members and (
            self._uses(op) or len(self.members) == _MOST or not _alike(self.members[0], op)
        ):
            return False
        self.members.append(op)
        self.results.update(op.results)
        self.behind += self.waiting
        self.waiting = []
        return True

    def passes(self, op: Operation) -> bool:
        """Whether the group can continue past an operation."""
        if op.regions:
            return False
        if isinstance(op, Load):
            return not self.stores and not self._uses(op)
        writes = isinstance(op, Store | Atomic)
        self.stores |= writes
        if writes or (is_side_effect_free(op) and self._uses(op)):
            self.waiting.append(op)
            self.results.update(op.results)
            return not writes or isinstance(op, Atomic) or not synchronises(op)
        return is_side_effect_free(op)

    def _uses(self, op: Operation) -> bool:
        return any(operand in self.results for operand in op.operands)


def _groups(function: FuncOp) -> list[_Group]:
    found: list[_Group] = []
    for block in blocks_below(function):
        found += _groups_in(block)
    return [group for group in found if len(group.members) > 1]


def _groups_in(block: Block) -> list[_Group]:
    groups = [_Group()]
    for op in block.ops:
        if isinstance(op, ReduceOp) and _is_simple(op):
            if not groups[-1].takes(op):
                groups.append(_Group())
                groups[-1].takes(op)
        elif groups[-1].members and not groups[-1].passes(op):
            groups.append(_Group())
    return groups


def _is_simple(op: ReduceOp) -> bool:
    """Whether a reduction has one operand and combines its two elements by one operation."""
    if len(op.results) != 1 or "atom" in op.properties:
        return False
    block = op.regions[0].blocks[0]
    inner: list[Operation] = list(block.ops)
    return (
        len(inner) == 2
        and set(inner[0].operands) == set(block.args)
        and list(inner[1].operands) == list(inner[0].results)
    )


def _alike(one: ReduceOp, other: ReduceOp) -> bool:
    shapes = [T.dims_of(op.operands[0].type) for op in (one, other)]
    axes = [int_property(op, "axis") for op in (one, other)]
    return shapes[0] == shapes[1] and axes[0] == axes[1]


def _merge(group: Sequence[ReduceOp]) -> None:
    last = group[-1]
    blocks = [op.regions[0].blocks[0] for op in group]
    body = Block(arg_types=[argument.type for block in blocks for argument in block.args])
    yielded: list[SSAValue] = []
    for number, block in enumerate(blocks):
        for place, argument in enumerate(tuple(block.args)):
            argument.replace_all_uses_with(body.args[2 * number + place])
        combine, end = block.ops
        yielded += end.operands
        Rewriter.erase_op(end)
        combine.detach()
        body.add_op(combine)
    body.add_op(YieldOp.create(operands=yielded))
    identities = [value for op in group for value in op.identities.data]
    made = ReduceOp.create(
        operands=[op.operands[0] for op in group],
        result_types=[op.results[0].type for op in group],
        properties={**last.properties, "identities": ArrayAttr(identities)},
        regions=[Region([body])],
    )
    inherit_location(made, last)
    Rewriter.insert_op(made, InsertPoint.before(last))


def _replace(group: Sequence[ReduceOp], made: Operation) -> None:
    for op, result in zip(group, made.results, strict=True):
        result.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(result)
    for op in group:
        Rewriter.erase_op(op)
