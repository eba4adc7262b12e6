"""``memref``: allocations, copies by threads, and further views."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import builtin as b
from xdsl.ir import Operation

from tilewright.dialects.upstream.gpu.spaces import space_number
from tilewright.numerics.strides import row_major
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.memory import (
    LOCAL,
    SHARED,
    Buffer,
    MemRef,
    load,
    spread,
    store,
)
from tilewright.simulator.ops.memrefs import memory_size, shared_value
from tilewright.simulator.ops.packed import need_whole_bytes
from tilewright.simulator.shared_layout import DEFAULT_ALIGNMENT
from tilewright.simulator.state import WARP_SIZE, Warp
from tilewright.simulator.values import element_of, uniform

_DYNAMIC = b.DYNAMIC_INDEX
#: The alignment of thread-local memory, in bytes.
_GRANULE = 16


@implements("memref.alloc")
def _alloc(op: Any, t: Translator) -> Step | None:
    """Allocates shared memory for the block, or thread-local memory for each thread."""
    ty = op.results[0].type
    if space_number(ty.memory_space) == SHARED:
        found = op.properties.get("alignment")
        alignment = max(DEFAULT_ALIGNMENT, 0 if found is None else found.value.data)
        offset = t.shared.named(f"memref.alloc ({id(op)})", memory_size(ty), alignment)
        t.each_block(op.results[0], shared_value(offset, ty))
        return None
    found = op.properties.get("alignment")
    if found is not None and found.value.data > _GRANULE:
        raise Fault(codes.UNSUPPORTED, f"{op.name} takes memory aligned to {_GRANULE} bytes", op)
    if not isinstance(ty.layout, b.NoneAttr):
        raise Fault(codes.UNSUPPORTED, "the simulator allocates memory without a layout only", op)
    result, element, dynamic = (
        t.slot(op.results[0]),
        element_of(ty),
        list(t.slots(op.dynamic_sizes)),
    )
    extents = [dynamic.pop(0) if n == _DYNAMIC else None for n in ty.get_shape()]
    known = ty.get_shape()
    need_whole_bytes(element, op)

    def step(warp: Warp) -> None:
        sizes = tuple(
            n if slot is None else _extent(warp, slot, op) for n, slot in zip(known, extents)
        )
        size = -(-prod(sizes) * element.size // _GRANULE) * _GRANULE
        data = np.full(size * WARP_SIZE, 0xFF, np.uint8)
        buffer = Buffer(data, LOCAL, "memref.alloc", lane_bytes=size)
        warp.regs[result] = MemRef(buffer, 0, sizes, row_major(sizes))

    return step


def _extent(warp: Warp, slot: int, op: Operation) -> int:
    found = uniform(warp.regs[slot], warp.mask)
    if found is None:
        raise Fault(codes.UNSUPPORTED, f"lanes of a warp have different extents in {op.name}", op)
    if found < 0:
        raise Fault(codes.OUT_OF_BOUNDS, f"{op.name} of {warp.name()} has the extent {found}", op)
    return found


@implements("memref.dealloc")
def _dealloc(op: Operation, t: Translator) -> None:
    """Nothing: memory lives as long as there are values for it."""


@implements("memref.copy")
def _copy(op: Any, t: Translator) -> Step:
    """Each active lane copies all elements."""
    source, target = t.slot(op.source), t.slot(op.destination)
    element = element_of(op.source.type)
    need_whole_bytes(element, op)
    dtype = np.dtype(np.uint8) if element.bits == 1 else element.dtype

    def step(warp: Warp) -> None:
        memref, to = warp.regs[source], warp.regs[target]
        if memref.sizes != to.sizes:
            raise Fault(
                codes.OUT_OF_BOUNDS,
                f"{op.name} of {warp.name()} copies {memref.sizes} elements to {to.sizes}",
                op,
            )
        if not prod(memref.sizes):
            return
        found = load(warp, memref, spread(memref.offset, memref, memref.sizes), dtype, op)
        store(warp, to, spread(to.offset, to, to.sizes), found, dtype, op)

    return step


@implements("memref.transpose")
def _transpose(op: Any, t: Translator) -> Step:
    """A memref with permuted dimensions to the same memory."""
    source, result, order = t.slot(op.source), t.slot(op.results[0]), op.order

    def step(warp: Warp) -> None:
        memref = warp.regs[source]
        warp.regs[result] = MemRef(
            memref.buffer,
            memref.offset,
            tuple(memref.sizes[axis] for axis in order),
            tuple(memref.strides[axis] for axis in order),
            memref.base,
        )

    return step


def _groups(op: Any) -> list[list[int]]:
    return [[n.value.data for n in group.data] for group in op.reassociation.data]


@implements("memref.expand_shape")
def _expand(op: Any, t: Translator) -> Step:
    """A memref with dimensions split by the reassociation groups."""
    source, result, groups = t.slot(op.src), t.slot(op.results[0]), _groups(op)
    rest = list(t.slots(op.output_shape))
    extents = [
        (True, rest.pop(0)) if n == _DYNAMIC else (False, int(n))
        for n in op.static_output_shape.get_values()
    ]

    def step(warp: Warp) -> None:
        memref = warp.regs[source]
        sizes = [_extent(warp, n, op) if is_slot else n for is_slot, n in extents]
        strides = [1] * len(sizes)
        for group, stride in zip(groups, memref.strides):
            for place in reversed(group):
                strides[place] = stride
                stride *= sizes[place]
        for group, size in zip(groups, memref.sizes):
            if prod(sizes[place] for place in group) != size:
                raise Fault(
                    codes.OUT_OF_BOUNDS,
                    f"{op.name} of {warp.name()} splits {size} elements into "
                    f"{[sizes[place] for place in group]}",
                    op,
                )
        warp.regs[result] = MemRef(
            memref.buffer, memref.offset, tuple(sizes), tuple(strides), memref.base
        )

    return step


@implements("memref.collapse_shape")
def _collapse(op: Any, t: Translator) -> Step:
    """A memref with groups of dimensions collapsed."""
    source, result, groups = t.slot(op.src), t.slot(op.results[0]), _groups(op)

    def step(warp: Warp) -> None:
        memref = warp.regs[source]
        sizes, strides = [], []
        for group in groups:
            sizes.append(prod(memref.sizes[place] for place in group))
            # The stride is that of the innermost dimension with more than one element.
            inner = [p for p in group if memref.sizes[p] != 1] or group
            strides.append(memref.strides[inner[-1]])
        warp.regs[result] = MemRef(
            memref.buffer, memref.offset, tuple(sizes), tuple(strides), memref.base
        )

    return step


@implements("memref.extract_strided_metadata")
def _metadata(op: Any, t: Translator) -> Step:
    """The base memory of a memref, and its offset, sizes and strides in elements."""
    source, base, offset = t.slot(op.source), t.slot(op.base_buffer), t.slot(op.offset)
    sizes, strides = t.slots(op.sizes), t.slots(op.strides)

    def step(warp: Warp) -> None:
        r = warp.regs
        memref = r[source]
        r[base] = MemRef(memref.buffer, memref.base, (), (), memref.base)
        r[offset] = memref.offset - memref.base
        for slots, values in ((sizes, memref.sizes), (strides, memref.strides)):
            for slot, value in zip(slots, values):
                r[slot] = value

    return step
