"""Assembles and splits vectors and indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import builtin as b
from xdsl.dialects import vector
from xdsl.dialects.arith import AddiOp
from xdsl.ir import SSAValue

from tilewright.dialects.upstream.arith import vectors as arith_vectors
from tilewright.dialects.upstream.vector.ops import ShapeCastOp
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.types import INDEX, scalar_of


def length(value: SSAValue) -> int:
    """The extent of a vector's first dimension."""
    assert isinstance(value.type, b.VectorType)
    return value.type.get_shape()[0]


def part(low: ThreadLowering, value: SSAValue, number: int) -> SSAValue:
    """Element ``number`` of a vector, or a subvector if it has more dimensions."""
    assert isinstance(value.type, b.VectorType)
    inner = value.type.get_shape()[1:]
    element = scalar_of(value.type)
    ty = b.VectorType(element, inner) if inner else element
    return low.add(vector.ExtractOp(value, [number], ty)).results[0]


def stacked(low: ThreadLowering, rows: Sequence[SSAValue]) -> SSAValue:
    """Stack vectors of one type along a new first dimension."""
    ty = rows[0].type
    assert isinstance(ty, b.VectorType)
    made = low.constant(0, b.VectorType(ty.element_type, [len(rows), *ty.get_shape()]))
    for number, row in enumerate(rows):
        insert = vector.InsertOp(row, made, [number])
        made = low.add(insert).results[0]
    return made


def reshaped(low: ThreadLowering, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """A vector cast to another shape."""
    return low.one(ShapeCastOp, (value,), b.VectorType(scalar_of(value.type), shape))


def repeated(low: ThreadLowering, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """Broadcast a vector to ``shape``, then flatten it."""
    ty = b.VectorType(scalar_of(value.type), shape)
    return reshaped(low, low.one(vector.BroadcastOp, (value,), ty), [prod(shape)])


def joined(low: ThreadLowering, parts: Sequence[SSAValue]) -> SSAValue:
    """Concatenate vectors of one type."""
    if len(parts) == 1:
        return parts[0]
    return reshaped(low, stacked(low, parts), [len(parts) * length(parts[0])])


def split(low: ThreadLowering, value: SSAValue, width: int) -> list[SSAValue]:
    """Split a vector into vectors of ``width`` elements, which must divide its length."""
    count = length(value) // width
    if count == 1:
        return [value]
    rows = reshaped(low, value, [count, width])
    return [part(low, rows, number) for number in range(count)]


def as_index(low: ThreadLowering, number: SSAValue) -> SSAValue:
    """Cast a nonnegative i32 to ``index``."""
    return low.one(arith_vectors.IndexCastOp, (number,), INDEX)


def moved(low: ThreadLowering, index: SSAValue, step: int) -> SSAValue:
    """An index plus a constant."""
    return low.binary(AddiOp, index, low.constant(step, INDEX)) if step else index
