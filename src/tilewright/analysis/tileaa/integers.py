"""Integer types and integer constants of ``nv_tileaa``."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute, Operation

from tilewright.dialects.arith.constants import ConstantOp
from tilewright.dialects.nv_tileaa import types as T


def width_of(ty: Attribute) -> int | None:
    """Return the bit width of a value's integers; 64 for index; None for other types."""
    element = T.element_of(ty)
    if isinstance(element, IndexType):
        return 64
    return element.width.data if isinstance(element, IntegerType) else None


def known_integers(op: Operation) -> list[int] | None:
    """Return the elements of an integer constant, read signed; one element if all are equal.

    i1 is read as 0 and 1. None for other operations and for floats.
    """
    if not isinstance(op, ConstantOp):
        return None
    width = width_of(op.result.type)
    if width is None:
        return None
    sign = 0 if width == 1 else 1 << (width - 1)
    return [(bits ^ sign) - sign for bits in op.bits()]


def is_splat(op: Operation) -> bool:
    """Whether an operation is a constant whose elements are all equal."""
    return isinstance(op, ConstantOp) and len(op.bits()) == 1
