"""``hoist-masks``: what a loop does not change of the masks of its accesses is computed before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects.arith import AndIOp, ArithOp, ConstantOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import shapes as O
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import LoadOp, StoreOp
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.matching import constant_iterations

_LOOPS = (scf.ForOp, scf.WhileOp)
_SHAPES = (O.SplatOp, O.BroadcastOp, O.ExpandDimsOp, O.ViewOp, O.MakeRangeOp)
_MEANINGS = frozenset(
    {
        "addi",
        "subi",
        "muli",
        "exti",
        "trunci",
        "cmpi",
        "andi",
        "ori",
        "xori",
        "maxi",
        "mini",
        "select",
    }
)
_QUOTIENTS = frozenset({"divi", "remi"})
#: From how many operations on a mask is worth it: fewer take no longer than reading what they gave.
_FEWEST = 4
#: A loop of which fewer iterations are known asks too seldom.
_FEWEST_ROUNDS = 8


@dataclass(frozen=True)
class HoistMasks(TileAAPass):
    """Moves what a loop does not change of the masks of its accesses to before the loop.

    A mask that is the conjunction of several is split into those that change in the loop and the others, which are put together
    before it. Only arithmetic on integers moves, and divisions by constants other than 0: nothing that may be undefined where
    the loop does not run. A quotient stays if it tells, too, where an access goes. The order of conjunction changes, the mask does not. Cost: one walk for each loop.
    """

    name: ClassVar[str] = "hoist-masks"

    def rewrite_function(self, function: FuncOp) -> None:
        hoist_masks(function)


def hoistable(function: FuncOp) -> list[Operation]:
    """The accesses of which a part of the mask moves out of a loop."""
    return [access for access, _, _ in _found(function)]


def hoist_masks(function: FuncOp) -> None:
    """Move parts of masks out of the loops of a function, in place: out of all loops that do not change them."""
    made: dict[tuple[object, ...], SSAValue] = {}
    for access, loop, steady in _found(function):
        _hoist(access, loop, steady, made)


def _found(function: FuncOp) -> list[tuple[LoadOp | StoreOp, Operation, list[SSAValue]]]:
    found: list[tuple[LoadOp | StoreOp, Operation, list[SSAValue]]] = []
    for op in function.walk():
        if isinstance(op, LoadOp | StoreOp) and op.mask is not None:
            parts = _conjuncts(op.mask)
            for loop in _loops_around(op):
                steady = [part for part in parts if _moves(part, loop)]
                inside = {each for part in steady for each in _inside(part, loop)}
                if len(inside) >= _FEWEST and any(_is_long(part) for part in steady):
                    found.append((op, loop, steady))
                    break
    return found


def _loops_around(op: Operation) -> list[Operation]:
    """The loops that repeat an operation more than a few times, the outermost first."""
    found: list[Operation] = []
    parent = op.parent_op()
    while isinstance(parent, (*_LOOPS, scf.IfOp)):
        if isinstance(parent, _LOOPS) and not _is_short(parent):
            found.insert(0, parent)
        parent = parent.parent_op()
    return found


def _is_short(loop: Operation) -> bool:
    rounds = constant_iterations(loop) if isinstance(loop, scf.ForOp) else None
    return rounds is not None and len(rounds) < _FEWEST_ROUNDS


def _is_long(value: SSAValue) -> bool:
    return isinstance(value.type, T.TileType) and any(
        extent > 1 for extent in T.dims_of(value.type)
    )


def _conjuncts(mask: SSAValue) -> list[SSAValue]:
    """The masks of which one is the conjunction, in their order."""
    found: list[SSAValue] = []
    pending, seen = [mask], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, AndIOp):
            pending += reversed(value.owner.operands)
        else:
            found.append(value)
    return found


def _is_inside(op: Operation | Block, loop: Operation) -> bool:
    home = op if isinstance(op, Block) else op.parent
    return home is not None and loop.is_ancestor(home)


def _inside(value: SSAValue, loop: Operation) -> list[Operation]:
    """What a value is computed by in a loop, operands first."""
    found: dict[Operation, None] = {}

    def visit(value: SSAValue) -> None:
        owner = value.owner
        if isinstance(owner, Operation) and owner not in found and _is_inside(owner, loop):
            for operand in owner.operands:
                visit(operand)
            found[owner] = None

    visit(value)
    return list(found)


def _moves(value: SSAValue, loop: Operation) -> bool:
    """Whether a value may be computed before a loop: nothing that it depends on is known only inside, or undefined."""
    pending, seen = [value], {value}
    inside: set[Operation] = set()
    while pending:
        owner = pending.pop().owner
        if not _is_inside(owner, loop):
            continue
        if not isinstance(owner, Operation) or not _may_move(owner):
            return False
        inside.add(owner)
        new = [operand for operand in owner.operands if operand not in seen]
        seen.update(new)
        pending += new
    return not any(_leaves(op, inside) for op in inside if _is_quotient(op))


def _is_quotient(op: Operation) -> bool:
    return isinstance(op, ArithOp) and op.MEANING in _QUOTIENTS


def _leaves(op: Operation, inside: set[Operation]) -> bool:
    """Whether a number that an operation gives, or what becomes of it, is read by others than some."""
    pending, seen = [op], {op}
    while pending:
        for result in pending.pop().results:
            if T.element_name(T.element_of(result.type)) == "i1":
                continue
            users = {use.operation for use in result.uses}
            if not users <= inside:
                return True
            pending += users - seen
            seen |= users
    return False


def _may_move(op: Operation) -> bool:
    if isinstance(op, (ConstantOp, *_SHAPES)):
        return True
    if not isinstance(op, ArithOp) or "overflowFlags" in op.properties:
        return False
    if op.MEANING in _QUOTIENTS:
        by = op.operands[1].owner
        while isinstance(by, _SHAPES) and by.operands:
            by = by.operands[0].owner
        return isinstance(by, ConstantOp) and min(by.bits()) > 0 and max(by.bits()) < 1 << 7
    return op.MEANING in _MEANINGS


def _hoist(
    access: LoadOp | StoreOp,
    loop: Operation,
    steady: list[SSAValue],
    made: dict[tuple[object, ...], SSAValue],
) -> None:
    """Move a part of a mask; ``made``: what has been put together before loops."""
    mask = access.mask
    assert mask is not None
    rest = [part for part in _conjuncts(mask) if part not in steady]
    for part in steady:
        for op in _inside(part, loop):
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(loop))
    key = loop, *steady
    before = made.get(key)
    if before is None:
        before = made[key] = _all_of(steady, loop, InsertPoint.before(loop))
    together = _all_of([before, *rest], access, InsertPoint.before(access))
    access.operands[access.operands.index(mask)] = together


def _all_of(parts: list[SSAValue], like: Operation, where: InsertPoint) -> SSAValue:
    found = parts[0]
    for part in parts[1:]:
        both = AndIOp.create(operands=[found, part], result_types=[part.type])
        inherit_location(both, like)
        Rewriter.insert_op(both, where)
        found = both.results[0]
    return found
