"""Stores past the caches: where they pay, and where they must not be.

What is written so is collected until a line is whole. A Zen 3 gives up a line half-way if something is read whose address has the same
last twelve bits as what has just been written: it then takes ten times as long, or more. That goes on through whole arrays where
the one that is written lies a few hundred bytes further in its page than one that is read at the same pace.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod

from llvmlite import ir
from xdsl.ir import Block, Operation

from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I64, Element
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.tiles import Strided, Tile, walk
from tilewright.cpu.codegen.loops.value_ranges import reach
from tilewright.cpu.codegen.memory.access import STREAM_ALIGNMENT, ViewLoad, view_of
from tilewright.cpu.codegen.memory.views import Memref, TilePosition, as_value
from tilewright.dialects.nv_tileaa.ops import memory as M

#: How long rows must be, and which memory such stores are for, in bytes.
SHORTEST_STREAM = 256
_LARGER_THAN_CACHES = 1 << 25
_MOST_STREAMS = 4
_LINE, _PAGE = 64, 4096
#: By how many bytes of a page at least something that is written must not follow what is read.
_TOO_NEAR = 512
#: What a kernel accesses need not stay in the last cache if it takes so many times as much.
_TIMES_CACHE = 1


def non_temporal_where(
    f: FunctionEmitter, op: M.TiledStoreOp, place: TilePosition, values: Sequence[Tile]
) -> Value | None:
    """Whether a store, in a nest that computes these values, bypasses the caches: it goes to memory that the kernel does not read, and that is larger than they are,
    or all is that the kernel accesses. None where it never does."""
    along, size = place.contiguous, place.element.buffer_bytes
    if not f.unit.target.is_x86 or op not in f.plan.non_temporal or along is None:
        return None
    b, memref = f.builder, view_of(f, op, place.dims).memref
    limits = [(_bytes_of(b, [memref]), _LARGER_THAN_CACHES)]
    limits.append((_bytes_of(b, _accessed(f, op)), too_many_bytes(f)))
    large = [
        b.icmp_unsigned(">=", found, ir.Constant(I64, least))
        for found, least in limits
        if not isinstance(found, ir.Constant) or found.constant >= least
    ]
    if place.dims[along] * size < SHORTEST_STREAM or not large:
        return None
    low_bits = b.ptrtoint(place.pointer, I64)
    for axis, stride in enumerate(place.strides):
        if axis != along and place.dims[axis] > 1:
            low_bits = b.or_(low_bits, b.mul(as_value(stride), ir.Constant(I64, size)))
    rest = b.and_(low_bits, ir.Constant(I64, STREAM_ALIGNMENT - 1))
    aligned = b.icmp_unsigned("==", rest, ir.Constant(I64, 0))
    f.unit.has_non_temporal_stores = True
    far = far_from_reads(b, [b.ptrtoint(place.pointer, I64)], place.element, values)
    return llvm.all_of(b, [aligned, *far, reduce(b.or_, large)])


def may_stream(f: FunctionEmitter, arrays: int) -> bool:
    """Whether one nest may write to so many arrays past the caches. Where vectors are parts of lines, a processor collects
    those of few lines at once: of eight streams, a Zen 3 wrote each line in parts, in four times the time."""
    return f.unit.target.vector_bits >= 8 * _LINE or arrays <= _MOST_STREAMS


def too_many_bytes(f: FunctionEmitter) -> int:
    """From how many bytes on what a kernel accesses need not stay in caches."""
    return f.unit.target.l3_bytes * _TIMES_CACHE


def _accessed(f: FunctionEmitter, op: Operation) -> list[Memref]:
    """The arrays that a kernel accesses through views, as far as their memrefs are known where an operation stands."""
    found: list[Memref] = []
    for value in f.plan.arrays:
        memref, owner = f.values.get(value), value.owner
        home = owner if isinstance(owner, Block) else owner.parent
        if isinstance(memref, Memref) and home is not None and home.is_ancestor(op):
            found.append(memref)
    return found


def _bytes_of(b: Builder, memrefs: Sequence[Memref]) -> Value:
    """How many bytes arrays have together."""
    known, others = 0, list[Value]()
    for memref in memrefs:
        size = memref.element.memory_bytes * prod(n for n in memref.sizes if isinstance(n, int))
        extents = [extent for extent in memref.sizes if not isinstance(extent, int)]
        if extents:
            others.append(reduce(b.mul, extents, ir.Constant(I64, size)))
        else:
            known += size
    return reduce(b.add, others, ir.Constant(I64, known))


def far_from_reads(
    b: Builder, written: Sequence[Value], element: Element, values: Sequence[Tile]
) -> list[Value]:
    """Conditions under which no line that is being written, from these addresses on, is given up for what is read of elements of the
    same length."""
    read: dict[int, Value] = {}
    for tile in walk(*values):
        if tile.element.buffer_bytes == element.buffer_bytes:
            address = _address_read(b, tile)
            if address is not None:
                read[id(address)] = address
    found: list[Value] = []
    for target in written:
        for source in read.values():
            before = b.sub(b.sub(target, source), ir.Constant(I64, 1))
            place = b.and_(before, ir.Constant(I64, _PAGE - 1))
            found.append(b.icmp_unsigned(">=", place, ir.Constant(I64, _TOO_NEAR - 1)))
    return found


def _address_read(b: Builder, tile: Tile) -> Value | None:
    """Where a tile begins that is read from memory; None for others, and where no formula tells. Nobody asks where a tile of the stack
    lies: it would have to stay there."""
    if isinstance(tile, ViewLoad):
        return b.ptrtoint(tile.place.pointer, I64)
    if isinstance(tile, Strided):
        return None if tile.is_on_stack else b.ptrtoint(tile.pointer, I64)
    access = tile.through_pointers
    reached = None if access is None else reach(b, access.pointers, access.whole_mask)
    return None if reached is None else reached.first
