"""``wgmma``: products of a warpgroup, whose accumulators are ready when their group is waited for.

Each warp computes its 16 of every 64 rows when it executes the product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array
from tilewright.numerics.tensor_cores import multiply_add, multiply_add_integers, unit_of
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault, note_at
from tilewright.simulator.layouts import tile_offsets
from tilewright.simulator.memory import SHARED, MemRef
from tilewright.simulator.ops.threads import collective
from tilewright.simulator.proxies import note_elements
from tilewright.simulator.shadow import Proxy
from tilewright.simulator.state import WARP_SIZE, Warp
from tilewright.simulator.values import Element, element_of

#: Warps of a warpgroup, rows of an instruction, rows of a warp in it, bytes of a line.
GROUP_WARPS, ROWS, WARP_ROWS, LINE = 4, 64, 16, 128
_PATTERN = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Descriptor:
    """A matrix in shared memory, at byte ``start``."""

    start: int
    bytes: int
    op: Operation


@dataclass(frozen=True, slots=True, eq=False)
class Accumulator:
    """The rows of an accumulator that a warp holds, 16 of every 64. ``group`` must be waited for before a read."""

    rows: Array
    group: int = 0
    op: Operation | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """A product in flight, with the shared memory that it reads."""

    op: Operation
    group: int
    number: int
    places: tuple[slice, ...]
    start: float
    end: float


def _accumulator_type(ty: Any) -> tuple[int, int, Element]:
    rows, columns = ty.fragmented.get_shape()
    return rows, columns, element_of(ty.fragmented)


@implements("nvgpu.warpgroup.generate.descriptor")
def _descriptor(op: Any, t: Translator) -> Step:
    """A descriptor of a matrix in shared memory, laid out as its tensor map specifies."""
    source, result = t.slot(op.tensor), t.slot(op.results[0])
    element, extents = element_of(op.tensor.type), op.tensor.type.get_shape()
    size = int(np.prod(extents)) * element.size

    def step(warp: Warp) -> None:
        memref: MemRef = warp.regs[source]
        offset = memref.offset
        if type(offset) is not int:
            raise Fault(codes.DIVERGENT, f"lanes of {warp.name()} have different matrices", op)
        start = offset * element.size
        if start % _PATTERN:
            raise Fault(
                codes.MISALIGNED,
                f"{op.name} of {warp.name()} accesses a matrix at shared byte {start}, which is "
                f"not a multiple of the {_PATTERN} bytes of the swizzle pattern",
                op,
                help=f"give the memory an alignment of {_PATTERN}",
            )
        if start + size > warp.block.shared.data.size:
            raise Fault(codes.OUT_OF_BOUNDS, f"{op.name} of {warp.name()} leaves shared memory", op)
        warp.regs[result] = Descriptor(start, size, op)

    return step


@implements("nvgpu.warpgroup.mma.init.accumulator")
def _init(op: Any, t: Translator) -> None:
    """A zero accumulator; each warp holds a quarter of the rows."""
    rows, columns, element = _accumulator_type(op.results[0].type)
    zeros = np.zeros((rows // GROUP_WARPS, columns), element.dtype)
    t.preset(op.results[0], Accumulator(zeros))


def place_in_group(warp: Warp, op: Operation) -> int:
    """The position of the warp in its warpgroup, 0 to 3.

    Raises ``Fault`` unless the warpgroup is complete and its warps execute the same products.
    """
    collective(warp, op)
    block, place = warp.block, warp.index % GROUP_WARPS
    group = warp.index // GROUP_WARPS
    if len(block.warps) < GROUP_WARPS * (group + 1):
        raise Fault(
            codes.DIVERGENT,
            f"'{op.name}' must be executed by four warps, but {warp.name()} is in a group of "
            f"{len(block.warps) - GROUP_WARPS * group}",
            op,
        )
    sequence = block.products.setdefault(group, [])
    position = warp.products_begun
    warp.products_begun += 1
    if position == len(sequence):
        sequence.append(op)
    elif sequence[position] is not op:
        raise Fault(
            codes.DIVERGENT,
            f"the warps of warpgroup {group} execute different products: {warp.name()} is at "
            f"'{op.name}', another at a different one",
            op,
            notes=[note_at("the other is here", sequence[position])],
        )
    return place


@implements("nvgpu.warpgroup.mma")
def _mma(op: Any, t: Translator) -> Step:
    """Starts a product of two matrices in shared memory on all four warps of a warpgroup.

    The accumulator is ready when the product has been waited for. Elements are added as the tensor cores of the
    architecture do.
    """
    left, right, acc = t.slot(op.descriptorA), t.slot(op.descriptorB), t.slot(op.matrixC)
    result, unfinished = t.slot(op.results[0]), op.unfinished
    a_type, b_type = op.descriptorA.type.tensor, op.descriptorB.type.tensor
    (rows, depth), columns = a_type.get_shape(), b_type.get_shape()[1]
    element = element_of(a_type)
    tiles = _Tiles(op, element, element_of(b_type), rows, columns, depth)
    unit = unit_of("wgmma", element.name, t.arch.compute)
    numerics: Any = t.numerics

    def step(warp: Warp) -> None:
        r = warp.regs
        place = place_in_group(warp, op)
        a, c = r[left], r[acc]
        rights = r[right]
        a_places, b_places = tiles.places(a, rights, place)
        shadow = warp.block.shadow
        for where in (*a_places, *b_places):
            shadow.check_read(where, warp, op, "reads", Proxy.ASYNC)
        lhs, rhs = tiles.read(warp, a, rights, place)
        if element.bits == 1:
            found = _count_common_bits(lhs, rhs, c.rows)
        elif element.is_float:
            found = multiply_add(lhs, rhs, c.rows, element.name, unit, numerics)
        else:
            found = multiply_add_integers(lhs, rhs, c.rows, saturating=False)
        begin_product(warp, op, (*a_places, *b_places), rows * columns * depth // GROUP_WARPS)
        r[result] = Accumulator(found, warp.product_groups, op)
        wait_products(warp, unfinished, op)

    return step


def _count_common_bits(lhs: Array, rhs: Array, acc: Array) -> Array:
    """``acc`` plus the number of bits set in both operands, given as bytes along k."""
    rows = np.unpackbits(lhs.view(np.uint8), axis=1).astype(np.int32)
    columns = np.unpackbits(rhs.view(np.uint8), axis=0).astype(np.int32)
    return acc + rows @ columns


class _Tiles:
    """The positions of a product's operands in their tiles."""

    def __init__(self, op: Any, a: Element, b_: Element, rows: int, columns: int, depth: int):
        self.a, self.b = a, b_
        self.a_transposed, self.b_transposed = op.transposeA is not None, op.transposeB is not None
        if a.bits == 1:
            # Bits are read as bytes.
            self.a = self.b = a = b_ = element_of(IntegerType(8))
            depth //= 8
        for name, is_transposed in (("A", self.a_transposed), ("B", self.b_transposed)):
            if is_transposed and a.size != 2:
                raise Fault(
                    codes.UNSUPPORTED, f"{name} can be transposed for 16-bit elements only", op
                )
            if not is_transposed and depth * a.size > LINE:
                raise Fault(
                    codes.UNSUPPORTED,
                    f"{name} has {depth} elements along k, which do not fit the {LINE} bytes of a "
                    "line that a descriptor describes",
                    op,
                )
        slab = depth * LINE
        of_a = tile_offsets(rows, depth, a.size, not self.a_transposed, slab) // a.size
        blocks = of_a.reshape(rows // ROWS, GROUP_WARPS, WARP_ROWS, depth)
        self.of_a = [blocks[:, w].reshape(-1, depth) for w in range(GROUP_WARPS)]
        of_b = tile_offsets(columns, depth, b_.size, not self.b_transposed, slab)
        self.of_b = np.ascontiguousarray(of_b.T) // b_.size
        self.row_blocks = rows // ROWS

    def places(
        self, a: Descriptor, b_: Descriptor, warp: int
    ) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The bytes of each operand that a warp reads."""
        whole = (slice(b_.start, b_.start + b_.bytes),)
        if self.a_transposed:
            return (slice(a.start, a.start + a.bytes),), whole
        lines = WARP_ROWS * LINE
        firsts = [a.start + (i * GROUP_WARPS + warp) * lines for i in range(self.row_blocks)]
        return tuple(slice(first, first + lines) for first in firsts), whole

    def read(self, warp: Warp, a: Descriptor, b_: Descriptor, place: int) -> tuple[Array, Array]:
        shared = warp.block.shared
        lhs = shared.view(self.a.dtype)[a.start // self.a.size + self.of_a[place]]
        rhs = shared.view(self.b.dtype)[b_.start // self.b.size + self.of_b]
        return lhs, rhs


def begin_product(
    warp: Warp, op: Operation, places: tuple[slice, ...], multiplications: int
) -> None:
    """Note a product in flight, in a group of its own."""
    launch, block = warp.launch, warp.block
    warp.product_groups += 1
    warp.product_count += 1
    for where in places:
        block.shadow.reading(where, warp, warp.product_count, op, "wgmma reads")
        launch.counters.shared_bytes_read += where.stop - where.start
    if warp.index % GROUP_WARPS == 0:
        launch.counters.wgmma_instructions += 1
    launch.counters.tensor_operations += 2 * multiplications
    start, end = block.tensor_cores.take(warp.index, warp.time, multiplications)
    launch.timeline.add(warp, "product", op, start, end)
    warp.products.append(_Product(op, warp.product_groups, warp.product_count, places, start, end))


def wait_products(warp: Warp, unfinished: int, op: Operation) -> None:
    """Complete all groups of products except the ``unfinished`` most recent (PTX ISA, ``wgmma.wait_group``)."""
    warp.products_done = max(warp.products_done, warp.product_groups - unfinished)
    start, rest = warp.time, []
    for product in warp.products:
        if product.group > warp.products_done:
            rest.append(product)
            continue
        for where in product.places:
            warp.block.shadow.read_done(where, warp, product.number)
        warp.time = max(warp.time, product.end)
    warp.products = rest
    if warp.time > start:
        warp.launch.timeline.add(warp, "wait for product", op, start, warp.time)


@implements("nvvm.wgmma.commit.group.sync.aligned")
def _commit(op: Any, t: Translator) -> Step:
    """Commits the products that the warp has started as a group."""

    def step(warp: Warp) -> None:
        collective(warp, op)
        warp.product_groups += 1

    return step


@implements("nvvm.wgmma.wait.group.sync.aligned")
def _wait(op: Any, t: Translator) -> Step:
    """Waits for all groups of products except the ``group`` most recent."""
    unfinished = op.properties["group"].value.data

    def step(warp: Warp) -> None:
        collective(warp, op)
        wait_products(warp, unfinished, op)

    return step


@implements("nvvm.wgmma.fence.aligned")
def _fence(op: Any, t: Translator) -> Step:
    """Nothing: register accesses are already ordered before later products. Raises ``Fault`` if lanes have diverged."""

    def step(warp: Warp) -> None:
        collective(warp, op)

    return step


@implements("nvgpu.warpgroup.mma.store")
def _store(op: Any, t: Translator) -> Step:
    """Stores the rows of an accumulator that each warp holds, in the layout that PTX defines for ``wgmma``."""
    source, target = t.slot(op.matrixD), t.slot(op.dstMemref)
    rows, columns, element = _accumulator_type(op.matrixD.type)
    size = element.size
    own = np.arange(rows // GROUP_WARPS)
    of_row = ROWS * (own // WARP_ROWS) + own % WARP_ROWS

    def step(warp: Warp) -> None:
        collective(warp, op)
        acc, memref = warp.regs[source], warp.regs[target]
        if acc.group > warp.products_done:
            warp.launch.collector.add(
                codes.UNWAITED_PRODUCT,
                f"{op.name} of {warp.name()} reads an accumulator whose product has not been "
                "waited for",
                op,
                other=acc.op,
                notes=[note_at("the product starts here", acc.op)],
                help="set waitGroup = 0 there, or execute nvvm.wgmma.wait.group.sync.aligned 0",
            )
        if tuple(memref.sizes) != (rows, columns):
            raise Fault(
                codes.OUT_OF_BOUNDS,
                f"{op.name} of {warp.name()} stores {rows}x{columns} elements to {memref.sizes}",
                op,
            )
        first = WARP_ROWS * (warp.index % GROUP_WARPS)
        lines = (of_row + first) * memref.strides[0]
        places = memref.offset + lines[:, None] + np.arange(columns) * memref.strides[1]
        _write(warp, memref, places, acc.rows)

    def _write(warp: Warp, memref: MemRef, places: Array, values: Array) -> None:
        counters = warp.launch.counters
        if memref.buffer.space == SHARED:
            where = (places.reshape(-1, 1) * size + np.arange(size)).reshape(-1)
            warp.block.shadow.write(where, warp, op, "writes")
            counters.shared_bytes_written += values.nbytes
            lane = np.arange(32)
            for row in range(0, len(places), 8):
                for j in range(0, columns, 8):
                    for register in (0, 1):
                        part = places[row + (lane >> 2), j + 2 * (lane & 3) + register]
                        counters.shared_access(part * size, size, warp, op)
            warp.block.cluster.progress += 1
        else:
            counters.global_bytes_written += values.nbytes
            if warp.launch.recorder is not None:
                starts = places.reshape(-1) * size
                everyone, each = np.zeros(starts.size, np.int64), starts.size // WARP_SIZE
                warp.launch.recorder.global_elements(warp, op, starts, everyone, size, each)
            warp.block.global_log.note(warp, memref.buffer, places, size, op, values)
        if memref.buffer.read_only:
            if warp.launch.recorder is not None:
                return
            raise Fault(codes.ARGUMENT, f"{op.name} writes to a read-only array", op)
        try:
            memref.buffer.view(values.dtype)[places] = values
            if memref.buffer.space != SHARED:
                warp.launch.version += 1
                note_elements(warp, memref.buffer, places, size, op, is_write=True)
        except IndexError:
            raise Fault(codes.OUT_OF_BOUNDS, f"{op.name} leaves {memref.buffer.name}", op) from None

    return step
