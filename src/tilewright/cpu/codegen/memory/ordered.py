"""Loads and stores with memory order, or that go element by element for another reason."""

from __future__ import annotations

from llvmlite import ir

from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I8, Element, element_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import store_at, to_buffer
from tilewright.cpu.codegen.memory.access import loaded, padding_of, view_of
from tilewright.cpu.codegen.memory.addresses import (
    Cell,
    cells_of,
    each_element,
    masked_off,
    optional,
    ordering_of,
    where_on,
    zero_of,
)
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M

_NIBBLE = 15


def ordered_load(f: FunctionEmitter, op: M.LoadOp | M.TiledLoadOp | M.GatherLoadOp) -> None:
    """Each element by itself, in the order that the semantic asks for."""
    dims, element = T.dims_of(op.result.type), element_of(op.result.type)
    mask, other = optional(f, op.mask), masked_off(f, op)
    outside = _outside(f, op, element)
    cells, guard = cells_of(f, op, mask)
    target = f.buffer(element, dims, f.plan.last_use(op.result) if dims else f.now)
    ordering = ordering_of(op)

    def body(nest: LoopNest, coords: Coords) -> None:
        passive = outside
        if mask is not None and other is not None:
            on, off = nest.vector(mask, coords), nest.vector(other, coords)
            passive = nest.inner.select(on, outside, off)
        cell, place = cells(nest, coords), target.offset(nest, coords)
        b = nest.inner
        if cell.on is not None:
            store_at(nest, target.pointer, element, place, passive)
        with where_on(b, cell.on):
            store_at(nest, target.pointer, element, place, _read(b, cell, element, ordering))

    each_element(f, dims, [t for t in (mask, other) if t is not None], body, guard)
    f.values[op.result] = target if dims else f.element(target, ())
    f.give_token(op)


def _outside(f: FunctionEmitter, op: M.Access, element: Element) -> Value:
    """What is read outside of the memory of a view."""
    if isinstance(op.operands[0].type, T.MemrefType | T.TiledViewType):
        return padding_of(op, view_of(f, op, T.dims_of(op.moved.type)), element)
    return zero_of(element)


def _read(b: Builder, cell: Cell, element: Element, ordering: str) -> Value:
    value = b.load_atomic(cell.where.value, ordering, element.buffer_bytes, typ=element.buffer)
    if cell.shift is None:
        return loaded(b, value, element)
    return b.and_(b.lshr(value, cell.shift.value), ir.Constant(I8, _NIBBLE))


def ordered_store(f: FunctionEmitter, op: M.StoreOp | M.TiledStoreOp | M.ScatterStoreOp) -> None:
    """Each element by itself, in row-major order and in that which the semantic asks for."""
    value, mask = f.tile(op.value), optional(f, op.mask)
    cells, guard = cells_of(f, op, mask)
    ordering = ordering_of(op)
    element = value.element

    def body(nest: LoopNest, coords: Coords) -> None:
        data = nest.vector(value, coords)
        cell, b = cells(nest, coords), nest.inner
        with where_on(b, cell.on):
            _write(b, cell, data, element, ordering)

    tiles = [tile for tile in (value, mask) if tile is not None]
    each_element(f, value.dims, tiles, body, guard)
    f.give_token(op)


def _write(b: Builder, cell: Cell, data: Value, element: Element, ordering: str) -> None:
    if cell.shift is None:
        held = to_buffer(b, data, element)
        llvm.store_atomic(b, held, cell.where.value, ordering, element.buffer_bytes)
        return
    _write_half(b, cell.where.value, cell.shift.value, data, ordering)


def _write_half(b: Builder, where: Value, shift: Value, data: Value, ordering: str) -> None:
    """Replace half of a byte at once: try until nothing came in between."""
    bits = b.shl(b.and_(data, ir.Constant(I8, _NIBBLE)), shift)
    kept = b.not_(b.shl(ir.Constant(I8, _NIBBLE), shift))
    first, before = b.load_atomic(where, "monotonic", 1, typ=I8), b.block
    again, done = b.append_basic_block("replace"), b.append_basic_block("replaced")
    b.branch(again)
    b.position_at_end(again)
    seen = b.phi(I8)
    seen.add_incoming(first, before)
    found = b.cmpxchg(where, seen, b.or_(b.and_(seen, kept), bits), ordering, "monotonic")
    seen.add_incoming(b.extract_value(found, 0), b.block)
    b.cbranch(b.extract_value(found, 1), done, again)
    b.position_at_end(done)
