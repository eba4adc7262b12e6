"""Exchanges tile elements between threads through shared memory.

A block has one buffer, as large as its largest exchange. An exchange begins once all threads have read what the
previous one left there; it writes, executes a barrier, and reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import builtin as b
from xdsl.dialects import memref
from xdsl.dialects.arith import BitcastOp
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.upstream.arith import vectors as arith_vectors
from tilewright.dialects.upstream.vector.indexed import GatherOp, ScatterOp
from tilewright.lowering.nvgpu.layouts import Layout
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.types import (
    I1,
    I8,
    INDEX,
    SHARED_SPACE,
    element_bytes,
    vector_like,
    width_of,
)
from tilewright.lowering.nvgpu.vectors import as_index, length, moved, split
from tilewright.lowering.nvgpu.whole_vectors import store_whole

_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Buffer:
    """A part of the exchange buffer with ``count`` elements; elements of less than 8 bits take a byte each."""

    memory: SSAValue
    element: Attribute
    count: int


class SharedConversion:
    """One exchange: allocate buffers, ``put``, ``meet``, ``take``, in this order.

    ``needs`` is the size of all buffers in bytes, where it is known in advance.
    """

    def __init__(self, low: ThreadLowering, needs: int | None = None):
        self._low = low
        self._offset = self.start = low.offset_for_conversion(needs)

    def buffer(self, element: Attribute, count: int) -> Buffer:
        """Allocate ``count`` elements of shared memory, in whole bytes each.

        Raises ``TileIRError`` (``not-lowered-to-threads``) if they exceed a block's shared memory.
        """
        low = self._low
        held = in_bytes(element)
        start = self._offset
        self._offset += held_bytes(element, count)
        low.scratch_bytes = max(low.scratch_bytes, self._offset)
        if self._offset > low.options.shared_bytes:
            raise low.refuse(
                f"it needs {self._offset} bytes of shared memory to rearrange its elements, but a "
                f"block has {low.options.shared_bytes}",
                help="use smaller tiles",
            )
        with low.building(low.prologue):
            ty = b.MemRefType(held, [count], memory_space=SHARED_SPACE)
            offset = low.constant(start, INDEX)
            memory = low.one(memref.ViewOp, (low.scratch(), offset), ty)
        return Buffer(memory, element, count)

    def put(
        self,
        buffer: Buffer,
        values: SSAValue,
        places: SSAValue | None = None,
        mask: SSAValue | None = None,
    ) -> None:
        """Store the thread's elements of a tile: in row-major order, or at ``places``.

        Without ``places`` replicated elements are stored by their owners only.
        """
        low = self._low
        count = length(values)
        if in_bytes(buffer.element) != buffer.element:
            values = widened(low, values)
        layout = Layout(buffer.count, low.threads)
        if places is None and mask is None and not layout.is_replicated:
            self._put_chunks(buffer, values, layout)
            return
        if places is None:
            places = low.ids(buffer.count)
            mask = low.both(low.owned(buffer.count), mask)
        low.emit(
            ScatterOp,
            (buffer.memory, low.constant(0, INDEX), places, _mask(low, mask, count), values),
        )

    def _put_chunks(self, buffer: Buffer, values: SSAValue, layout: Layout) -> None:
        """Store a tile in row-major order, by chunks of adjacent elements."""
        low = self._low
        parts = split(low, values, layout.chunk)
        for offset, chunk in zip(layout.offsets[:: layout.chunk], parts, strict=True):
            with low.building(low.prologue):
                first = as_index(low, low.times(low.thread(), layout.chunk))
                place = moved(low, first, offset)
            store_whole(low, chunk, buffer.memory, place)

    @property
    def end(self) -> int:
        """The end of the last buffer, in bytes."""
        return self._offset

    def reading(self, buffer: Buffer, element: Attribute, count: int) -> Buffer:
        """The bytes of a buffer as ``count`` elements of another type; nothing is converted."""
        low = self._low
        view = buffer.memory.owner
        assert isinstance(view, memref.ViewOp)
        with low.building(low.prologue):
            ty = b.MemRefType(element, [count], memory_space=SHARED_SPACE)
            memory = low.one(memref.ViewOp, (view.source, view.byte_shift), ty)
        return Buffer(memory, element, count)

    def meet(self) -> None:
        """Add the barrier after which what the threads have stored may be loaded."""
        self._low.barrier()

    def take(self, buffer: Buffer, places: SSAValue, mask: SSAValue | None = None) -> SSAValue:
        """Load the elements at ``places``, their numbers in the buffer; zeros where the mask is false."""
        low = self._low
        low.sync.shared = True
        count = length(places)
        held = in_bytes(buffer.element)
        ty = b.VectorType(held, [count])
        found = low.one(
            GatherOp,
            (
                buffer.memory,
                low.constant(0, INDEX),
                places,
                _mask(low, mask, count),
                low.constant(0, ty),
            ),
            ty,
        )
        return found if held == buffer.element else narrowed(low, found, buffer.element)


def held_bytes(element: Attribute, count: int) -> int:
    """The size of a buffer of ``count`` elements in bytes, aligned."""
    return -(-count * element_bytes(in_bytes(element)) // _ALIGNMENT) * _ALIGNMENT


def in_bytes(element: Attribute) -> Attribute:
    """The type of an element in shared memory: at least a byte."""
    return I8 if width_of(element) < 8 else element


def widened(low: ThreadLowering, values: SSAValue) -> SSAValue:
    """Zero-extend the bits of elements of less than 8 bits to bytes."""
    bits = vector_like(values.type, b.IntegerType(width_of(values.type)))
    if values.type != bits:
        values = low.one(BitcastOp, (values,), bits)
    return low.one(arith_vectors.ExtUIOp, (values,), vector_like(bits, I8))


def narrowed(low: ThreadLowering, octets: SSAValue, element: Attribute) -> SSAValue:
    """Truncate bytes to elements of less than 8 bits."""
    bits = vector_like(octets.type, b.IntegerType(width_of(element)))
    found = low.one(arith_vectors.TruncIOp, (octets,), bits)
    ty = vector_like(octets.type, element)
    return found if found.type == ty else low.one(BitcastOp, (found,), ty)


def _mask(low: ThreadLowering, mask: SSAValue | None, count: int) -> SSAValue:
    if mask is None:
        return low.constant(1, b.VectorType(I1, [count]))
    return mask if isinstance(mask.type, b.VectorType) else low.splat(mask, count)
