"""What patterns ask about values: constants, negations, branches."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects.cuda_tile.constants import TileConstantAttr
from tilewright.dialects.cuda_tile.ops.control_flow import IfOp, YieldOp
from tilewright.dialects.cuda_tile.ops.core import ConstantOp
from tilewright.dialects.cuda_tile.ops.integer import XOrIOp
from tilewright.dialects.cuda_tile.types import TileType


def constant_of(value: SSAValue) -> TileConstantAttr | None:
    """The constant that a value is, or None."""
    owner = value.owner
    return owner.constant if isinstance(owner, ConstantOp) else None


def splat_of(value: SSAValue) -> float | None:
    """The number that fills a constant tile; None where the value is no such."""
    constant = constant_of(value)
    return constant.values()[0] if constant is not None and constant.is_splat else None


def constant_bool(value: SSAValue) -> bool | None:
    """True or False for an i1 constant with equal elements, None for anything else."""
    constant = constant_of(value)
    if constant is None or constant.type.element != "i1" or not constant.is_splat:
        return None
    return bool(constant.bits()[0])


def negated(value: SSAValue) -> SSAValue | None:
    """``c`` where the value is ``xori c, true`` with the constant on the right, else None."""
    owner = value.owner
    if isinstance(owner, XOrIOp) and constant_bool(owner.rhs) is True:
        return owner.lhs
    return None


def make_constant(ty: TileType, number: float | bool) -> ConstantOp:
    """A constant tile filled with one number."""
    attribute = TileConstantAttr.splat(ty, number)
    return ConstantOp.create(properties={"value": attribute}, result_types=[ty])


def make_negation(value: SSAValue) -> tuple[ConstantOp, XOrIOp]:
    """``xori value, true`` and its constant, for a tile of i1."""
    assert isinstance(value.type, TileType)
    true = make_constant(value.type, True)
    return true, XOrIOp.create(operands=[value, true.result], result_types=[value.type])


def branches(op: IfOp) -> tuple[Block | None, Block | None]:
    """The then and else blocks; None for an else that is not there."""
    then, other = op.regions
    return then.first_block, other.first_block


def terminator(block: Block) -> Operation:
    last = block.last_op
    assert last is not None, "verified IR has no block without terminator"
    return last


def yielded(block: Block | None) -> tuple[SSAValue, ...] | None:
    """What a branch yields; None for a branch that is absent or leaves early."""
    if block is None or not isinstance(last := terminator(block), YieldOp):
        return None
    return tuple(last.operands)


def is_only_terminator(block: Block) -> bool:
    return block.first_op is block.last_op


def is_empty_branch(block: Block | None) -> bool:
    """Whether a branch does nothing and yields nothing."""
    return block is None or (is_only_terminator(block) and yielded(block) == ())


def is_defined_in(value: SSAValue, block: Block) -> bool:
    """Whether a value is an argument of the block or a result of an operation directly in it."""
    owner = value.owner
    return owner is block if isinstance(owner, Block) else owner.parent is block
