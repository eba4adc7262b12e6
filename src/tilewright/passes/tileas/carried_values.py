"""Threads a value that a loop modifies through the enclosing loops and branches, as loop-carried values and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas.schedule_builder import carrying

#: What values can be carried through.
Around: TypeAlias = scf.ForOp | scf.IfOp | scf.WhileOp


def ops_around(op: Operation) -> list[Around] | None:
    """The loops and branches between an operation and its function, the innermost first; None where something else is
    there."""
    found: list[Around] = []
    parent = op.parent_op()
    while isinstance(parent, Around):
        found.append(parent)
        parent = parent.parent_op()
    return found if isinstance(parent, FuncOp) else None


def carry_through(
    around: Around, given: Sequence[SSAValue], ends: Sequence[SSAValue]
) -> list[SSAValue]:
    """Let an operation carry values: ``given`` is what what is in it begins with, ``ends`` what that leaves. What it has at
    last."""
    if isinstance(around, scf.ForOp):
        end = _pass_on(around.body.block, given, ends)
        assert end is not None
        new: Operation = carrying(around, given)
    elif isinstance(around, scf.WhileOp):
        new = _through_while(around, given, ends)
    else:
        new = _through_branch(around, given, ends)
    return list(new.results[len(new.results) - len(given) :])


def _pass_on(block: Block, given: Sequence[SSAValue], ends: Sequence[SSAValue]) -> Operation:
    """Give a block arguments in the place of ``given``, and its end more operands; the end."""
    for value in given:
        argument = block.insert_arg(value.type, len(block.args))
        value.replace_all_uses_with(argument)
    end = block.last_op
    assert end is not None
    end.operands = [*end.operands, *ends]
    return end


def _through_while(
    loop: scf.WhileOp, given: Sequence[SSAValue], ends: Sequence[SSAValue]
) -> Operation:
    before, after = loop.before_region.block, loop.after_region.block
    inside, other = (before, after) if _is_in(ends[0], before) else (after, before)
    _pass_on(inside, given, ends)
    arguments = [other.insert_arg(value.type, len(other.args)) for value in given]
    end = other.last_op
    assert end is not None
    end.operands = [*end.operands, *arguments]
    return with_results(loop, [*loop.operands, *given], loop.results, given)


def _through_branch(
    branch: scf.IfOp, given: Sequence[SSAValue], ends: Sequence[SSAValue]
) -> Operation:
    if not branch.false_region.blocks:
        branch.false_region.add_block(Block([scf.YieldOp.create()]))
    for region in (branch.true_region, branch.false_region):
        end = region.block.last_op
        assert end is not None
        end.operands = [*end.operands, *(ends if _is_in(ends[0], region.block) else given)]
    return with_results(branch, branch.operands, branch.results, given)


def with_results(
    op: Around,
    operands: Sequence[SSAValue],
    kept: Sequence[SSAValue],
    more: Sequence[SSAValue] = (),
) -> Operation:
    """Put in the place of a loop or branch one with the same regions that has those results that are ``kept``, and further
    ones of the types of some values. Nothing may use the results that go."""
    regions: list[Region] = []
    for region in list(op.regions):
        op.detach_region(region)
        regions.append(region)
    new = type(op).create(
        operands=operands,
        result_types=[value.type for value in (*kept, *more)],
        attributes=op.attributes,
        properties=op.properties,
        regions=regions,
    )
    inherit_location(new, op)
    Rewriter.insert_op(new, InsertPoint.before(op))
    for old, result in zip(kept, new.results, strict=False):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    op.detach()
    op.erase()
    return new


def _is_in(value: SSAValue, block: Block) -> bool:
    """Whether a value is made in a block itself."""
    owner = value.owner
    return (owner if isinstance(owner, Block) else owner.parent) is block
