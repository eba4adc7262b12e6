"""Canonical forms of ``if``, one law per function.

Notation: ``if c {A} else {B}``. An *exit* is a break, continue or return.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from tilewright.dialects.cuda_tile.ops.control_flow import IfOp, YieldOp
from tilewright.dialects.cuda_tile.ops.core import BroadcastOp, ReshapeOp, SelectOp
from tilewright.dialects.cuda_tile.ops.integer import AndIOp
from tilewright.dialects.cuda_tile.types import TensorViewType, TileType, TileViewType
from tilewright.passes.base import erase_from, inherit_location, insert_before, set_operand
from tilewright.passes.effects import EXITS
from tilewright.passes.matching import (
    branches,
    constant_bool,
    is_defined_in,
    is_empty_branch,
    is_only_terminator,
    make_negation,
    negated,
    terminator,
    yielded,
)


def inline_branch(op: IfOp, branch: Block | None, rewriter: PatternRewriter) -> None:
    """Replace an ``if`` by the operations of one of its branches.

    If the branch ends in an exit, everything after the ``if`` is unreachable and is erased.
    """
    if branch is None:
        rewriter.erase(op)
        return
    values = yielded(branch)
    if values is None:
        erase_from(rewriter, op.next_op)
    else:
        for result, value in zip(op.results, values, strict=True):
            rewriter.replace_all_uses_with(result, value)
        rewriter.erase(terminator(branch))
    moved = list(branch.ops)
    rewriter.inline_block(branch, InsertPoint.before(op))
    for inner in moved:
        rewriter.notify_op_modified(inner)
    rewriter.erase(op)


def constant_condition(op: IfOp, rewriter: PatternRewriter) -> None:
    """``if true {A} else {B} = A`` and ``if false {A} else {B} = B``.

    If the taken branch ends in an exit, everything after it is erased.
    """
    condition = constant_bool(op.condition)
    if condition is not None:
        inline_branch(op, branches(op)[0 if condition else 1], rewriter)


def empty_else(op: IfOp, rewriter: PatternRewriter) -> None:
    """``if c {A} else {} = if c {A}``"""
    other = branches(op)[1]
    if other is not None and is_empty_branch(other):
        rewriter.erase(terminator(other))
        op.regions[1].erase_block(other)
        rewriter.notify_op_modified(op)


def negated_condition(op: IfOp, rewriter: PatternRewriter) -> None:
    """``if xori(c, true) {A} else {B} = if c {B} else {A}``. Requires an else."""
    condition = negated(op.condition)
    if condition is None or branches(op)[1] is None:
        return
    op.regions = (op.regions[1], op.regions[0])
    set_operand(rewriter, op, 0, condition)


def boolean_results(op: IfOp, rewriter: PatternRewriter) -> None:
    """``if c {.. yield true} else {.. yield false} = c``; with the values swapped,
    ``xori(c, true)``."""
    then, other = branches(op)
    on_true, on_false = yielded(then), yielded(other)
    if on_true is None or on_false is None:
        return
    for result, first, second in zip(op.results, on_true, on_false, strict=True):
        if not result.uses or result.type != op.condition.type:
            continue
        known = (constant_bool(first), constant_bool(second))
        if known == (True, False):
            rewriter.replace_all_uses_with(result, op.condition)
        elif known == (False, True):
            true, xor = make_negation(op.condition)
            insert_before(rewriter, op, true, xor)
            rewriter.replace_all_uses_with(result, xor.result)


def outer_values(op: IfOp, rewriter: PatternRewriter) -> None:
    """``%r, %s = if c {.. yield a, x} else {.. yield b, y}`` makes ``%r = select(c, a, b)`` for tiles
    ``a`` and ``b`` defined outside the ``if``.

    ``x`` and ``y`` may be anything. For a ranked tile the condition is reshaped to 1x..x1 and
    broadcast. An ``if`` left with nothing to do is erased; unused results are removed by another rule.
    """
    then, other = branches(op)
    on_true, on_false = yielded(then), yielded(other)
    if then is None or other is None or on_true is None or on_false is None:
        return
    conditions: dict[tuple[int, ...], SSAValue] = {}
    for result, first, second in zip(op.results, on_true, on_false, strict=True):
        ty = result.type
        # select does not take f4E2M1FN tiles.
        if not result.uses or not isinstance(ty, TileType) or ty.element == "f4E2M1FN":
            continue
        if is_defined_in(first, then) or is_defined_in(second, other):
            continue
        if ty.dims not in conditions:
            conditions[ty.dims] = _spread_condition(op, ty, rewriter)
        select = SelectOp.create(operands=[conditions[ty.dims], first, second], result_types=[ty])
        insert_before(rewriter, op, select)
        rewriter.replace_all_uses_with(result, select.result)
    used = any(result.uses for result in op.results)
    if not used and is_only_terminator(then) and is_only_terminator(other):
        rewriter.erase(op)


def _spread_condition(op: IfOp, ty: TileType, rewriter: PatternRewriter) -> SSAValue:
    """Return the condition of an ``if`` in the shape of a tile type."""
    if not ty.rank:
        return op.condition
    scalar = op.condition.type
    assert isinstance(scalar, TileType)
    ones = scalar.with_shape((1,) * ty.rank)
    reshape = ReshapeOp.create(operands=[op.condition], result_types=[ones])
    broadcast = BroadcastOp.create(
        operands=[reshape.result], result_types=[scalar.with_shape(ty.dims)]
    )
    insert_before(rewriter, op, reshape, broadcast)
    return broadcast.result


def one_branch_leaves(op: IfOp, rewriter: PatternRewriter) -> None:
    """``%r = if c {.. exit} else {.. yield v}`` makes ``%r = v`` if ``v`` is defined outside.

    Only the yielding branch continues past the ``if``.
    """
    then, other = branches(op)
    on_true, on_false = yielded(then), yielded(other)
    if (on_true is None) == (on_false is None):
        return
    stays, values = (then, on_true) if on_false is None else (other, on_false)
    assert stays is not None and values is not None
    for result, value in zip(op.results, values, strict=True):
        if result.uses and not is_defined_in(value, stays):
            rewriter.replace_all_uses_with(result, value)


def unused_results(op: IfOp, rewriter: PatternRewriter) -> None:
    """Remove unused results and the operands that the branches yield for them."""
    kept = [index for index, result in enumerate(op.results) if result.uses]
    if len(kept) == len(op.results):
        return
    for block in branches(op):
        if block is not None and isinstance(last := terminator(block), YieldOp):
            dropped = [v.owner for v in last.operands]
            last.operands = [last.operands[index] for index in kept]
            for owner in (last, *dropped):
                if isinstance(owner, Operation):
                    rewriter.notify_op_modified(owner)
    new = _rebuilt(op, [op.results[index].type for index in kept], _take_regions(op))
    results: list[SSAValue | None] = [None] * len(op.results)
    for position, index in enumerate(kept):
        results[index] = new.results[position]
    rewriter.replace(op, new, results)


def _take_regions(op: IfOp) -> list[Region]:
    """Detach the regions of an ``if`` that is about to be erased, for use in another one."""
    regions = list(op.regions)
    for region in regions:
        region.parent = None
    op.regions = (Region(), Region())
    for region in op.regions:
        region.parent = op
    return regions


def _rebuilt(
    old: IfOp,
    types: Sequence[Attribute],
    regions: Sequence[Region],
    condition: SSAValue | None = None,
    attributes: dict[str, Attribute] | None = None,
) -> IfOp:
    """Return a new ``if`` at the location of ``old``, with its condition and attributes unless
    others are given."""
    new = IfOp.create(
        operands=[old.condition if condition is None else condition],
        result_types=types,
        regions=regions,
        attributes=dict(old.attributes if attributes is None else attributes),
    )
    inherit_location(new, old)
    return new


def both_branches_leave(op: IfOp, rewriter: PatternRewriter) -> None:
    """``if c {.. exit a} else {.. exit b}; rest = %r = if c {.. yield a} else {.. yield b}; exit %r``

    Requires exits of one kind. ``rest`` is unreachable and is erased.
    """
    then, other = branches(op)
    if then is None or other is None:
        return
    first, second = terminator(then), terminator(other)
    if not isinstance(first, EXITS) or type(first) is not type(second):
        return
    types = [v.type for v in first.operands]
    # An if cannot return views, but a function can.
    if any(isinstance(ty, TensorViewType | TileViewType) for ty in types):
        return
    erase_from(rewriter, op.next_op)
    for last in (first, second):
        _replace_terminator(last, YieldOp.create(operands=list(last.operands)), rewriter)
    exit_op = type(first).create(attributes=dict(first.attributes))
    inherit_location(exit_op, first)
    new = _rebuilt(op, types, _take_regions(op))
    exit_op.operands = new.results
    rewriter.insert(new, InsertPoint.before(op))
    rewriter.insert(exit_op, InsertPoint.after(op))
    rewriter.erase(op)


def _replace_terminator(old: Operation, new: Operation, rewriter: PatternRewriter) -> None:
    insert_before(rewriter, old, new)
    rewriter.erase(old)


def adjacent_on_same_condition(op: IfOp, rewriter: PatternRewriter) -> None:
    """``if c {A} else {B}; if c {C} else {D} = if c {A; C} else {B; D}``.

    Also applies if one condition is the negation of the other, with C and D swapped. If A ends in
    an exit, C is dropped.
    """
    previous = op.prev_op
    if not isinstance(previous, IfOp):
        return
    earlier = branches(previous)
    if op.condition is previous.condition:
        later = branches(op)
    elif negated(op.condition) is previous.condition or negated(previous.condition) is op.condition:
        later = branches(op)[::-1]
    else:
        return
    if all(block is not None and yielded(block) is None for block in earlier):
        return
    regions = [
        Region() if block is None else Region(block)
        for block in (
            _joined(previous, first, second, rewriter)
            for first, second in zip(earlier, later, strict=True)
        )
    ]
    types = [r.type for r in (*previous.results, *op.results)]
    attributes = {**op.attributes, **previous.attributes}
    new = _rebuilt(previous, types, regions, attributes=attributes)
    rewriter.insert(new, InsertPoint.before(previous))
    for old, result in zip((*previous.results, *op.results), new.results, strict=True):
        rewriter.replace_all_uses_with(old, result)
    rewriter.erase(op)
    rewriter.erase(previous)
    if new.next_op is not None:
        rewriter.notify_op_modified(new.next_op)


def _joined(
    previous: IfOp, first: Block | None, second: Block | None, rewriter: PatternRewriter
) -> Block | None:
    """Return a detached block with the operations of both branches, yielding what both yield."""
    if first is None or second is None:
        block = second if first is None else first
        if block is not None:
            _detach(block)
        return block
    _detach(first)
    values = yielded(first)
    if values is None:
        return first
    for result, value in zip(previous.results, values, strict=True):
        rewriter.replace_uses_with_if(
            result, value, lambda use: second.find_ancestor_op_in_block(use.operation) is not None
        )
    rewriter.erase(terminator(first))
    last = terminator(second)
    if isinstance(last, YieldOp):
        last.operands = (*values, *last.operands)
    for inner in list(second.ops):
        inner.detach()
        first.add_op(inner)
    return first


def _detach(block: Block) -> None:
    assert block.parent is not None
    block.parent.detach_block(block)


def nested(op: IfOp, rewriter: PatternRewriter) -> None:
    """``if a { if b {A} } = if (andi a, b) {A}``, without results and else."""
    then, other = branches(op)
    if then is None or other is not None or op.results or yielded(then) is None:
        return
    inner = then.first_op
    if not isinstance(inner, IfOp) or inner.next_op is not then.last_op:
        return
    if inner.results or branches(inner)[1] is not None:
        return
    both = AndIOp.create(operands=[op.condition, inner.condition], result_types=[op.condition.type])
    insert_before(rewriter, op, both)
    attributes = {**inner.attributes, **op.attributes}
    new = _rebuilt(op, [], _take_regions(inner), both.result, attributes)
    rewriter.insert(new, InsertPoint.before(op))
    rewriter.erase(op)
    for neighbour in (new, new.next_op):
        if neighbour is not None:
            rewriter.notify_op_modified(neighbour)


#: In the order in which they are tried.
IF_RULES = (
    constant_condition,
    empty_else,
    negated_condition,
    boolean_results,
    outer_values,
    one_branch_leaves,
    unused_results,
    both_branches_leave,
    adjacent_on_same_condition,
    nested,
)
