"""Control flow: early exits from ``if`` and ``loop`` become results and nesting.

In ``cuda_tile`` an ``if`` may end in ``break``, ``continue`` or ``return``; in ``scf`` every region runs to its end.
The *outcome* of a region is the kind of its exit and the values that it passes. A frame lists the kinds that are
possible for a region, and so the values that encode its outcome: for all kinds but the last a flag, whether it is of
that kind, then the values of each kind in turn. The values of the other kinds are poison, which is never used.

The operations after an ``if`` with early exits only run if it falls through. If at most one branch does, they are moved
into that branch. Otherwise the ``if`` returns its outcome as results, and they are moved into a second ``if`` on the
flag. Nothing is duplicated, so the size stays linear.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial

from xdsl.dialects import scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.dialects import arith
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops import control_flow as C
from tilewright.lowering.tileaa.state import I1, Lowering, Nested
from tilewright.lowering.tileaa.table import LOWERINGS, lowers, refuse, rule_of
from tilewright.text.attribute_parser import MAX_NESTING

#: Regions around the body of a function: that of the function and that of the module.
_AROUND = 2
MAX_DEPTH = MAX_NESTING - _AROUND + 1
_TOO_DEEP = "every break, continue or return in an if adds a level to what follows it"


class Exit(IntEnum):
    """How a region can end."""

    FALL = 0
    CONTINUE = 1
    BREAK = 2
    RETURN = 3


EXIT_OF: dict[type[Operation], Exit] = {
    C.YieldOp: Exit.FALL,
    C.ContinueOp: Exit.CONTINUE,
    C.BreakOp: Exit.BREAK,
    C.ReturnOp: Exit.RETURN,
}
LOWERINGS.leave("`control_flow`", *EXIT_OF)
_FALLS = frozenset({Exit.FALL})


def find_exits(function: TileOp) -> dict[Operation, frozenset[Exit]]:
    """The exits of every ``if`` and ``loop`` of a function, without those that stay within an inner loop.

    A ``loop`` always counts as falling through, even if nothing breaks it, since what follows is then unreachable.
    """
    found: dict[Operation, frozenset[Exit]] = {}
    branching = [op for op in function.walk() if isinstance(op, C.IfOp | C.LoopOp)]
    for op in reversed(branching):
        if isinstance(op, C.LoopOp):
            inside = block_exits(op.body.blocks[0], found)
            found[op] = _FALLS | (inside & {Exit.RETURN})
        else:
            otherwise = op.else_region.blocks
            found[op] = block_exits(op.then_region.blocks[0], found) | (
                block_exits(otherwise[0], found) if otherwise else _FALLS
            )
    return found


def block_exits(block: Block, known: Mapping[Operation, frozenset[Exit]]) -> frozenset[Exit]:
    """The exits of a block, given those of the operations in it."""
    exits: set[Exit] = set()
    for op in block.ops:
        leaves = known.get(op)
        if leaves is not None:
            exits |= leaves - _FALLS
            if Exit.FALL not in leaves:
                return frozenset(exits)
    last = block.last_op
    assert last is not None
    exits.add(EXIT_OF[type(last)])
    return frozenset(exits)


@dataclass(frozen=True, slots=True)
class Frame:
    """The exits of the region being built, and how its terminator is built.

    ``kinds`` are in ascending order; ``types`` are the value types of each kind.
    """

    kinds: tuple[Exit, ...]
    types: tuple[Sequence[Attribute], ...]
    end: Callable[[Lowering, Sequence[SSAValue]], None]

    @property
    def flags(self) -> int:
        """The number of i1 flags that select the kind: one less than there are kinds."""
        return len(self.kinds) - 1

    def result_types(self) -> list[Attribute]:
        """The types of an outcome: the flags, then the values of each kind."""
        return [I1] * self.flags + [ty for types in self.types for ty in types]

    def types_for(self, kind: Exit) -> Sequence[Attribute]:
        """The value types of a kind."""
        return self.types[self.kinds.index(kind)]

    def values_for(
        self, kind: Exit, outcome: Sequence[SSAValue], flags: int | None = None
    ) -> Sequence[SSAValue]:
        """The values of a kind in an outcome that still has ``flags`` flags, by default all.

        Raises ``KeyError`` if the frame has no exit of the kind.
        """
        at = self.flags if flags is None else flags
        for other, types in zip(self.kinds, self.types, strict=True):
            if other is kind:
                return outcome[at : at + len(types)]
            at += len(types)
        raise KeyError(kind)

    def inside(self) -> Frame:
        """The same outcomes, as results of an ``scf.if``."""
        return replace(self, end=end_in_yield)

    def outcome(self, low: Lowering, kind: Exit, values: Sequence[SSAValue]) -> list[SSAValue]:
        """The outcome of an exit of this kind with these values; those of other kinds are poison."""
        found = [low.flag(kind is other) for other in self.kinds[:-1]]
        for other, types in zip(self.kinds, self.types, strict=True):
            found += values if other is kind else [low.poison(ty) for ty in types]
        return found

    def passed_on(self, low: Lowering, inner: Frame, outcome: Sequence[SSAValue]) -> list[SSAValue]:
        """Convert an outcome of ``inner`` that did not fall through to one of this frame."""
        possible = [kind for kind in inner.kinds if kind is not Exit.FALL]
        found = [_flag_of(low, kind, inner, possible, outcome) for kind in self.kinds[:-1]]
        for kind, types in zip(self.kinds, self.types, strict=True):
            if kind in possible:
                found += inner.values_for(kind, outcome)
            else:
                found += [low.poison(ty) for ty in types]
        return found


def _flag_of(
    low: Lowering,
    kind: Exit,
    inner: Frame,
    possible: Sequence[Exit],
    outcome: Sequence[SSAValue],
) -> SSAValue:
    """Whether an outcome of ``inner``, known to be one of ``possible``, is of this kind."""
    if kind not in possible or len(possible) == 1:
        return low.flag(kind in possible)
    at = inner.kinds.index(kind)
    if at < inner.flags:
        return outcome[at]
    any_other, *others = (outcome[inner.kinds.index(other)] for other in possible[:-1])
    for other in others:
        (any_other,) = low.emit(arith.OrIOp, (any_other, other), (I1,))
    return low.emit(arith.XOrIOp, (any_other, low.flag(True)), (I1,))[0]


def end_in_yield(low: Lowering, values: Sequence[SSAValue]) -> None:
    """Terminate a region of ``scf`` with these values."""
    low.emit(scf.YieldOp, values)


def end_in_condition(low: Lowering, values: Sequence[SSAValue]) -> None:
    """Terminate the first region of a while: the first flag says whether the loop continues, the rest is passed on."""
    low.emit(scf.ConditionOp, values)


@dataclass(frozen=True, slots=True)
class After:
    """The continuation of a branch: the operations after its ``if``, then ``outer``."""

    branch_of: C.IfOp
    outer: After | None


def lower_block(
    low: Lowering, block: Block, first: Operation | None, after: After | None, frame: Frame
) -> Nested:
    """Lower the operations from ``first`` on into ``block``, up to one that ends the frame.

    ``after`` is what follows where the block falls through. Raises ``TileIRError`` (``not-lowered``) if control flow
    would be nested too deep.
    """
    previous, low.block = low.block, block
    low.depth += 1
    if low.depth > MAX_DEPTH:
        raise refuse(
            low.op,
            f"its control flow would be nested more than {MAX_NESTING} levels deep",
            _TOO_DEEP,
        )
    op = first
    while True:
        assert isinstance(op, TileOp), "a block of verified IR ends in a terminator"
        low.op = op
        kind = EXIT_OF.get(type(op))
        if kind is Exit.FALL and after is not None:
            low.bind(after.branch_of.results, low.values(op.operands))
            op, after = after.branch_of.next_op, after.outer
            continue
        if kind is not None:
            frame.end(low, frame.outcome(low, kind, low.values(op.operands)))
            break
        if low.exits.get(op, _FALLS) != _FALLS:
            yield _lower_exiting(low, op, after, frame)
            break
        result = rule_of(op)(low, op)
        low.bind(op.results, (yield result) if isinstance(result, Generator) else result)
        op = op.next_op
    low.block = previous
    low.depth -= 1
    return ()


def _lower_exiting(low: Lowering, op: TileOp, after: After | None, frame: Frame) -> Nested:
    """Lower an operation with non-local exits, everything after it, and the end of the frame."""
    if isinstance(op, C.LoopOp):
        yield _returning_loop(low, op, after, frame)
        return ()
    assert isinstance(op, C.IfOp)
    branches = [region.blocks[0] if region.blocks else None for region in op.regions]
    falls = [block is None or Exit.FALL in block_exits(block, low.exits) for block in branches]
    if all(falls):
        yield _predicate_rest(low, op, after, frame)
        return ()
    blocks = (Block(), Block())
    for new, branch, may_fall in zip(blocks, branches, falls, strict=True):
        rest = After(op, after) if may_fall else None
        if branch is not None:
            yield lower_block(low, new, branch.first_op, rest, frame.inside())
        else:
            yield lower_block(low, new, op.next_op, after, frame.inside())
    low.op = op
    frame.end(low, _if(low, low.value(op.condition), frame.result_types(), blocks))
    return ()


def _predicate_rest(low: Lowering, op: C.IfOp, after: After | None, frame: Frame) -> Nested:
    """Both branches may fall through: an ``scf.if``, then a second one on its flag around what follows."""
    kinds = tuple(sorted(low.exits[op]))
    results = low.types_of(op.results)
    types = tuple(results if k is Exit.FALL else frame.types_for(k) for k in kinds)
    inner = Frame(kinds, types, end_in_yield)
    outcome = yield _lower_branches(low, op, inner)
    low.bind(op.results, inner.values_for(Exit.FALL, outcome))
    rest, otherwise = Block(), Block()
    yield lower_block(low, rest, op.next_op, after, frame.inside())
    low.op = op
    with low.building(otherwise):
        end_in_yield(low, frame.passed_on(low, inner, outcome))
    frame.end(low, _if(low, outcome[0], frame.result_types(), (rest, otherwise)))
    return ()


def _returning_loop(low: Lowering, op: C.LoopOp, after: After | None, frame: Frame) -> Nested:
    """A loop with a ``return`` in it, then an ``scf.if`` on its exit around what follows."""
    inner = _loop_frame(low, op)
    outcome = yield _lower_while(low, op, inner)
    # The loop has consumed the flag of continue; the next one is that of break.
    values_for = partial(inner.values_for, outcome=outcome, flags=1)
    low.bind(op.results, values_for(Exit.BREAK))
    rest, otherwise = Block(), Block()
    yield lower_block(low, rest, op.next_op, after, frame.inside())
    low.op = op
    with low.building(otherwise):
        end_in_yield(low, frame.outcome(low, Exit.RETURN, values_for(Exit.RETURN)))
    frame.end(low, _if(low, outcome[0], frame.result_types(), (rest, otherwise)))
    return ()


def _if(
    low: Lowering, condition: SSAValue, types: Sequence[Attribute], blocks: Sequence[Block]
) -> Sequence[SSAValue]:
    """Build an ``scf.if`` with these blocks and return its results; a single block has no else.

    Operations with regions are built after their blocks, since attaching an operation takes time proportional to its
    depth.
    """
    regions = [Region(block) for block in blocks]
    regions += [Region()] * (2 - len(regions))
    return low.emit(scf.IfOp, (condition,), types, regions=regions)


@lowers(C.IfOp)
def lower_if(low: Lowering, op: C.IfOp) -> Nested:
    """``scf.if``; exits from inside become results that say which exit was taken (docs/lowering.md)."""
    return _lower_branches(low, op, Frame((Exit.FALL,), (low.types_of(op.results),), end_in_yield))


def _lower_branches(low: Lowering, op: C.IfOp, frame: Frame) -> Nested:
    """An ``scf.if`` whose results are the outcome of the branch taken."""
    types = frame.result_types()
    blocks = [Block()]
    yield lower_block(low, blocks[0], op.then_region.blocks[0].first_op, None, frame)
    if op.else_region.blocks:
        blocks.append(Block())
        yield lower_block(low, blocks[1], op.else_region.blocks[0].first_op, None, frame)
    elif types:
        blocks.append(Block())
        low.op = op
        with low.building(blocks[1]):
            end_in_yield(low, frame.outcome(low, Exit.FALL, ()))
    low.op = op
    return _if(low, low.value(op.condition), types, blocks)


@lowers(C.ForOp)
def lower_for(low: Lowering, op: C.ForOp) -> Nested:
    """``scf.for`` with the same bounds; ``continue`` becomes its yield."""
    old = op.body.blocks[0]
    new = Block(arg_types=low.types_of(old.args))
    low.bind(old.args, new.args)
    types = low.types_of(op.results)
    yield lower_block(low, new, old.first_op, None, Frame((Exit.CONTINUE,), (types,), end_in_yield))
    low.op = op
    loop = scf.ForOp.create(
        operands=low.values((op.lowerBound, op.upperBound, op.step, *op.initValues)),
        result_types=types,
        attributes={"unsignedCmp": UnitAttr()} if op.unsignedCmp is not None else {},
        regions=[Region(new)],
    )
    return low.add(loop).results


@lowers(C.LoopOp)
def lower_loop(low: Lowering, op: C.LoopOp) -> Nested:
    """An ``scf.while``, for a loop without ``return``; its results are the values of ``break``."""
    frame = _loop_frame(low, op)
    outcome = yield _lower_while(low, op, frame)
    return frame.values_for(Exit.BREAK, outcome, flags=0)


def _loop_frame(low: Lowering, op: C.LoopOp) -> Frame:
    kinds = [Exit.CONTINUE, Exit.BREAK]
    types: list[Sequence[Attribute]] = [low.types_of(op.initValues), low.types_of(op.results)]
    if Exit.RETURN in low.exits[op]:
        kinds.append(Exit.RETURN)
        types.append(low.returned)
    return Frame(tuple(kinds), tuple(types), end_in_condition)


def _lower_while(low: Lowering, op: C.LoopOp, frame: Frame) -> Nested:
    """An ``scf.while`` with the body in its first region; its results are the last outcome without the flag of
    continue.
    """
    old = op.body.blocks[0]
    initial = low.values(op.initValues)
    before = Block(arg_types=[value.type for value in initial])
    low.bind(old.args, before.args)
    yield lower_block(low, before, old.first_op, None, frame)
    low.op = op
    passed = frame.result_types()[1:]
    step = Block(arg_types=passed)
    with low.building(step):
        going_on = frame.values_for(Exit.CONTINUE, step.args, flags=frame.flags - 1)
        end_in_yield(low, going_on)
    return low.emit(scf.WhileOp, initial, passed, regions=[Region(before), Region(step)])
