"""The widest legal access to global memory, and the layout in which it is coalesced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from tilewright.analysis.tileaa import Facts
from tilewright.analysis.tileaa.geometry import Extent, cut_by, source_of_assumes, view_axes
from tilewright.analysis.tileaa.patterns import pointer_start
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.memory import Scattered
from tilewright.dialects.syntax.engine import values_of
from tilewright.layouts import Layout, SharedLayout, gf2
from tilewright.layouts.conversions import WIDEST, shared_between, waves_of
from tilewright.layouts.layout import axis_bits, bits_of
from tilewright.numerics.element_types import FORMATS

#: Global memory moves whole sectors of so many bytes.
SECTOR = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """An access whose elements lie side by side along ``axis``; a thread may move ``width`` of them,
    from an aligned one on, at once: they are aligned in memory and all there, or none is.

    Where only ``proven`` of them are known to be so (None: all), the code has to ask at run time.
    """

    axis: int
    width: int
    proven: int | None = None

    @property
    def known(self) -> int:
        """How many elements may move at once without asking at run time."""
        return self.width if self.proven is None else self.proven

    def narrowed(self, width: int) -> Shape:
        """The same access of ``width`` elements at once at most."""
        proven = None if self.proven is None else min(self.proven, width)
        return Shape(self.axis, min(self.width, width), proven)


def element_bytes(ty: object) -> int:
    """The bytes that an element of a tile type takes in memory, at least 1: two elements of 4 bits share theirs."""
    element = T.element_of(ty)  # pyright: ignore[reportArgumentType]
    name = T.element_name(element)
    if name in ("ptr", "index"):
        return 8
    return max(FORMATS[name].storage_bits // 8, 1)


def access_shape(facts: Facts, op: Access) -> Shape:
    """How an access may move its elements; single ones along the last axis where nothing is known.

    The axis is the one with neighbours in memory. The width, in elements, is up to 16 bytes; for how many of them
    alignment, bounds and masks are proven is beside it.
    """
    dims = T.dims_of(op.moved.type) or (1,)
    (base,) = values_of(op, "base")
    last = max((axis for axis, extent in enumerate(dims) if extent > 1), default=len(dims) - 1)
    if isinstance(op, Scattered) and isinstance(base.type, T.MemrefType):
        return Shape(last, 1)
    if isinstance(T.element_of(base.type), T.PtrType):
        return _of_pointers(facts, op, base, dims, last)
    return _of_view(facts, op, base, dims, last)


def _of_pointers(facts: Facts, op: Access, base: SSAValue, dims: Sequence[int], last: int) -> Shape:
    if not T.dims_of(base.type):
        return Shape(last, 1)
    size = element_bytes(op.moved.type)
    axes = facts.patterns.of(base).axes
    axis = max(range(len(dims)), key=lambda at: (axes[at].run if dims[at] > 1 else 0, at))
    pattern = axes[axis]
    wide = max(min(pattern.run, max(WIDEST // size, 1), dims[axis]), 1)
    width = wide
    while width > 1 and pointer_start(pattern, width, size) % (width * size):
        width //= 2
    return Shape(axis, wide, max(_under_masks(facts, op, axis, width), 1))


def _under_masks(facts: Facts, op: Access, axis: int, width: int) -> int:
    """So many neighbours of ``width`` share their mask."""
    for mask in values_of(op, "mask"):
        if T.dims_of(mask.type):
            width = min(width, facts.patterns.of(mask).axes[axis].repeat)
    return width


def _of_view(facts: Facts, op: Access, base: SSAValue, dims: Sequence[int], last: int) -> Shape:
    axes = view_axes(source_of_assumes(base), tuple(dims))
    indices = values_of(op, "indices")
    if axes is None or len(axes) != len(dims):
        return Shape(last, 1)
    dense = [at for at, axis in enumerate(axes) if axis.stride == 1 and dims[at] > 1]
    open_ = [
        at for at, axis in enumerate(axes) if not isinstance(axis.stride, int) and dims[at] > 1
    ]
    if not dense and not open_:
        return Shape(last, 1)
    inner = (dense or open_)[-1]
    axis, size = axes[inner], element_bytes(op.moved.type)
    if axis.sparse or T.dims_of(indices[inner].type):
        return Shape(inner, 1)
    wide = width = min(max(WIDEST // size, 1), dims[inner])
    cutter = cut_by(source_of_assumes(base))
    memref = base if cutter is None else cutter.source
    width = min(width, max(facts.bulk_copies.alignment(memref) // size, 1)) if dense else 1
    for at, other in enumerate(axes):
        if at != inner and other.stride != 1:
            width = min(width, _divisor(facts, other.stride))
    if axis.step % width:
        width = axis.step & -axis.step
    if axis.step == 1:
        width = min(width, facts.patterns.of(indices[inner]).divisor)
    facts_of_axes = facts.bounds.of(op)
    inside = len(facts_of_axes) > inner and facts_of_axes[inner].verdict == "inside"
    if not inside:
        width = min(width, _divisor(facts, axis.extent))
    return Shape(inner, wide, max(_under_masks(facts, op, inner, width), 1))


def _divisor(facts: Facts, extent: Extent) -> int:
    """The power of two that is known to divide a number."""
    if extent is None:
        return 1
    if isinstance(extent, int):
        return extent & -extent if extent else 1 << 30
    return facts.patterns.of(extent).divisor


def coalesced(dims: Sequence[int], threads: int, shape: Shape) -> Layout:
    """The layout in which the threads of a warp access neighbours along the axis of ``shape``, ``shape.width``
    elements each.
    """
    order = [shape.axis, *(axis for axis in reversed(range(len(dims))) if axis != shape.axis)]
    return Layout.blocked(dims, threads, order, shape.width)


def copied(dims: Sequence[int], threads: int, shape: Shape) -> Layout:
    """The layout in which threads copy a tile to shared memory, so many neighbours at once: as they would load it, and of a tile
    with few elements the first threads alone."""
    active = min(threads, max(prod(dims) // shape.width, 1))
    few = coalesced(dims, active, shape)
    thread = (*few.lane, *few.warp)[: active.bit_length() - 1]
    thread += (0,) * (threads.bit_length() - 1 - len(thread))
    return Layout(few.size, few.register, thread[:5], thread[5:])


def fills_sectors(layout: Layout, dims: Sequence[int], shape: Shape, size: int) -> bool:
    """Whether what a warp accesses by one instruction are whole sectors, in accesses of 4 bytes and
    more, so that bringing the tile into a better layout first would not pay."""
    run = min(layout.run(dims, shape.axis), shape.width)
    if run * size < min(4, prod(dims) * size):
        return False
    space = gf2.Space(layout.register[: run.bit_length() - 1] + layout.lane)
    found = 0
    for bit in axis_bits(dims)[shape.axis]:
        if 1 << bit not in space:
            break
        found += 1
    return size << found >= SECTOR


def storage_between(filled: Layout, read: Layout, size: int) -> SharedLayout | None:
    """Shared memory for elements of ``size`` bytes that layout ``filled``, whose first registers are neighbours in memory, writes
    and layout ``read`` reads, as wide as the former can; None where either has conflicts of banks in all of them."""
    most = min(bits_of(WIDEST // size), len(filled.register))
    for width in range(most, -1, -1):
        shared = shared_between(filled, read, size, filled.register[:width])
        if all(waves_of(side, shared, size) == 1 for side in (filled, read)):
            return shared
    return None
