"""Atomic operations: element by element in row-major order, unless they can be deferred."""

from __future__ import annotations

from typing import Any

from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.ir.elements import PTR, element_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Strided, Tile, Uniform, store_at
from tilewright.cpu.codegen.memory import privatization, single_thread
from tilewright.cpu.codegen.memory.addresses import (
    cells_of,
    each_element,
    optional,
    ordering_of,
    pointers_of,
    where_on,
    zero_of,
)
from tilewright.cpu.codegen.memory.compare_exchange import ON_FAILURE, bits_type, update_one
from tilewright.cpu.codegen.memory.listed_updates import goes_by_list, listed, one_by_one
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M


@lowers("atomic_rmw", "tiled_atomic_rmw")
def atomic_rmw(f: FunctionEmitter, op: M.AtomicRMWOp | M.TiledAtomicRMWOp) -> None:
    """With ``multimem``, the one replica is updated."""
    mode = enum_property(op, "rmw_mode")
    value = f.tile(op.value)
    if f.alone is None or not single_thread.can_be_alone(op):
        _update(f, op, mode, value)
        f.give_token(op)
        return
    mask = optional(f, op.mask)
    pointers = pointers_of(f, op, mask)
    copies = f.copies.get(op)
    locked = copies is not None and copies.locks is not None
    if not locked and goes_by_list(value, pointers, exact=False):
        _update_listed(f, op, value, pointers, mask)
        f.give_token(op)
        return
    f.flush()
    with f.builder.if_else(f.alone) as (single, several):
        with single:
            single_thread.update_alone(f, mode, value, pointers, mask)
        with several:
            _update(f, op, mode, value)
    f.give_token(op)


def _update_listed(
    f: FunctionEmitter,
    op: M.AtomicRMWOp | M.TiledAtomicRMWOp,
    value: Tile,
    pointers: Tile,
    mask: Tile | None,
) -> None:
    """By one list, for a thread that is alone and for others."""
    mode, element, copies = enum_property(op, "rmw_mode"), value.element, f.copies.get(op)
    places = pointers if copies is None else privatization.in_copies(f, copies, pointers)
    found, b = listed(f, value, places, mask), f.builder

    def plain(b: Builder, place: Value, data: Value) -> None:
        single_thread.update_in_place(b, mode, place, data, element)

    def atomic(b: Builder, place: Value, data: Value) -> None:
        update_one(b, mode, b.inttoptr(place, PTR), data, element, ordering_of(op))

    with b.if_else(f.alone) as (single, several):
        with single:
            # There are no copies: the list has the addresses themselves.
            one_by_one(b, found, plain)
        with several:
            if copies is None:
                one_by_one(b, found, atomic, skips=mask is not None)
            else:
                privatization.update_listed(f, copies, found)


def _update(
    f: FunctionEmitter, op: M.AtomicRMWOp | M.TiledAtomicRMWOp, mode: str, value: Tile
) -> None:
    """For threads that share memory."""
    if op in f.copies:
        mask = optional(f, op.mask)
        privatization.update(f, op, value, pointers_of(f, op, mask), mask)
        return
    ordering = ordering_of(op)

    def update(b: Builder, where: Value, data: Value) -> Value:
        return update_one(b, mode, where, data, value.element, ordering)

    absent = Uniform(value.element, value.dims, zero_of(value.element))
    _each(f, op, value, (), absent, lambda b, where, data: update(b, where, data))


@lowers("atomic_cas")
def atomic_cas(f: FunctionEmitter, op: M.AtomicCasOp) -> None:
    """One ``cmpxchg`` for each element of integers with the same bits; floats are compared by their bits."""
    compare, replacement = f.tile(op.compare), f.tile(op.replacement)
    ordering = ordering_of(op)

    def exchange(b: Builder, where: Value, expected: Value, following: Value) -> Value:
        words = bits_type(compare.element)
        pair = [b.bitcast(v, words) for v in (expected, following)]
        found = b.cmpxchg(where, *pair, ordering, ON_FAILURE[ordering])
        return b.bitcast(b.extract_value(found, 0), compare.element.register)

    _each(f, op, compare, (replacement,), compare, exchange)
    f.give_token(op)


def _each(
    f: FunctionEmitter, op: Any, value: Tile, further: tuple[Tile, ...], absent: Tile, act: Any
) -> None:
    """Do something to each element that is accessed; its old values are the result."""
    dims, element = T.dims_of(op.result.type), element_of(op.result.type)
    mask = optional(f, op.mask)
    cells, guard = cells_of(f, op, mask)
    target: Strided | None = None
    if op.result.has_one_use() or list(op.result.uses):
        target = f.buffer(element, dims, f.plan.last_use(op.result) if dims else f.now)

    def body(nest: LoopNest, coords: Coords) -> None:
        data = [nest.vector(tile, coords) for tile in (value, *further)]
        cell, b = cells(nest, coords), nest.inner
        if target is not None and cell.on is not None:
            passive = nest.vector(absent, coords)
            store_at(nest, target.pointer, element, target.offset(nest, coords), passive)
        place = None if target is None else target.offset(nest, coords)
        with where_on(b, cell.on):
            old = act(b, cell.where.value, *data)
            if target is not None and place is not None:
                store_at(nest, target.pointer, element, place, old)

    tiles = [tile for tile in (value, *further, mask) if tile is not None]
    each_element(f, dims, tiles, body, guard)
    if target is not None:
        f.values[op.result] = target if dims else f.element(target, ())
