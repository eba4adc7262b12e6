"""Predicates and constructors for patterns: constants, negations, branches."""

from __future__ import annotations

from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.constants import TileConstantAttr
from tilewright.dialects.cuda_tile.enums import Signedness, SignednessAttr
from tilewright.dialects.cuda_tile.ops.control_flow import IfOp, YieldOp
from tilewright.dialects.cuda_tile.ops.conversions import ExtIOp
from tilewright.dialects.cuda_tile.ops.core import ConstantOp
from tilewright.dialects.cuda_tile.ops.floating_point import FmaOp, MulFOp
from tilewright.dialects.cuda_tile.ops.integer import CmpIOp, XOrIOp
from tilewright.dialects.cuda_tile.types import TileType
from tilewright.dialects.declare import enum_property
from tilewright.passes.laws import Site, Words


def constant_of(value: SSAValue) -> TileConstantAttr | None:
    """Return the constant attribute of a value, or None."""
    owner = value.owner
    return owner.constant if isinstance(owner, ConstantOp) else None


def splat_of(value: SSAValue) -> float | None:
    """Return the number that fills a constant tile, or None if the value is not a splat. Integers are signed."""
    constant = constant_of(value)
    return constant.values()[0] if constant is not None and constant.is_splat else None


def constant_bool(value: SSAValue) -> bool | None:
    """Return True or False for an i1 constant with equal elements, else None."""
    constant = constant_of(value)
    if constant is None or constant.type.element != "i1" or not constant.is_splat:
        return None
    return bool(constant.bits()[0])


def negated(value: SSAValue) -> SSAValue | None:
    """Return ``c`` if the value is ``xori c, true`` with the constant on the right, else None."""
    owner = value.owner
    if isinstance(owner, XOrIOp) and constant_bool(owner.rhs) is True:
        return owner.lhs
    return None


def make_constant(ty: TileType, number: float | bool) -> ConstantOp:
    """Return a constant tile filled with one number; not yet inserted anywhere."""
    attribute = TileConstantAttr.splat(ty, number)
    return ConstantOp.create(properties={"value": attribute}, result_types=[ty])


def make_negation(value: SSAValue) -> tuple[ConstantOp, XOrIOp]:
    """Return ``xori value, true`` and its constant, for a tile of i1; neither is inserted yet."""
    assert isinstance(value.type, TileType)
    true = make_constant(value.type, True)
    return true, XOrIOp.create(operands=[value, true.result], result_types=[value.type])


def branches(op: IfOp) -> tuple[Block | None, Block | None]:
    """Return the then and else blocks; None for a missing else."""
    then, other = op.regions
    return then.first_block, other.first_block


def terminator(block: Block) -> Operation:
    """Return the last operation of a block, which verified IR always has."""
    last = block.last_op
    assert last is not None, "verified IR has no block without terminator"
    return last


def yielded(block: Block | None) -> tuple[SSAValue, ...] | None:
    """Return what a branch yields; None if the branch is absent or ends in an exit."""
    if block is None or not isinstance(last := terminator(block), YieldOp):
        return None
    return tuple(last.operands)


def is_only_terminator(block: Block) -> bool:
    """Whether a block holds nothing but its terminator."""
    return block.first_op is block.last_op


def is_empty_branch(block: Block | None) -> bool:
    """Whether a branch is absent, or holds only a yield of nothing."""
    return block is None or (is_only_terminator(block) and yielded(block) == ())


def is_defined_in(value: SSAValue, block: Block) -> bool:
    """Whether a value is an argument of the block or a result of an operation directly in it."""
    owner = value.owner
    return owner is block if isinstance(owner, Block) else owner.parent is block


def number_of(value: SSAValue) -> float | None:
    """Return the number that fills a constant tile: a bool for i1, else an int or a float; None for other values."""
    known = constant_bool(value)
    return splat_of(value) if known is None else known


def predicate(value: SSAValue) -> str:
    """Return the predicate of the integer comparison that defines a value."""
    assert isinstance(value.owner, CmpIOp)
    return enum_property(value.owner, "comparison_predicate")


def _xori(site: Site, ty: Attribute | None, value: SSAValue, number: bool) -> SSAValue:
    assert number
    return site.add(*make_negation(value))


def _exti(site: Site, ty: Attribute, value: SSAValue) -> SSAValue:
    unsigned = SignednessAttr(Signedness.UNSIGNED)
    return site.add(
        ExtIOp.create(operands=[value], result_types=[ty], properties={"signedness": unsigned})
    )


_MODES = ("rounding_mode", "flush_to_zero")


def _fma(site: Site, ty: Attribute, *operands: SSAValue) -> SSAValue:
    modes = {mode: site.op.properties[mode] for mode in _MODES if mode in site.op.properties}
    attributes = dict(site.op.attributes)
    return site.add(
        FmaOp.create(operands=operands, result_types=[ty], properties=modes, attributes=attributes)
    )


def _rounds_alike(op: Operation, product: SSAValue) -> bool:
    """Whether the sum is the only use of a product, and both have the same rounding modes."""
    assert isinstance(product.owner, Operation)
    modes = product.owner.properties
    return product.has_one_use() and all(modes.get(m) == op.properties.get(m) for m in _MODES)


#: The vocabulary of laws on cuda_tile.
WORDS = Words(
    kinds={cls.mnemonic(): cls for cls in OPERATIONS.values()},
    number=number_of,
    makers={"xori": _xori, "exti": _exti, "fma": _fma},
    tests={
        "alike": lambda op, other: op.properties == other.properties,
        "is_product": lambda value: isinstance(value.owner, MulFOp),
        "predicate": predicate,
        "rounds_alike": _rounds_alike,
    },
)
