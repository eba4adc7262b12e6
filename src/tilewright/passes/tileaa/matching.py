"""What rules on ``nv_tileaa`` ask about values, and the operations that they make."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from tilewright.analysis.tileaa.integers import known_integers
from tilewright.dialects.arith.constants import ConstantOp
from tilewright.dialects.nv_tileaa.ops.shapes import SplatOp
from tilewright.dialects.nv_tileaa.types import TileType
from tilewright.passes.base import insert_before


def integer_of(value: SSAValue) -> int | None:
    """The integer that all elements of a value are known to be, read signed; i1 as 0 and 1."""
    owner = value.owner
    found = known_integers(owner) if isinstance(owner, Operation) else None
    return found[0] if found is not None and len(found) == 1 else None


def splat_source(value: SSAValue) -> SSAValue | None:
    """The scalar that a tile repeats, where it is made by ``splat``."""
    return value.owner.source if isinstance(value.owner, SplatOp) else None


def make_splat(
    rewriter: PatternRewriter, before: Operation, scalar: SSAValue, ty: Attribute
) -> SSAValue:
    """A tile, or the bare scalar for a scalar type, that repeats a value."""
    if not isinstance(ty, TileType):
        return scalar
    made = SplatOp.create(operands=[scalar], result_types=[ty])
    insert_before(rewriter, before, made)
    return made.result


def make_integer(
    rewriter: PatternRewriter, before: Operation, number: int, ty: Attribute
) -> SSAValue:
    """A constant whose elements are all the number."""
    made = ConstantOp.from_value(ty, number)
    insert_before(rewriter, before, made)
    return made.result


def ints(attribute: Attribute | None) -> tuple[int, ...]:
    """The numbers of a dense array; none where it is absent."""
    if not isinstance(attribute, DenseArrayBase):
        return ()
    return tuple(int(value) for value in attribute.iter_values())


def replace_with(rewriter: PatternRewriter, op: Operation, values: Sequence[SSAValue]) -> None:
    """Erase an operation whose users take these values."""
    rewriter.replace(op, (), tuple(values))
