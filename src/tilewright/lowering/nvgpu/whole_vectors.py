"""Shared-memory vectors aligned to their own size, so that each access is one instruction.

The known alignment of an address is the attribute ``alignment`` of the access; newer versions of upstream's
``vector.load`` and ``vector.store`` have it as a property. Without it LLVM must derive the alignment from the address
computation, and fails to behind a multiplication by a run-time value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import builtin as b
from xdsl.dialects import vector

from tilewright.dialects.upstream.vector.memory import ALIGNMENT
from tilewright.layouts.conversions import WIDEST
from tilewright.lowering.nvgpu.types import I64, element_bytes

if TYPE_CHECKING:
    from xdsl.ir import Attribute, SSAValue

    from tilewright.lowering.nvgpu.state import ThreadLowering


def load_whole(
    low: ThreadLowering, memory: SSAValue, place: SSAValue, ty: b.VectorType
) -> SSAValue:
    """Load a vector from shared memory.

    ``place``, the index of its first element, is a multiple of its length, or of 16 bytes for longer vectors.
    """
    op = vector.LoadOp(memory, [place], ty)
    op.attributes[ALIGNMENT] = _alignment(ty)
    low.add(op)
    return op.result


def store_whole(low: ThreadLowering, value: SSAValue, memory: SSAValue, place: SSAValue) -> None:
    """Store a vector to shared memory; ``place`` as for ``load_whole``."""
    op = vector.StoreOp(value, memory, [place])
    assert isinstance(value.type, b.VectorType)
    op.attributes[ALIGNMENT] = _alignment(value.type)
    low.add(op)


def _alignment(ty: b.VectorType) -> Attribute:
    (count,) = ty.get_shape()
    return b.IntegerAttr(min(count * element_bytes(ty.element_type), WIDEST), I64)
