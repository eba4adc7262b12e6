"""Shuffles of vectors, with as many elements in each 32-bit word as fit."""

from __future__ import annotations

from xdsl.dialects import builtin as b
from xdsl.dialects import vector
from xdsl.ir import SSAValue

from tilewright.dialects.upstream.gpu import attributes as gpu_attributes
from tilewright.dialects.upstream.gpu import ops as gpu_ops
from tilewright.lowering.nvgpu.shared_conversion import narrowed, widened
from tilewright.lowering.nvgpu.types import I1, I32, scalar_of, width_of
from tilewright.lowering.scheduled.state import ScheduledKernel

#: The bits that a shuffle moves.
WORD = 32
Mode = gpu_attributes.ShuffleMode


def from_lanes(
    low: ScheduledKernel, value: SSAValue, mode: gpu_attributes.ShuffleMode, offset: SSAValue | int
) -> SSAValue:
    """The vectors of the lanes at ``offset``: XORed with the own one, that many below or above, or with
    that number. Where there is no such lane, the own one's.

    The same exchange by XOR is made once.
    """
    key = (value, mode, offset, low.block)
    found = low.shuffled.get(key)
    if found is None:
        found = low.shuffled[key] = _from_lanes(low, value, mode, offset)
    return found


def _from_lanes(
    low: ScheduledKernel, value: SSAValue, mode: gpu_attributes.ShuffleMode, offset: SSAValue | int
) -> SSAValue:
    element, ty = scalar_of(value.type), value.type
    assert isinstance(ty, b.VectorType)
    count, width = ty.get_shape()[0], width_of(element)
    if width < 8:
        moved = _from_lanes(low, widened(low, value), mode, offset)
        return narrowed(low, moved, element)
    word = min(WORD, count * width)
    if width < word:
        words = b.VectorType(b.IntegerType(word), [count * width // word])
        packed = low.one(vector.BitcastOp, (value,), words)
        return low.one(vector.BitcastOp, (_each(low, packed, mode, offset),), ty)
    return _each(low, value, mode, offset)


def _each(
    low: ScheduledKernel, value: SSAValue, mode: gpu_attributes.ShuffleMode, offset: SSAValue | int
) -> SSAValue:
    element = scalar_of(value.type)
    assert isinstance(value.type, b.VectorType)
    how = {"mode": gpu_attributes.ShuffleModeAttr(mode)}
    where = low.constant(offset, I32) if isinstance(offset, int) else offset
    lanes, made = low.constant(32, I32), value
    for number in range(value.type.get_shape()[0]):
        taken = vector.ExtractOp(value, [number], element)
        low.add(taken)
        found, _ = low.emit(gpu_ops.ShuffleOp, (taken.results[0], where, lanes), (element, I1), how)
        insert = vector.InsertOp(found, made, [number])
        made = low.add(insert).results[0]
    return made
