"""``memref``: loads, stores, atomic updates, and views of memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import builtin as b
from xdsl.ir import Operation, SSAValue

from tilewright.dialects.upstream.gpu.spaces import space_number
from tilewright.dialects.upstream.memref.ops import RMW_KINDS
from tilewright.numerics.semantics import ELEMENTWISE
from tilewright.numerics.strides import row_major
from tilewright.simulator import codes
from tilewright.simulator.address_space import aligned_bytes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.memory import (
    LOCAL,
    SHARED,
    Buffer,
    MemRef,
    load,
    locate,
    note_atomic,
    note_update,
    store,
)
from tilewright.simulator.ops.elementwise import is_integer_scalar, to_elements
from tilewright.simulator.ops.packed import need_whole_bytes
from tilewright.simulator.shared_layout import DEFAULT_ALIGNMENT
from tilewright.simulator.state import WARP_SIZE, Block, Warp
from tilewright.simulator.values import element_of, lanes, uniform

_DYNAMIC = b.DYNAMIC_INDEX


def sized(ty: b.MemRefType) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Sizes, strides and offset of a static memref type. Raises ``Fault`` for dynamic ones."""
    sizes = tuple(ty.get_shape())
    strides = ty.get_strides()
    if strides is None or None in strides or _DYNAMIC in sizes:
        raise Fault(codes.UNSUPPORTED, f"the simulator needs the extents of '{ty}' here")
    offset = ty.layout.offset.data if isinstance(ty.layout, b.StridedLayoutAttr) else 0  # pyright: ignore[reportAttributeAccessIssue]
    return sizes, tuple(strides), offset  # pyright: ignore[reportReturnType]


def memory_size(ty: b.MemRefType) -> int:
    """The size of a static memref in bytes. Raises ``Fault`` for dynamic extents."""
    sizes, strides, offset = sized(ty)
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides))
    return -(-(last + 1) * element_of(ty).stored_bits // 8) if prod(sizes) else 0


def shared_value(offset: int, ty: b.MemRefType) -> Any:
    """Returns a function that makes a memref to a block's shared memory at a byte offset.

    Raises ``Fault`` for dynamic extents.
    """
    sizes, strides, first = sized(ty)
    start = 8 * offset // element_of(ty).stored_bits + first

    def make(block: Block) -> MemRef:
        return MemRef(block.shared, start, sizes, strides, start - first)

    return make


def local_value(ty: b.MemRefType, name: str) -> Any:
    """Returns a function that allocates memory for each lane of a warp. Raises ``Fault`` for dynamic extents."""
    sizes, strides, first = sized(ty)
    size = -(-memory_size(ty) // 16) * 16

    def make() -> MemRef:
        data = np.full(size * WARP_SIZE, 0xFF, np.uint8)
        return MemRef(Buffer(data, LOCAL, name, lane_bytes=size), first, sizes, strides)

    return make


@implements("memref.load", wide=True)
def _load(op: Any, t: Translator) -> Step:
    """Loads an element per lane. Raises ``Fault`` if out of bounds."""
    source, indices = t.slot(op.memref), t.slots(op.indices)
    result, element = t.slot(op.results[0]), element_of(op.memref.type)
    need_whole_bytes(element, op)
    dtype = np.dtype(np.uint8) if element.bits == 1 else element.dtype
    whole = is_integer_scalar(op.results[0].type)

    def step(warp: Warp) -> None:
        r = warp.regs
        memref = r[source]
        place = locate(warp, memref, [r[i] for i in indices], op)
        found = load(warp, memref, place, dtype, op)
        if element.bits == 1:
            found = found != 0
        if found.ndim:
            r[result] = found
        elif whole:
            r[result] = found.item()
        else:
            r[result] = np.full(warp.size, found, element.dtype)

    return step


@implements("memref.store", wide=True)
def _store(op: Any, t: Translator) -> Step:
    """Stores an element per active lane. Raises ``Fault`` if out of bounds.

    Lanes of a warp that store different values to one address are reported.
    """
    value, target, indices = t.slot(op.value), t.slot(op.memref), t.slots(op.indices)
    element = element_of(op.memref.type)
    need_whole_bytes(element, op)
    dtype = np.dtype(np.uint8) if element.bits == 1 else element.dtype

    def step(warp: Warp) -> None:
        r = warp.regs
        memref = r[target]
        place = locate(warp, memref, [r[i] for i in indices], op)
        store(warp, memref, place, lanes(r[value], element.dtype, warp.size), dtype, op)

    return step


_UPDATES: dict[int, tuple[str, dict[str, Any]]] = {
    RMW_KINDS["addf"]: ("addf", {}),
    RMW_KINDS["addi"]: ("addi", {}),
    RMW_KINDS["maximumf"]: ("maxf", {"propagate_nan": True}),
    RMW_KINDS["maxs"]: ("maxi", {"signedness": "signed"}),
    RMW_KINDS["maxu"]: ("maxi", {"signedness": "unsigned"}),
    RMW_KINDS["minimumf"]: ("minf", {"propagate_nan": True}),
    RMW_KINDS["mins"]: ("mini", {"signedness": "signed"}),
    RMW_KINDS["minu"]: ("mini", {"signedness": "unsigned"}),
    RMW_KINDS["mulf"]: ("mulf", {}),
    RMW_KINDS["muli"]: ("muli", {}),
    RMW_KINDS["ori"]: ("ori", {}),
    RMW_KINDS["andi"]: ("andi", {}),
    RMW_KINDS["maxnumf"]: ("maxf", {}),
    RMW_KINDS["minnumf"]: ("minf", {}),
}


@implements("memref.atomic_rmw")
def _atomic(op: Any, t: Translator) -> Step:
    """An atomic update by one lane after the other, in ascending order."""
    value, target, indices = t.slot(op.value), t.slot(op.memref), t.slots(op.indices)
    result, element = t.slot(op.results[0]), element_of(op.memref.type)
    need_whole_bytes(element, op)
    kind = op.properties["kind"].value.data
    name, keywords = _UPDATES.get(kind, ("assign", {}))

    def combine(old: Any, new: Any) -> Any:
        return new if name == "assign" else ELEMENTWISE[name](old, new, element.name, **keywords)

    def step(warp: Warp) -> None:
        r = warp.regs
        memref = r[target]
        place = np.broadcast_to(
            np.asarray(locate(warp, memref, [r[i] for i in indices], op)), WARP_SIZE
        )
        values = lanes(r[value], element.dtype)
        if memref.buffer.space == SHARED:
            note_atomic(warp, place[warp.mask], element.size, op)
        view = memref.buffer.view(element.dtype)
        old = np.zeros(WARP_SIZE, element.dtype)
        before = None if memref.buffer.space == SHARED else view[place[warp.mask]]
        for lane in np.flatnonzero(warp.mask):
            where = slice(place[lane], place[lane] + 1)
            old[lane] = view[where][0]
            view[where] = combine(view[where].copy(), values[lane : lane + 1])
        if before is not None:
            note_update(warp, op, place[warp.mask], before, view[place[warp.mask]])
        r[result] = old

    return step


@implements("memref.get_global")
def _get_global(op: Any, t: Translator) -> None:
    """A memref to a global: shared memory of each block, with its alignment, or initialized global memory."""
    name = op.properties["name"].root_reference.data
    known: list[Any] = [g for g in t.module.walk() if g.name == "memref.global"]
    found = next((g for g in known if g.properties["sym_name"].data == name), None)
    if found is None:
        raise Fault(codes.UNSUPPORTED, f"there is no memref.global '@{name}'", op)
    ty = op.results[0].type
    if space_number(ty.memory_space) == SHARED:
        alignment = found.properties.get("alignment")
        aligned = DEFAULT_ALIGNMENT if alignment is None else alignment.value.data
        offset = t.shared.named(name, memory_size(ty), max(aligned, DEFAULT_ALIGNMENT))
        t.each_block(op.results[0], shared_value(offset, ty))
        return
    if name not in t.global_values:
        t.global_values[name] = _global_value(found, ty)
    t.preset(op.results[0], t.global_values[name])


def _global_value(op: Any, ty: b.MemRefType) -> MemRef:
    sizes, strides, offset = sized(ty)
    element, value = element_of(ty), op.properties.get("initial_value")
    need_whole_bytes(element, op)
    array = np.zeros(prod(sizes), element.dtype)
    if isinstance(value, b.DenseIntOrFPElementsAttr):
        array[:] = to_elements(np.array(value.get_values()), element)
    stated = op.properties.get("alignment")
    data = aligned_bytes(array.nbytes, DEFAULT_ALIGNMENT if stated is None else stated.value.data)
    data[:] = array.view(np.uint8)
    name = f"@{op.properties['sym_name'].data}"
    return MemRef(
        Buffer(data, 1, name, read_only="constant" in op.properties), offset, sizes, strides
    )


@implements("memref.alloca")
def _alloca(op: Any, t: Translator) -> Step:
    """New thread-local memory, with all bits set, so that uninitialized floats are NaN."""
    make, result = local_value(op.results[0].type, "memref.alloca"), t.slot(op.results[0])

    def step(warp: Warp) -> None:
        warp.regs[result] = make()

    return step


@implements(
    "memref.cast",
    "memref.memory_space_cast",
    "memref.assume_alignment",
    "builtin.unrealized_conversion_cast",
    wide=True,
)
def _same(op: Operation, t: Translator) -> Step | None:
    """The same memory or value: casts and assumptions."""
    if not op.results:
        return None
    source, result = t.slot(op.operands[0]), t.slot(op.results[0])

    def step(warp: Warp) -> None:
        warp.regs[result] = warp.regs[source]

    return step


def _mixed(static: Any, dynamic: Sequence[SSAValue], t: Translator) -> list[tuple[bool, int]]:
    """Static numbers (False), and the slots of dynamic ones (True)."""
    rest = list(t.slots(dynamic))
    return [
        (True, rest.pop(0)) if number == _DYNAMIC else (False, number)
        for number in static.get_values()
    ]


def _number(warp: Warp, item: tuple[bool, int], op: Operation) -> int:
    """A size or stride, which must be uniform."""
    is_dynamic, number = item
    if not is_dynamic:
        return number
    found = uniform(warp.regs[number], warp.mask)
    if found is None:
        raise Fault(codes.UNSUPPORTED, f"lanes of a warp have different extents in {op.name}", op)
    return found


@implements("memref.subview", wide=True)
def _subview(op: Any, t: Translator) -> Step:
    """A memref to the part with these offsets, sizes and strides, in elements of the source.

    A part beyond the source is reported at an access, one before the buffer raises ``Fault``.
    """
    source, result = t.slot(op.source), t.slot(op.results[0])
    offsets = _mixed(op.static_offsets, op.offsets, t)
    sizes = _mixed(op.static_sizes, op.sizes, t)
    strides = _mixed(op.static_strides, op.strides, t)
    kept = _kept_dimensions(op)

    def step(warp: Warp) -> None:
        r = warp.regs
        memref = r[source]
        place = memref.offset
        for (is_dynamic, number), stride in zip(offsets, memref.strides):
            place = place + (r[number] if is_dynamic else number) * stride
        lowest = place if type(place) is int else int(place[warp.mask].min())
        if lowest < 0:
            raise Fault(
                codes.OUT_OF_BOUNDS,
                f"memref.subview of {warp.name()} starts before {memref.buffer.name}",
                op,
            )
        found_sizes = tuple(_number(warp, item, op) for item in sizes)
        found_strides = tuple(
            _number(warp, item, op) * stride for item, stride in zip(strides, memref.strides)
        )
        r[result] = MemRef(
            memref.buffer,
            place,
            tuple(found_sizes[axis] for axis in kept),
            tuple(found_strides[axis] for axis in kept),
            memref.base,
        )

    return step


def _kept_dimensions(op: Any) -> list[int]:
    """The dimensions of the source that the result keeps; those of extent 1 may be dropped."""
    sizes, wanted = list(op.static_sizes.get_values()), list(op.results[0].type.get_shape())
    surplus = len(sizes) - len(wanted)
    kept: list[int] = []
    for axis, size in enumerate(sizes):
        follows = len(kept) < len(wanted) and wanted[len(kept)] == size
        if surplus and size == 1 and not (follows and _fits(sizes[axis:], wanted[len(kept) :])):
            surplus -= 1
        else:
            kept.append(axis)
    return kept


def _fits(sizes: list[int], wanted: list[int]) -> bool:
    """Whether ``sizes`` becomes ``wanted`` by dropping extents of 1 after the first."""
    rest = list(wanted[1:])
    for size in sizes[1:]:
        if rest and rest[0] == size:
            rest.pop(0)
        elif size != 1:
            return False
    return not rest


@implements("memref.reinterpret_cast", wide=True)
def _reinterpret(op: Any, t: Translator) -> Step:
    """A memref to the same memory with this offset, sizes and strides, in elements from its base."""
    source, result = t.slot(op.source), t.slot(op.results[0])
    offsets = _mixed(op.static_offsets, op.offsets, t)
    sizes = _mixed(op.static_sizes, op.sizes, t)
    strides = _mixed(op.static_strides, op.strides, t)

    def step(warp: Warp) -> None:
        r = warp.regs
        is_dynamic, number = offsets[0]
        memref = r[source]
        r[result] = MemRef(
            memref.buffer,
            memref.base + (r[number] if is_dynamic else number),
            tuple(_number(warp, item, op) for item in sizes),
            tuple(_number(warp, item, op) for item in strides),
            memref.base,
        )

    return step


@implements("memref.view", wide=True)
def _view(op: Any, t: Translator) -> Step:
    """Bytes as elements of another type, starting ``byte_shift`` bytes after the source's start.

    Raises ``Fault`` if the start is misaligned, if the view exceeds the source, or if shifts differ between lanes.
    """
    source, shift = t.slot(op.source), t.slot(op.byte_shift)
    result, ty = t.slot(op.results[0]), op.results[0].type
    element, dynamic = element_of(ty), list(t.slots(op.sizes))
    extents = [(True, dynamic.pop(0)) if n == _DYNAMIC else (False, n) for n in ty.get_shape()]

    def step(warp: Warp) -> None:
        r = warp.regs
        memref, start = r[source], uniform(r[shift], warp.mask)
        sizes = tuple(_number(warp, item, op) for item in extents)
        if start is None:
            raise Fault(codes.UNSUPPORTED, "lanes of a warp shift memref.view differently", op)
        place, size = memref.offset + start, -(-prod(sizes) * element.stored_bits // 8)
        if place % element.size:
            raise Fault(
                codes.MISALIGNED,
                f"memref.view of {warp.name()} begins at byte {place}, which is not a multiple of "
                f"the {element.size} bytes of an element",
                op,
            )
        if start < 0 or start + size > memref.sizes[0]:
            raise Fault(
                codes.OUT_OF_BOUNDS,
                f"memref.view of {warp.name()} takes bytes {start} to {start + size} of "
                f"{memref.sizes[0]}",
                op,
                help="give the launch more dynamic shared memory",
            )
        base = 8 * place // element.stored_bits
        r[result] = MemRef(memref.buffer, base, sizes, row_major(sizes), base)

    return step


@implements("memref.dim", wide=True)
def _dim(op: Any, t: Translator) -> Step:
    """The extent of a dimension. Raises ``Fault`` if there is no such dimension."""
    source, index, result = t.slot(op.source), t.slot(op.index), t.slot(op.results[0])

    def step(warp: Warp) -> None:
        axis = uniform(warp.regs[index], warp.mask)
        sizes = warp.regs[source].sizes
        if axis is None or not 0 <= axis < len(sizes):
            raise Fault(codes.OUT_OF_BOUNDS, f"memref.dim of dimension {axis}", op)
        warp.regs[result] = sizes[axis]

    return step


@implements("memref.rank", wide=True)
def _rank(op: Any, t: Translator) -> Step:
    """The number of dimensions."""
    source, result = t.slot(op.operands[0]), t.slot(op.results[0])

    def step(warp: Warp) -> None:
        warp.regs[result] = len(warp.regs[source].sizes)

    return step
