"""Slices, inserts and concatenation of tiles: registers are renamed, or selected by the thread's index."""

from __future__ import annotations

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp
from tilewright.layouts.layout import axis_bits
from tilewright.layouts.parts import part_layout, registers_of_part
from tilewright.lowering.nvgpu import shapes
from tilewright.lowering.scheduled.lane_moves import thread_bit
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers
from tilewright.passes.tileas.part_layouts import (
    cat_keeps_positions,
    part_keeps_positions,
    static_part,
)


@lowers("extract_slice")
def extract_slice(low: ScheduledKernel, op: TileAAOp) -> None:
    """A part whose elements stay in their threads is a choice of registers; any other goes through
    shared memory."""
    source, result = op.operands[0], op.results[0]
    if not part_keeps_positions(op, low.threads):
        shapes.extract_slice(low, op)
        return
    part = static_part(op, source, result)
    assert part is not None
    registers = registers_of_part(low.layout_of(source.type), part)
    assert registers is not None
    low.bind(result, low.picked(low.value(source), registers))


@lowers("ext.insert_slice")
def insert_slice(low: ScheduledKernel, op: TileAAOp) -> None:
    """Of the threads that hold elements of the part each takes what it has of it."""
    whole, source = op.operands[:2]
    if not part_keeps_positions(op, low.threads):
        shapes.insert_slice(low, op)
        return
    part, layout = static_part(op, whole, source), low.layout_of(whole.type)
    assert part is not None
    in_thread = 0
    for basis in layout.thread:
        in_thread |= basis & part.mask
    places = {offset: place for place, offset in enumerate(part_layout(layout, part).offsets)}
    below = part.below(layout.bits)
    order = list(range(layout.registers))
    for number, offset in enumerate(layout.offsets):
        if (offset ^ part.value) & part.mask & ~in_thread == 0:
            inner = sum(
                1 << place
                for bit, place in enumerate(below)
                if place is not None and offset >> bit & 1
            )
            order[number] = layout.registers + places[inner]
    given = low.value(source)
    room = low.picked(given, [n % len(places) for n in range(layout.registers)])
    found = low.picked(low.joined([low.value(whole), room]), order)
    if in_thread:
        mine = low.thread_part([basis & in_thread for basis in layout.thread])
        with low.building(low.prologue):
            inside = low.compare("eq", mine, part.value & in_thread)
        found = low.select(low.splat(inside, layout.registers), found, low.value(whole))
    low.bind(op.results[0], found)


@lowers("cat")
def cat(low: ScheduledKernel, op: TileAAOp) -> None:
    """Both tiles side by side: registers of one behind those of the other, or, where the halves are
    in different threads, a choice in each thread."""
    lhs, rhs = low.values(op.operands)
    result = op.results[0]
    bit = axis_bits(T.dims_of(result.type))[int_property(op, "axis")].stop - 1
    given, layout = low.layout_of(op.operands[0].type), low.layout_of(result.type)
    if not cat_keeps_positions(op, low.threads):
        shapes.cat(low, op)
        return
    if 0 in given.thread:
        second = thread_bit(low, given.thread.index(0), layout.registers)
        low.bind(result, low.select(second, rhs, lhs))
        return
    place = layout.register.index(1 << bit)
    order = [
        (number >> place + 1 << place)
        | number & ((1 << place) - 1)
        | (number >> place & 1) * given.registers
        for number in range(layout.registers)
    ]
    low.bind(result, low.picked(low.joined([lhs, rhs]), order))
