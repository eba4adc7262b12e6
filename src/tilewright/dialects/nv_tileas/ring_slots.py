"""Who takes the places of a ring: each side of a pipeline takes every place once.

A place is a value that is an iterator. It is taken by an acquire or a wait, or where it goes on under another name, as the
argument of a loop or the result of a branch, by what takes that. ``inc_iter`` makes another place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue, Use


@dataclass(frozen=True, slots=True)
class _Side:
    """The producers, or the consumers, of pipelines: what takes the place that is its iterator."""

    kind: type[Operation]

    def takes(self, use: Use) -> bool:
        """Whether a use of an iterator takes its place, by itself or in what it becomes."""
        return isinstance(use.operation, self.kind) or any(
            self._is_taken(value, {value}) for value in _becomes(use)
        )

    def _is_taken(self, value: SSAValue, seen: set[SSAValue]) -> bool:
        for use in value.uses:
            if isinstance(use.operation, self.kind):
                return True
            for other in _becomes(use):
                if other not in seen:
                    seen.add(other)
                    if self._is_taken(other, seen):
                        return True
        return False


def _becomes(use: Use) -> tuple[SSAValue, ...]:
    """The values that an iterator is called where it is used: arguments and results of loops and branches."""
    op, index = use.operation, use.index
    if isinstance(op, scf.ForOp):
        return _either(op.body.block.args, index - 2, op.results, index - 3)
    if isinstance(op, scf.WhileOp):
        return (op.before_region.block.args[index],)
    outer = op.parent_op()
    if isinstance(op, scf.ConditionOp) and isinstance(outer, scf.WhileOp):
        return _either(outer.after_region.block.args, index - 1, outer.results, index - 1)
    if not isinstance(op, scf.YieldOp):
        return ()
    if isinstance(outer, scf.ForOp):
        return _either(outer.body.block.args, index + 1, outer.results, index)
    if isinstance(outer, scf.WhileOp):
        return (outer.before_region.block.args[index],)
    return (outer.results[index],) if isinstance(outer, scf.IfOp) else ()


def _either(
    arguments: tuple[BlockArgument, ...] | list[BlockArgument],
    argument: int,
    results: tuple[OpResult, ...] | list[OpResult],
    result: int,
) -> tuple[SSAValue, ...]:
    """The argument of a loop and its result of these numbers."""
    if argument < 1 or result < 0:  # a bound of the loop
        return ()
    return arguments[argument], results[result]


def taken_twice(take: Operation, iterator: SSAValue) -> Operation | None:
    """What else takes, on some path, the place that an acquire or wait takes; the operation itself where it is
    repeated with the same place. Of two the later one is told."""
    side = _Side(type(take))
    order = _order(take)
    for value, own in _named(iterator, take):
        if (loop := _repeated(value, own)) is not None:
            return loop
        for use in value.uses:
            other = use.operation
            if other is own or not side.takes(use) or _exclude(own, other):
                continue
            goes_on = isinstance(other, scf.YieldOp | scf.ConditionOp)
            if goes_on or order[other] < order[own]:
                return other
    return None


def is_passed_over(iterator: SSAValue, behind: SSAValue, kind: type[Operation]) -> bool:
    """Whether the side of acquires, or of waits, takes the place behind another one, and never this."""
    side = _Side(kind)
    return any(map(side.takes, behind.uses)) and not any(map(side.takes, iterator.uses))


def _order(op: Operation) -> dict[Operation, int]:
    """The operations of the function that an operation stands in, numbered as in the text."""
    outer = op
    while (above := outer.parent_op()) is not None and above.parent_op() is not None:
        outer = above
    return {inner: number for number, inner in enumerate(outer.walk())}


def _named(iterator: SSAValue, take: Operation) -> Iterator[tuple[SSAValue, Operation]]:
    """The names that a place had before it is taken, each with the operation by which it goes on."""
    seen: set[SSAValue] = set()
    pending: list[tuple[SSAValue, Operation]] = [(iterator, take)]
    while pending:
        value, own = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value, own
        block = value.owner if isinstance(value, BlockArgument) else None
        if isinstance(block, Block) and isinstance(loop := block.parent_op(), scf.ForOp):
            assert isinstance(value, BlockArgument)
            pending.append((loop.operands[value.index + 2], loop))


def _repeated(value: SSAValue, own: Operation) -> Operation | None:
    """The loop that repeats what takes a place, which is made outside of it."""
    made = value.owner if isinstance(value.owner, Block) else value.owner.parent
    block = own.parent
    while block is not None and block is not made:
        outer = block.parent_op()
        if isinstance(outer, scf.ForOp | scf.WhileOp):
            return outer
        block = None if outer is None else outer.parent
    return None


def _exclude(one: Operation, other: Operation) -> bool:
    """Whether no path may have two operations: they stand in the two branches of a choice, or each in one of a
    choice of its own, whose conditions may be opposite, as where a loop of no iterations is gone round."""
    above = list(_regions(one))
    outer = [op for op, _ in above]
    choices = 0
    for op, region in _regions(other):
        if op not in outer:
            choices |= isinstance(op, scf.IfOp)
            continue
        place = outer.index(op)
        if isinstance(op, scf.IfOp) and above[place][1] is not region:
            return True
        return bool(choices) and any(isinstance(inner, scf.IfOp) for inner in outer[:place])
    return False


def _regions(op: Operation) -> Iterator[tuple[Operation, object]]:
    """The operations around one, the innermost first, each with the region that it stands in."""
    while (outer := op.parent_op()) is not None:
        yield outer, op.parent_region()
        op = outer
