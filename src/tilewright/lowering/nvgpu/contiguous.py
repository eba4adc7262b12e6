"""Moves elements that are contiguous in memory as whole vectors.

Each thread holds its elements in chunks of adjacent ones (``layouts``). If a view has stride 1 along its innermost
axis, a chunk is contiguous. It moves as one vector if the whole tile lies inside the view and chunks are aligned; that
condition is uniform across threads and evaluated once per tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.dialects import vector
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.memory import Scattered
from tilewright.dialects.syntax.engine import values_of
from tilewright.dialects.upstream.llvm import ops as L
from tilewright.layouts.conversions import WIDEST
from tilewright.layouts.layout import coordinates_of
from tilewright.lowering.nvgpu.address_ranges import Order, known, view_of_access
from tilewright.lowering.nvgpu.elementwise import pointee_bytes
from tilewright.lowering.nvgpu.layouts import Layout
from tilewright.lowering.nvgpu.shared_conversion import SharedConversion
from tilewright.lowering.nvgpu.state import ThreadLowering, View
from tilewright.lowering.nvgpu.types import GLOBAL_POINTER, I1, I64, element_bytes, scalar_of
from tilewright.lowering.nvgpu.vectors import joined, part, split

#: The largest tile that is transposed in shared memory, in bytes: what a block has on every architecture.
_TURNED = 48 << 10


@dataclass(frozen=True, slots=True)
class ContiguousAccess:
    """A tile whose chunks are contiguous at these addresses, if ``condition`` holds. None is always true."""

    low: ThreadLowering
    layout: Layout
    width: int
    alignment: int
    chunks: tuple[SSAValue, ...]
    condition: SSAValue | None

    def load(self, element: Attribute) -> SSAValue:
        """Load the thread's elements, which have type ``element`` in memory."""
        ty = b.VectorType(element, [self.width])
        return joined(
            self.low,
            [
                self.low.one(L.LoadOp, (self._pointer(chunk),), ty, self._alignment)
                for chunk in self.chunks
            ],
        )

    def store(self, value: SSAValue) -> None:
        """Store the thread's elements, which already have their type in memory."""
        parts = split(self.low, value, self.width)
        for chunk, elements in zip(self.chunks, parts, strict=True):
            self.low.emit(L.StoreOp, (elements, self._pointer(chunk)), (), self._alignment)

    @property
    def _alignment(self) -> dict[str, Attribute]:
        return {"alignment": b.IntegerAttr(self.alignment, I64)}

    def _pointer(self, address: SSAValue) -> SSAValue:
        return self.low.one(L.IntToPtrOp, (address,), GLOBAL_POINTER)


def memory_order(low: ThreadLowering, op: Access) -> Order | None:
    """The order of axes in which the tile is contiguous in memory.

    None if that is the tile's own order, or if the tile cannot be transposed in shared memory.
    """
    if _goes_by_element(op) or values_of(op, "mask"):
        return None
    found = view_of_access(low, op)
    if found is None:
        return None
    view, indices, _ = found
    wide = [axis for axis, extent in enumerate(view.dims) if extent > 1]
    dense = [axis for axis in wide if known(view.memref.strides[view.axes[axis]]) == 1]
    if not dense or dense[-1] == wide[-1] or low.layout(view.dims).chunk == 1:
        return None
    size = pointee_bytes(low, T.PtrType(view.memref.element))
    if any(T.dims_of(index.type) for index in indices) or prod(view.dims) * size > _TURNED:
        return None
    return (*(axis for axis in range(len(view.dims)) if axis != dense[-1]), dense[-1])


def turned(
    low: ThreadLowering, value: SSAValue, dims: tuple[int, ...], order: Order, *, back: bool
) -> SSAValue:
    """Convert a tile of ``dims`` to a distribution over the permuted axes, or with ``back`` from that one.

    Rows in shared memory are padded by 4 bytes, or one element if that is larger, so that a column does not fall into
    one bank.
    """
    extents = tuple(dims[axis] for axis in order)
    element = scalar_of(value.type)
    stride = extents[-1] + max(4 // element_bytes(element), 1)
    own = low.coordinates(dims)
    places = [
        low.linear(found, (*extents[:-1], stride))
        for found in (low.coordinates(extents), [own[axis] for axis in order])
    ]
    if not back:
        places.reverse()
    shared_conversion = SharedConversion(low)
    buffer = shared_conversion.buffer(element, prod(extents[:-1]) * stride)
    shared_conversion.put(buffer, value, places[0])
    shared_conversion.meet()
    return shared_conversion.take(buffer, places[1])


def _goes_by_element(op: Access) -> bool:
    """Whether an access has an index for each element."""
    return isinstance(op, Scattered) and isinstance(values_of(op, "base")[0].type, T.MemrefType)


def contiguous_access(
    low: ThreadLowering, op: Access, order: Order | None = None
) -> ContiguousAccess | None:
    """The access as whole vectors; None if it has to go element by element.

    It goes by vectors where neighbours in a thread are neighbours in memory, and all in bounds or none.
    """
    if _goes_by_element(op):
        return None
    found = view_of_access(low, op, order)
    if found is None:
        return _straight_pointers(low, op)
    if values_of(op, "mask"):
        return None
    view, indices, promised = found
    layout = low.layout(view.dims)
    inner = max((axis for axis, extent in enumerate(view.dims) if extent > 1), default=0)
    width = min(layout.chunk, view.dims[inner])
    strides = [view.memref.strides[axis] for axis in view.axes]
    if width == 1 or known(strides[inner]) != 1:
        return None
    if any(T.dims_of(index.type) for index in indices):
        return None
    size = pointee_bytes(low, T.PtrType(view.memref.element))
    alignment = min(width * size, WIDEST)
    start, inside = _start(low, view, indices, promised, size)
    steps = [
        None if extent == 1 else stride for extent, stride in zip(view.dims, strides, strict=True)
    ]
    condition = low.both(inside, _aligned(low, start, steps, inner, size, alignment))
    return ContiguousAccess(
        low, layout, width, alignment, _chunks(low, view, start, steps, width, size), condition
    )


def _straight_pointers(low: ThreadLowering, op: Access) -> ContiguousAccess | None:
    """The access as whole vectors through a tile of pointers, whose chunks are known to be contiguous.

    It holds where the thread's pointers are aligned and none of them is masked off.
    """
    (base,) = values_of(op, "base")
    pointer, dims = T.element_of(base.type), T.dims_of(base.type)
    assert isinstance(pointer, T.PtrType)
    layout = low.layout(dims)
    inner = max((axis for axis, extent in enumerate(dims) if extent > 1), default=0)
    if layout.chunk == 1:
        return None
    pattern = low.facts.patterns.of(base).axes[inner]
    width = min(layout.chunk, pattern.run)
    if width == 1:
        return None
    size = pointee_bytes(low, pointer)
    alignment = min(width * size, WIDEST)
    chunks = tuple(part(low, low.value(base), at) for at in range(0, layout.registers, width))
    condition = None
    for mask in values_of(op, "mask"):
        properties = {"kind": vector.CombiningKindAttr(vector.CombiningKindFlag.AND)}
        condition = low.one(vector.ReductionOp, (low.value(mask),), I1, properties)
    known_divisor = pattern.divisor if width == pattern.run else min(pattern.divisor, width * size)
    if known_divisor < alignment:
        bits = reduce(lambda one, other: low.binary(A.OrIOp, one, other), chunks)
        aligned = low.compare("eq", low.binary(A.AndIOp, bits, alignment - 1), 0)
        condition = low.both(condition, aligned)
    return ContiguousAccess(low, layout, width, alignment, chunks, condition)


def _start(
    low: ThreadLowering,
    view: View,
    indices: Sequence[SSAValue],
    promised: Sequence[bool],
    size: int,
) -> tuple[SSAValue, SSAValue | None]:
    """The address of a tile's first element, and whether the whole tile is in bounds."""
    start: SSAValue = view.memref.pointer
    inside: SSAValue | None = None
    for axis, index in enumerate(indices):
        origin = low.times(low.value(index), view.steps[axis])
        if not (axis < len(promised) and promised[axis]):
            limit = view.memref.sizes[view.axes[axis]]
            room = low.binary(A.SubiOp, limit, low.constant(view.dims[axis] - 1, I64))
            room = low.binary(A.MaxSIOp, room, 0)
            inside = low.both(inside, low.compare("ult", origin, room))
        stride = view.memref.strides[view.axes[axis]]
        step = origin if known(stride) == 1 else low.times(origin, stride)
        start = low.plus(start, low.times(step, size))
    return start, inside


def _aligned(
    low: ThreadLowering,
    start: SSAValue,
    steps: Sequence[SSAValue | None],
    inner: int,
    size: int,
    alignment: int,
) -> SSAValue | None:
    """Whether all chunks of a tile at ``start`` are aligned; None if that is known."""
    if alignment == 1:
        return None
    bits = start
    for axis, stride in enumerate(steps):
        if stride is None or axis == inner:
            continue
        number = known(stride)
        if number is None or number * size % alignment:
            bits = low.binary(A.OrIOp, bits, low.times(stride, size))
    return low.compare("eq", low.binary(A.AndIOp, bits, alignment - 1), 0)


def _chunks(
    low: ThreadLowering,
    view: View,
    start: SSAValue,
    steps: Sequence[SSAValue | None],
    width: int,
    size: int,
) -> tuple[SSAValue, ...]:
    """The address of each chunk of a thread: that of the first, plus offsets that are uniform across threads."""
    layout = low.layout(view.dims)
    first = start
    coordinates = low.first_coordinates(view.dims)
    for at, stride in zip(coordinates, steps, strict=True):
        if stride is not None:
            first = low.plus(first, low.times(_scaled(low, low.widen(at), stride), size))
    found: list[SSAValue] = []
    for offset in layout.offsets[::width]:
        address = first
        for place, stride in zip(coordinates_of(offset, view.dims), steps, strict=True):
            if place and stride is not None:
                step = _scaled(low, stride, low.constant(place * size, I64))
                address = low.plus(address, step)
        found.append(address)
    return tuple(found)


def _scaled(low: ThreadLowering, one: SSAValue, other: SSAValue) -> SSAValue:
    """The product of two i64, folded if both are constants."""
    numbers = known(one), known(other)
    if numbers[0] is not None and numbers[1] is not None:
        return low.constant(numbers[0] * numbers[1], I64)
    if numbers[1] == 1:
        return one
    return other if numbers[0] == 1 else low.times(one, other)
