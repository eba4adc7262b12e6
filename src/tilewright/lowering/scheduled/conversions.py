"""``convert_layout``: rename registers, shuffle within warps, or go through shared memory without bank conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import builtin as b
from xdsl.dialects import memref
from xdsl.dialects.arith import XOrIOp
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileas.ops import (
    ConvertLayoutOp,
    CopyOp,
    LocalLoadOp,
    PermuteViewOp,
)
from tilewright.dialects.nv_tileas.storage import base_of
from tilewright.dialects.nvgpu.ops.matrix import LdMatrixOp
from tilewright.layouts import Layout, SharedLayout, plan_conversion
from tilewright.layouts.conversions import WIDEST, halving_bit, ordered_for
from tilewright.lowering.nvgpu.shared_conversion import (
    SharedConversion,
    held_bytes,
    in_bytes,
    narrowed,
    widened,
)
from tilewright.lowering.nvgpu.types import (
    I32,
    INDEX,
    SHARED_SPACE,
    element_bytes,
    element_type,
    scalar_of,
)
from tilewright.lowering.nvgpu.vectors import as_index, moved, reshaped
from tilewright.lowering.nvgpu.whole_vectors import load_whole, store_whole
from tilewright.lowering.scheduled.lane_moves import moved_by_lanes
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A tile in shared memory: ``memory`` has one axis, ``layout`` says where elements lie, ``start``
    where the first one does (None: at the beginning)."""

    low: ScheduledKernel
    memory: SSAValue
    layout: SharedLayout
    start: SSAValue | None = None

    def index(self, targets: Sequence[int], offset: int) -> SSAValue:
        """The place of ``offset``, XORed with those ``targets``, both places of elements, whose bit is
        set in the thread's number."""
        low = self.low
        mask = 0
        for target in targets:
            mask |= target
        first = low.thread_part(targets)
        with low.building(low.prologue):
            if offset & mask:
                # Bits that no thread has are added, for an address has room for them.
                first = low.binary(XOrIOp, first, offset & mask)
            found = as_index(low, first)
        if self.start is not None:
            found = low.plus(found, self.start)
        return moved(low, found, offset & ~mask)

    def write(self, value: SSAValue, layout: Layout, width: int, holder: int = 0) -> None:
        """Write the thread's elements, of which ``width`` successive ones are neighbours here. Of
        those threads that hold the same ones that with the bits ``holder`` writes."""
        low = self.low
        targets = [self.layout.place(basis) for basis in layout.thread]

        def work() -> Sequence[SSAValue]:
            for number, part in enumerate(low.cut(value, width)):
                place = self.layout.place(layout.offsets[number * width])
                store_whole(low, part, self.memory, self.index(targets, place))
            return ()

        low.either(low.owner_of(layout, holder), work)

    def read(self, element: Attribute, layout: Layout, width: int) -> SSAValue:
        """The thread's elements of the tile."""
        low = self.low
        targets = [self.layout.place(basis) for basis in layout.thread]
        ty = b.VectorType(element, [width])
        places = [self.index(targets, self.layout.place(n)) for n in layout.offsets[::width]]
        return low.joined([load_whole(low, self.memory, place, ty) for place in places])


def storage_tile(low: ScheduledKernel, storage: SSAValue) -> SharedTile:
    """A storage, or one of its stages."""
    base = base_of(storage)
    ty = base.type
    element = element_type(ty.element_type)  # pyright: ignore[reportAttributeAccessIssue]
    shared = storage.type.shared  # pyright: ignore[reportAttributeAccessIssue]
    assert element is not None
    count = 1
    for extent in ty.dims:  # pyright: ignore[reportAttributeAccessIssue]
        count *= extent
    with low.building(low.prologue):
        offset = low.constant(low.storage[base], INDEX)
        whole = b.MemRefType(in_bytes(element), [count], memory_space=SHARED_SPACE)
        memory = low.one(memref.ViewOp, (low.scratch(), offset), whole)
    start = low.held.get(storage) if storage is not base else None
    assert start is None or isinstance(start, SSAValue)
    return SharedTile(low, memory, shared, start)


@lowers("nv_tileas.alloc_tensor")
def alloc_tensor(low: ScheduledKernel, op: object) -> None:
    """Its place was chosen before."""


@lowers("nv_tileas.extract_slice")
def extract_slice(low: ScheduledKernel, op: object) -> None:
    """A stage is where it begins, in elements."""
    source, index, result = op.source, op.index, op.result  # pyright: ignore[reportAttributeAccessIssue]
    low.held[result] = low.times(
        low.as_index(low.value(index)), low.constant(result.type.shared.size, INDEX)
    )
    assert base_of(result) is base_of(source)


@lowers("nv_tileas.permute_view")
def permute_view(low: ScheduledKernel, op: PermuteViewOp) -> None:
    """The layout of the result says where its elements lie."""
    low.held[op.result] = low.held.get(op.source)


@lowers("nv_tileas.local_load")
def local_load(low: ScheduledKernel, op: LocalLoadOp) -> None:
    """Shared memory to registers: by ``ldmatrix`` where layouts allow it, else in vectors as wide
    as elements lie side by side."""
    layout, tile = low.layout_of(op.result.type), storage_tile(low, op.source)
    element = element_type(T.element_of(op.result.type))
    assert element is not None
    held = in_bytes(element)
    if is_matrix(tile.layout, layout, element_bytes(held)):
        low.bind(op.result, read_matrices(low, tile, element, layout))
        return
    ordered, order = ordered_for(layout, tile.layout, element_bytes(held))
    width = tile.layout.vector(ordered, WIDEST // element_bytes(held))
    found = in_given_order(low, tile.read(held, ordered, width), order)
    low.bind(op.result, found if held == element else narrowed(low, found, element))


def is_matrix(shared: SharedLayout, layout: Layout, size: int) -> bool:
    """Whether elements of so many bytes, 2 or 4, lie so that ``ldmatrix`` gives threads what they hold: each four lanes
    have 16 bytes that are neighbours, 4 for each, and a thread has four times 4 bytes or more."""
    if size not in (2, 4):
        return False
    word = 4 // size
    pairs = word.bit_length() - 1
    lanes = [shared.place(basis) for basis in layout.lane]
    registers = [shared.place(basis) for basis in layout.register]
    if (
        lanes[:2] != [word, 2 * word]
        or layout.registers < 4 * word
        or registers[:pairs] != [1] * pairs
    ):
        return False
    others = [shared.place(basis) for basis in layout.warp] + registers[pairs:]
    return not any(place & 4 * word - 1 for place in (*lanes[2:], *others))


def read_matrices(
    low: ScheduledKernel, tile: SharedTile, element: Attribute, layout: Layout
) -> SSAValue:
    """The thread's elements, by four matrices of 8 rows of 16 bytes at once: lanes 0 to 7 name the rows of the
    first register, the next eight those of the second one."""
    word = 4 // element_bytes(element)
    pairs = word.bit_length() - 1
    lanes = [*layout.lane[2:], *layout.register[pairs : pairs + 2]]
    targets = [tile.layout.place(basis) for basis in (*lanes, *layout.warp)]
    ty = b.VectorType(element, [4, word])
    properties = {
        "transpose": b.IntegerAttr(0, b.IntegerType(1)),
        "numTiles": b.IntegerAttr(4, I32),
    }
    found: list[SSAValue] = []
    for register in range(0, layout.registers, 4 * word):
        place = tile.index(targets, tile.layout.place(layout.offsets[register]))
        loaded = low.one(LdMatrixOp, (tile.memory, place), ty, properties)
        found.append(reshaped(low, loaded, [4 * word]))
    return low.joined(found)


def in_given_order(low: ScheduledKernel, value: SSAValue, order: Sequence[int]) -> SSAValue:
    """Registers of which number i is number ``order[i]`` of a layout, in the order of the layout."""
    inverse = [0] * len(order)
    for position, register in enumerate(order):
        inverse[register] = position
    return low.picked(value, inverse)


@lowers("nv_tileas.convert_layout")
def convert_layout(low: ScheduledKernel, op: ConvertLayoutOp) -> None:
    """The same elements in other threads: by shuffles or through shared memory."""
    source, target = (low.layout_of(value.type) for value in (op.source, op.result))
    low.bind(op.result, converted(low, low.value(op.source), source, target))


def converted(low: ScheduledKernel, value: SSAValue, source: Layout, target: Layout) -> SSAValue:
    """The thread's elements of a tile in another layout.

    Through shared memory, if needed, in two halves where the tile does not fit there.
    """
    held = in_bytes(scalar_of(value.type))
    size = source.size * element_bytes(held)
    if size > low.options.shared_bytes - low.conversion_start:
        bit = halving_bit(source, target)
        if (
            bit is not None
            and plan_conversion(source, target, element_bytes(held)).shared_conversion
        ):
            return _in_halves(low, value, (source, target), bit)
    return converted_together(low, [value], source, target)[0]


def converted_together(
    low: ScheduledKernel,
    values: Sequence[SSAValue],
    source: Layout,
    target: Layout,
    holder: int = 0,
) -> list[SSAValue]:
    """The same for several tiles, for which threads meet once; of those threads that could hold the
    same elements those with the bits ``holder`` do."""
    elements = [scalar_of(value.type) for value in values]
    plans = [plan_conversion(source, target, element_bytes(in_bytes(e))) for e in elements]
    if plans[0].registers is not None and not holder:
        registers = plans[0].registers
        return [low.picked(value, registers) for value in values]
    if plans[0].lanes is not None and not holder:
        return [moved_by_lanes(low, value, plans[0].lanes) for value in values]
    room = SharedConversion(low, sum(held_bytes(element, source.size) for element in elements))
    tiles: list[SharedTile] = []
    for value, element, plan in zip(values, elements, plans, strict=True):
        held, shared_conversion = in_bytes(element), plan.shared_conversion
        assert shared_conversion is not None
        if held != element:
            value = widened(low, value)
        buffer = room.buffer(held, source.size)
        tile = SharedTile(low, buffer.memory, shared_conversion.shared)
        tile.write(
            low.picked(value, shared_conversion.source_order),
            shared_conversion.source,
            shared_conversion.write,
            holder,
        )
        tiles.append(tile)
    room.meet()
    results: list[SSAValue] = []
    for tile, element, plan in zip(tiles, elements, plans, strict=True):
        held, shared_conversion = in_bytes(element), plan.shared_conversion
        assert shared_conversion is not None
        found = tile.read(held, shared_conversion.target, shared_conversion.read)
        low.sync.shared = True
        found = in_given_order(low, found, shared_conversion.target_order)
        results.append(found if held == element else narrowed(low, found, element))
    return results


def _in_halves(
    low: ScheduledKernel, value: SSAValue, layouts: tuple[Layout, Layout], bit: int
) -> SSAValue:
    """A conversion in two parts, by a bit of the elements' numbers, which need half the memory each."""
    places = [layout.register.index(1 << bit) for layout in layouts]
    keep = [n - (n > bit) if n != bit else None for n in range(layouts[0].bits)]
    parts = [
        Layout(
            layout.size // 2,
            *(
                tuple(_without(basis, keep) for basis in group if basis != 1 << bit)
                for group in (layout.register, layout.lane, layout.warp)
            ),
        )
        for layout in layouts
    ]
    halves = []
    for half in range(2):
        own = [r for r in range(layouts[0].registers) if (r >> places[0] & 1) == half]
        halves.append(converted(low, low.picked(value, own), *parts))
    both = low.joined(halves)
    count = layouts[1].registers // 2
    order: list[int] = []
    for register in range(layouts[1].registers):
        low_bits = register & ((1 << places[1]) - 1)
        inner = low_bits | (register >> places[1] + 1 << places[1])
        order.append((register >> places[1] & 1) * count + inner)
    return low.picked(both, order)


def _without(basis: int, keep: Sequence[int | None]) -> int:
    """A basis vector when a bit of the elements' numbers is left out."""
    return sum(
        1 << target for bit, target in enumerate(keep) if target is not None and basis >> bit & 1
    )


@lowers("nv_tileas.copy")
def copy(low: ScheduledKernel, op: CopyOp) -> None:
    """Registers to shared memory, in vectors as wide as elements lie side by side."""
    value, layout = low.value(op.source), low.layout_of(op.source.type)
    tile = storage_tile(low, op.target)
    if scalar_of(value.type) != (held := in_bytes(scalar_of(value.type))):
        value = widened(low, value)
    ordered, order = ordered_for(layout, tile.layout, element_bytes(held))
    width = tile.layout.vector(ordered, WIDEST // element_bytes(held))
    tile.write(low.picked(value, order), ordered, width)
