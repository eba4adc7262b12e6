"""``convert_layout``: registers are renamed, handed from lane to lane, or go through shared memory
without bank conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import builtin as b
from xdsl.dialects import memref, vector
from xdsl.dialects.arith import XOrIOp
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.nv_tileas.ops import ConvertLayoutOp, CopyOp
from tilewright.layouts import Layout, SharedLayout, plan_conversion
from tilewright.layouts.conversions import ordered_for
from tilewright.lowering.nvgpu.exchange import Exchange, held_bytes, in_bytes, narrowed, widened
from tilewright.lowering.nvgpu.types import (
    INDEX,
    SHARED_SPACE,
    element_bytes,
    element_type,
    scalar_of,
)
from tilewright.lowering.nvgpu.vectors import as_index, moved
from tilewright.lowering.scheduled.lane_moves import moved_by_lanes
from tilewright.lowering.scheduled.state import ScheduledKernel, base_of
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
        with low.filling(low.prologue):
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
                low.emit(vector.StoreOp, (part, self.memory, self.index(targets, place)))
            return ()

        low.either(low.owner_of(layout, holder), work)

    def read(self, element: Attribute, layout: Layout, width: int) -> SSAValue:
        """The thread's elements of the tile."""
        low = self.low
        targets = [self.layout.place(basis) for basis in layout.thread]
        ty = b.VectorType(element, [width])
        return low.joined(
            [
                low.one(
                    vector.LoadOp,
                    (self.memory, self.index(targets, self.layout.place(offset))),
                    ty,
                )
                for offset in layout.offsets[::width]
            ]
        )


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
    with low.filling(low.prologue):
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


@lowers("nv_tileas.convert_layout")
def convert_layout(low: ScheduledKernel, op: ConvertLayoutOp) -> None:
    source, target = (low.layout_of(value.type) for value in (op.source, op.result))
    low.bind(op.result, converted(low, low.value(op.source), source, target))


def converted(low: ScheduledKernel, value: SSAValue, source: Layout, target: Layout) -> SSAValue:
    """The thread's elements of a tile in another layout."""
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
    room = Exchange(low, sum(held_bytes(element, source.size) for element in elements))
    tiles: list[SharedTile] = []
    for value, element, plan in zip(values, elements, plans, strict=True):
        held, exchange = in_bytes(element), plan.exchange
        assert exchange is not None
        if held != element:
            value = widened(low, value)
        buffer = room.buffer(held, source.size)
        tile = SharedTile(low, buffer.memory, exchange.shared)
        tile.write(
            low.picked(value, exchange.source_order), exchange.source, exchange.write, holder
        )
        tiles.append(tile)
    room.meet()
    results: list[SSAValue] = []
    for tile, element, plan in zip(tiles, elements, plans, strict=True):
        held, exchange = in_bytes(element), plan.exchange
        assert exchange is not None
        found = tile.read(held, exchange.target, exchange.read)
        low.sync.shared, low.being_read = True, (room.start, room.end)
        inverse = [0] * len(exchange.target_order)
        for position, register in enumerate(exchange.target_order):
            inverse[register] = position
        found = low.picked(found, inverse)
        results.append(found if held == element else narrowed(low, found, element))
    return results


@lowers("nv_tileas.copy")
def copy(low: ScheduledKernel, op: CopyOp) -> None:
    low.before_storage(base_of(op.target), writes=True)
    value, layout = low.value(op.source), low.layout_of(op.source.type)
    tile = storage_tile(low, op.target)
    if scalar_of(value.type) != (held := in_bytes(scalar_of(value.type))):
        value = widened(low, value)
    ordered, order = ordered_for(layout, tile.layout, element_bytes(held))
    width = tile.layout.vector(ordered, 16 // element_bytes(held))
    tile.write(low.picked(value, order), ordered, width)
