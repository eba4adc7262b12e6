"""Products without a tensor-core instruction: each thread accumulates a few rows and columns from operands in shared memory.

A warp reads a distinct element once, no matter how many of its threads want it; a thread therefore computes a square of the result, as
large as registers allow. Which thread reads which operand elements is a layout with replication, and the shared-memory layout of the
operands follows from it and from the layout in which they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.layouts import Layout, SharedLayout, gf2
from tilewright.layouts.conversions import WIDEST, shared_between, waves_of
from tilewright.layouts.layout import axis_bits, bits_of
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.target import LEAST_SHARED_BYTES

#: The instruction of nv_tileas.dot for products by arithmetic of threads.
FMA = "fma"
#: Neighbouring columns of a thread, which it reads and stores at once: 4.
_COLUMN_BITS = 2
#: Lanes along the columns of a warp: with 4 columns each a row of 128 bytes.
_LANE_BITS = 3
#: The shared memory that both operands may take.
MOST_BYTES = LEAST_SHARED_BYTES * 2 // 3


def thread_accumulator(dims: Sequence[int], threads: int) -> Layout:
    """The layout of the sums, of shape ``(..., m, n)``: of a thread 4 columns side by side, and in turns more rows and
    columns; lanes go along columns, then rows, then the batch."""
    *batches, rows, columns = [list(bits) for bits in axis_bits(dims)]
    batch = [bit for bits in reversed(batches) for bit in bits]
    free = max(sum(map(len, (batch, rows, columns))) - bits_of(threads), 0)
    count = min(_COLUMN_BITS, len(columns), free)
    register, columns = columns[:count], columns[count:]
    along = [0, len(register)]
    while len(register) < free:
        if rows and (along[0] <= along[1] or not columns):
            register.append(rows.pop(0))
            along[0] += 1
        elif columns:
            # The upper ones: neighbouring lanes have neighbouring columns.
            register.append(columns.pop())
            along[1] += 1
        else:
            register.append(batch.pop())
    order = [*columns[:_LANE_BITS], *rows, *columns[_LANE_BITS:], *batch]
    thread = [1 << bit for bit in order]
    thread += [0] * (bits_of(threads) - len(thread))
    return Layout(
        prod(dims), tuple(1 << bit for bit in register), tuple(thread[:5]), tuple(thread[5:])
    )


def reader(sums: Layout, dims: Sequence[int], depth: int, side: int, size: int) -> Layout:
    """What threads read of the left (``side`` 0) or right operand, whose elements have ``size`` bytes, for sums of a
    tile of ``dims``: in the lower registers, of which there are ``slab_registers``, what they need at once."""
    *batches, rows, columns = axis_bits(dims)
    deep = bits_of(depth)
    bit_to: dict[int, int] = {}
    if side == 0:
        along = range(deep)
        bit_to.update((bit, deep + place) for place, bit in enumerate(rows))
    else:
        along = range(len(columns), len(columns) + deep)
        bit_to.update((bit, place) for place, bit in enumerate(columns))
    below = deep + len(rows if side == 0 else columns)
    for bits in reversed(batches):
        bit_to.update((bit, below + place) for place, bit in enumerate(bits))
        below += len(bits)

    def moved(basis: int) -> int:
        return sum(1 << target for bit, target in bit_to.items() if basis >> bit & 1)

    at_once = min(_slab_bits(size), deep)
    k = [1 << bit for bit in along]
    own = gf2.independent(map(moved, sums.register))
    register = (*k[:at_once], *own, *k[at_once:])
    return Layout(1 << below, register, tuple(map(moved, sums.lane)), tuple(map(moved, sums.warp)))


def _slab_bits(size: int) -> int:
    return bits_of(WIDEST // size)


def slab_depth(depth: int, sizes: Sequence[int]) -> int:
    """How many k threads read at once: 16 bytes of the smaller elements."""
    return min(1 << _slab_bits(min(sizes)), depth)


def is_by_threads(op: DotOp) -> bool:
    """Whether no GPU has a tensor-core instruction for a product: its operands are f32, which nobody may round to tf32."""
    names = {T.element_name(T.element_of(value.type)) for value in (op.a, op.b)}
    return names == {"f32"}


@dataclass(frozen=True)
class ThreadPlan:
    """A product by arithmetic of threads; ``sizes`` are the bytes of an element of the operands."""

    dims: tuple[int, ...]
    depth: int
    sizes: tuple[int, int]
    threads: int

    @cached_property
    def accumulator(self) -> Layout:
        """The layout of the sums."""
        return thread_accumulator(self.dims, self.threads)

    @property
    def warps(self) -> tuple[int, int]:
        """The grid of warps over rows and columns; those along the batch count as rows."""
        (columns,) = axis_bits(self.dims)[-1:]
        across = sum(1 for basis in self.accumulator.warp if basis and basis >> columns.stop == 0)
        return self.threads // 32 >> across, 1 << across

    def reader(self, side: int) -> Layout:
        """The layout in which threads read an operand, the left one for side 0."""
        return reader(self.accumulator, self.dims, self.depth, side, min(self.sizes))

    def storage(self, own: Layout, dims: Sequence[int], inner: int, side: int) -> SharedLayout:
        """Where an operand lies that threads hold in a layout, with neighbours along ``inner``: swizzled as hardware does it,
        where neither writing nor reading has bank conflicts then, else in an order that is solved for that."""
        size, target = self.sizes[side], self.reader(side)
        swizzled = SharedLayout.swizzled(dims, inner, size)
        run = min(own.run(dims, inner), WIDEST // size)
        vector = [1 << bit for bit in axis_bits(dims)[inner]][: bits_of(run)]
        return min(
            (swizzled, shared_between(own, target, size, vector)),
            key=lambda found: max(waves_of(each, found, size) for each in (own, target)),
        )

    def describe(self) -> str:
        """As remarks call it."""
        rows, columns = tile_of_thread(self.accumulator, self.dims)
        return (
            "no tensor-core instruction has these types and shapes: computed with FMA, "
            f"{rows}x{columns} elements per thread"
        )


def tile_of_thread(sums: Layout, dims: Sequence[int]) -> tuple[int, int]:
    """The rows, of all matrices of a batch, and the columns of which a thread has sums."""
    across = sum(1 for basis in sums.register if basis < dims[-1])
    return sums.registers >> across, 1 << across


def plan_threads(op: DotOp, threads: int) -> ThreadPlan | None:
    """How threads make a product; None where operands are scaled, have less than 8 bits, or do not fit into shared memory
    together."""
    a_dims, b_dims, dims = (T.dims_of(value.type) for value in (op.a, op.b, op.c))
    names = [T.element_name(T.element_of(value.type)) for value in (op.a, op.b)]
    if op.sfa is not None or any(FORMATS[name].storage_bits < 8 for name in names):
        return None
    sizes = element_bytes(op.a.type), element_bytes(op.b.type)
    if prod(a_dims) * sizes[0] + prod(b_dims) * sizes[1] > MOST_BYTES:
        return None
    return ThreadPlan(dims, a_dims[-1], sizes, threads)
