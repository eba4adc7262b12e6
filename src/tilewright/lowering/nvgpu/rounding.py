"""Operations that round in another way than to nearest, flush subnormals, or approximate."""

from __future__ import annotations

from xdsl.dialects import arith as A
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.lowering.nvgpu.state import Threads
from tilewright.lowering.nvgpu.types import I32, vector_like

_HALF_UNIT, _KEPT = 1 << 12, -(1 << 13)


def departing(low: Threads, op: Operation, departs: str) -> SSAValue:
    """The operation with the rounding that it asks for."""
    raise low.refuse(f"'{departs}' has no operation here")


def converted(
    low: Threads,
    op: Operation,
    source: SSAValue,
    ty: Attribute,
    names: list[str],
    departs: str,
) -> SSAValue:
    """A conversion with the rounding that it asks for."""
    raise low.refuse(f"'{departs}' has no operation here")


def to_tf32(low: Threads, value: SSAValue) -> SSAValue:
    """Numbers of f32 rounded to those of tf32, to nearest, ties to even."""
    words = vector_like(value.type, I32)
    bits = low.one(A.BitcastOp, (value,), words)
    odd = low.binary(A.AndIOp, low.binary(A.ShRUIOp, bits, 13), 1)
    rounded = low.binary(A.AndIOp, low.plus(low.plus(bits, _HALF_UNIT - 1), odd), _KEPT)
    # Infinities and NaN must not be carried into: they keep their upper bits.
    magnitude = low.binary(A.AndIOp, bits, 0x7FFFFFFF)
    finite = low.compare("ult", magnitude, 0x7F800000)
    kept = low.binary(A.AndIOp, bits, _KEPT)
    return low.one(A.BitcastOp, (low.select(finite, rounded, kept),), value.type)
