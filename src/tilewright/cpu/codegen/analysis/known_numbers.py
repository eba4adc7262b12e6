"""Indices known at compile time."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.cpu.codegen.loops.indices import alignment
from tilewright.dialects.arith import ConstantOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp

CASTS = frozenset(
    {"arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", AssumeOp.name}
)
"""Operations that give the same number in another type."""


def known_number(value: SSAValue) -> int | None:
    """An index that is known when code is made; None for others."""
    owner = value.owner
    if isinstance(owner, ConstantOp):
        return owner.bits()[0]
    if isinstance(owner, Operation) and owner.name in CASTS:
        return known_number(owner.operands[0])
    if isinstance(owner, Operation) and owner.name == "arith.muli":
        lhs, rhs = (known_number(operand) for operand in owner.operands)
        return None if lhs is None or rhs is None else lhs * rhs
    return None


def known_factor(value: SSAValue) -> int:
    """A power of two that is known to divide an index; 1 where nothing is."""
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "arith.muli":
        for operand in owner.operands:
            source = operand.owner
            if isinstance(source, ConstantOp):
                return alignment(source.bits()[0])
    if isinstance(owner, ConstantOp):
        return min(alignment(owner.bits()[0]), 1 << 30)
    return 1
