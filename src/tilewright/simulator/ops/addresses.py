"""``llvm``: global memory by address. Gathers, scatters, loads, stores, and pointer arithmetic.

A pointer is its address: an int if uniform, or an int64 array with one per lane. Lanes and elements that a mask turns
off touch no memory. Of several stores to one address the last lane's remains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import builtin as b
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Operation

from tilewright.dialects.upstream.base.shapes import element_of as element_type
from tilewright.dialects.upstream.llvm.ops import GetElementPtrOp
from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.address_space import address_of
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.global_memory import ADDRESS, Access, check_space, in_memory, lanes_of
from tilewright.simulator.memory import GLOBAL, MemRef
from tilewright.simulator.state import Warp
from tilewright.simulator.values import element_of, lanes, shape_of

_SHARED = b.IntAttr(3)

# Gathers and scatters


def _active(warp: Warp, mask: Array) -> Array:
    return mask if warp.full else mask & warp.mask[:, None]


@implements("llvm.intr.masked.gather", wide=True)
def _gather(op: Any, t: Translator) -> Step:
    """Loads the elements whose mask is true; the others are those of ``pass_thru``, or 0.

    Raises ``Fault`` for the first address outside of the launch's memory.
    """
    pointers, mask, result = t.slot(op.ptrs), t.slot(op.mask), t.slot(op.res)
    other = None if op.pass_thru is None else t.slot(op.pass_thru)
    access = Access(op, op.ptrs.type, op.res.type, "reads")
    dtype = access.element.dtype

    def step(warp: Warp) -> None:
        r = warp.regs
        addresses, active = r[pointers], _active(warp, r[mask])
        who = lanes_of(active)
        if active.all():
            flat = addresses.reshape(-1)
            access.check_aligned(warp, flat, who)
            r[result] = access.read(warp, flat, who).reshape(addresses.shape)
            return
        found = np.zeros(addresses.shape, dtype) if other is None else r[other].copy()
        flat = addresses[active]
        if flat.size:
            access.check_aligned(warp, flat, who)
            found[active] = access.read(warp, flat, who)
        r[result] = found

    return step


@implements("llvm.intr.masked.scatter", wide=True)
def _scatter(op: Any, t: Translator) -> Step:
    """Stores the elements whose mask is true. Addresses are checked as for a gather."""
    value, pointers, mask = t.slot(op.value), t.slot(op.ptrs), t.slot(op.mask)
    access = Access(op, op.ptrs.type, op.value.type, "writes")

    def step(warp: Warp) -> None:
        r = warp.regs
        active = _active(warp, r[mask])
        flat, who = r[pointers][active], lanes_of(active)
        if flat.size:
            access.check_aligned(warp, flat, who)
            access.write(warp, flat, r[value][active], who)

    return step


# Loads and stores with one address per lane


def _spread(address: Any, count: int, size: int) -> Array:
    """The addresses of the elements of a vector in memory: lanes x elements."""
    return np.asarray(address, ADDRESS).reshape(-1, 1) + np.arange(count) * size


@implements("llvm.load", wide=True)
def _load(op: Any, t: Translator) -> Step:
    """Loads the elements of the result from consecutive addresses, for each lane."""
    pointer, result = t.slot(op.addr), t.slot(op.res)
    access = Access(op, op.addr.type, op.res.type, "reads")
    (count,) = shape_of(op.res.type) or (1,)
    is_vector = isinstance(op.res.type, b.VectorType)
    whole = not is_vector and not access.element.is_float

    def step(warp: Warp) -> None:
        r = warp.regs
        address = r[pointer]
        shared = isinstance(address, int)
        starts = np.full(1, address, ADDRESS) if shared else address[warp.mask]
        who = _first_lane(warp) if shared else lanes_of(warp.mask)
        access.check_aligned(warp, starts, who)
        if is_vector:
            each = lanes_of(np.broadcast_to(warp.mask[:, None], (warp.size, count)))
            found = access.read(warp, _spread(starts, count, access.size).reshape(-1), each)
            found = found.reshape(-1, count)
        else:
            found = access.read(warp, starts, who)
        if shared:
            missing = warp.active - 1
            warp.launch.counters.global_bytes_read += missing * access.whole
            if whole:
                r[result] = found[0].item()
                return
            r[result] = np.broadcast_to(found, (warp.size, *found.shape[1:]))
            return
        if warp.full:
            r[result] = found
            return
        everywhere = np.zeros((warp.size, *found.shape[1:]), found.dtype)
        everywhere[warp.mask] = found
        r[result] = everywhere

    return step


def _first_lane(warp: Warp) -> Callable[[], Array]:
    return lambda: np.full(warp.size, int(warp.mask.argmax()))


@implements("llvm.store", wide=True)
def _store(op: Any, t: Translator) -> Step:
    """Stores the elements of each active lane to consecutive addresses."""
    value, pointer = t.slot(op.value), t.slot(op.addr)
    access = Access(op, op.addr.type, op.value.type, "writes")
    (count,) = shape_of(op.value.type) or (1,)
    is_vector = isinstance(op.value.type, b.VectorType)

    def step(warp: Warp) -> None:
        r = warp.regs
        addresses = lanes(r[pointer], ADDRESS, warp.size)[warp.mask]
        values = lanes(r[value], access.element.dtype, warp.size)[warp.mask]
        who = lanes_of(warp.mask)
        access.check_aligned(warp, addresses, who)
        if is_vector:
            addresses = _spread(addresses, count, access.size).reshape(-1)
            values = values.reshape(-1)
            who = lanes_of(np.broadcast_to(warp.mask[:, None], (warp.size, count)))
        access.write(warp, addresses, values, who)

    return step


# Pointer arithmetic


@implements("llvm.mlir.zero", wide=True)
def _zero(op: Operation, t: Translator) -> None:
    """The null pointer, a preset. Raises ``Fault`` for an address space that is not simulated."""
    check_space(op.results[0].type)
    t.preset(op.results[0], 0)


@implements("llvm.ptrtoint", "llvm.inttoptr", "llvm.addrspacecast", wide=True)
def _convert(op: Operation, t: Translator) -> Step:
    """Converts pointers, which are 64-bit integers, by extending or truncating them.

    Raises ``Fault`` for pointers to address spaces that are not simulated. Shared memory is permitted, as copies take
    addresses in it.
    """
    source, result = t.slot(op.operands[0]), t.slot(op.results[0])
    for value in (op.operands[0], op.results[0]):
        pointer = element_type(value.type)
        # ``cp.async`` takes addresses in shared memory.
        if isinstance(pointer, LLVMPointerType) and pointer.addr_space != _SHARED:
            check_space(value.type)
    old, new = element_of(op.operands[0].type), element_of(op.results[0].type)
    if old.bits == 1 or new.bits == 1:
        raise Fault(codes.UNSUPPORTED, f"the simulator makes no pointers of i1 in {op.name}")
    mask, half = (1 << min(old.bits, new.bits)) - 1, 1 << (new.bits - 1)
    unsigned = np.dtype(f"u{old.size}")

    def step(warp: Warp) -> None:
        value = warp.regs[source]
        if isinstance(value, int):
            value = (((value & mask) + half) & ((1 << new.bits) - 1)) - half
        elif old.bits != new.bits:
            value = value.view(unsigned).astype(new.dtype)
        warp.regs[result] = value

    return step


@implements("llvm.getelementptr", wide=True)
def _offset(op: GetElementPtrOp, t: Translator) -> Step:
    """Adds an offset in elements, scaled to bytes. Raises ``Fault`` for more than one index."""
    check_space(op.base.type)
    places, ty = op.places, op.properties["elem_type"]
    if len(places) != 1:
        raise Fault(codes.UNSUPPORTED, f"{op.name} with one place only runs on the simulator")
    size = in_memory(element_of(ty)).itemsize
    base, result, place = t.slot(op.base), t.slot(op.res), places[0]
    slot = None if isinstance(place, int) else t.slot(place)
    distance = place * size if isinstance(place, int) else 0
    rank = len(shape_of(op.res.type))

    def step(warp: Warp) -> None:
        r = warp.regs
        start, far = r[base], distance
        if slot is not None:
            far = r[slot]
            far = (far if isinstance(far, int) else far.astype(ADDRESS)) * size
        r[result] = _aligned_axes(start, rank) + _aligned_axes(far, rank)

    return step


def _aligned_axes(value: Any, rank: int) -> Any:
    """Add an axis to a number per lane that is used beside vectors."""
    if isinstance(value, np.ndarray) and value.ndim - 1 < rank:
        return value[:, None]
    return value


@implements("memref.extract_aligned_pointer_as_index")
def _pointer_of(op: Any, t: Translator) -> Step:
    """The address of a memref's memory: the host's for global memory, else the offset in shared memory.

    Raises ``Fault`` for thread-local memory.
    """
    source, result = t.slot(op.source), t.slot(op.results[0])
    size = element_of(op.source.type).size

    def step(warp: Warp) -> None:
        memref: MemRef = warp.regs[source]
        start = address_of(memref.buffer.data) if memref.buffer.space == GLOBAL else 0
        if memref.buffer.lane_bytes:
            raise Fault(codes.UNSUPPORTED, "memory of threads has no address here", op)
        warp.regs[result] = start + memref.base * size

    return step
