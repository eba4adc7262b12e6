"""Loads and stores of tiles through views, in one piece and by rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import scf

from tilewright.cpu.codegen.analysis import cost_model
from tilewright.cpu.codegen.analysis.readers import is_read_once
from tilewright.cpu.codegen.emitter.function import FunctionEmitter, Into, loops, vector_axis
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, element_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Tile
from tilewright.cpu.codegen.memory.access import (
    ViewLoad,
    padding_of,
    position_of_tile,
    store_lanes,
    streaming,
    view_of,
)
from tilewright.cpu.codegen.memory.addresses import masked_off, optional, refuse_packed, where_on
from tilewright.cpu.codegen.memory.ordered import ordered_load, ordered_store
from tilewright.cpu.codegen.memory.packing import number_in, store_packed
from tilewright.cpu.codegen.memory.views import TilePosition, inside_mask
from tilewright.cpu.codegen.products.state import Destination
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M


@lowers("tiled_load")
def tiled_load(f: FunctionEmitter, op: M.TiledLoadOp) -> None:
    """With ``multimem``, the one replica is all there is to combine."""
    refuse_packed(op)
    if not cost_model.is_weak(op):
        ordered_load(f, op)
        return
    ty = op.result.type
    dims, element = T.dims_of(ty), element_of(ty)
    padding = padding_of(op, view_of(f, op, dims), element)
    place = position_of_tile(f, op, dims)
    mask, other = optional(f, op.mask), masked_off(f, op)
    # Of several rows the processor sees the streams; a round of a loop has no time to lose.
    in_one_row = place.contiguous is not None and dims[place.contiguous] == prod(dims)
    once = (in_one_row or isinstance(op.parent_op(), scf.ForOp)) and is_read_once(f.plan, op.result)
    f.define(op.result, ViewLoad(element, dims, place, padding, mask, other, once))
    f.give_token(op)


@lowers("tiled_store")
def tiled_store(f: FunctionEmitter, op: M.TiledStoreOp) -> None:
    """With ``multimem``, the one replica is written."""
    refuse_packed(op)
    if not cost_model.is_weak(op):
        ordered_store(f, op)
        return
    if op in f.plan.groups:
        if op is f.plan.leader(op):
            _store_group(f, f.plan.groups[op])
        f.give_token(op)
        return
    value = f.tile(op.value)
    place = position_of_tile(f, op, T.dims_of(op.value.type))
    mask = optional(f, op.mask)
    tiles = [value] if mask is None else [value, mask]
    if place.element.is_packed:
        _store_packed(f, place, value, tiles)
        f.give_token(op)
        return

    if (destination := f.destinations.get(op)) is not None:
        _store_rest(f, place, value, destination)
        f.give_token(op)
        return
    streams = streaming(f, op, place)

    def body(nest: LoopNest, coords: Coords) -> None:
        found = nest.vector(value, coords)
        chosen = None if mask is None else nest.eval(mask, coords)
        store_lanes(nest, place, coords, found, chosen)

    axis = vector_axis(place.dims) if place.contiguous is None else place.contiguous
    guard = [] if place.inside is None else [place.inside]
    if mask is not None or not f.transposes(
        value, axis, lambda nest, at, data: store_lanes(nest, place, at, data, None), guard
    ):
        past = None if mask is not None else streams
        f.nest(place.dims, tiles, body, axis=axis, guard=guard, into=Into(past, place.limits))
    f.give_token(op)


def _store_group(f: FunctionEmitter, group: list[M.TiledStoreOp]) -> None:
    """Stores in one nest: all values of a round are computed before the first one is written."""
    dims = T.dims_of(group[0].value.type)
    values = [f.tile(op.value) for op in group]
    places = [position_of_tile(f, op, dims) for op in group]
    streams = [streaming(f, op, place) for op, place in zip(group, places, strict=True)]
    known = [one for one in streams if one is not None]
    past = llvm.all_of(f.builder, known) if len(known) == len(streams) else None

    def body(nest: LoopNest, coords: Coords) -> None:
        found = [nest.vector(value, coords) for value in values]
        for place, data in zip(places, found, strict=True):
            store_lanes(nest, place, coords, data, None)

    guard = [place.inside for place in places if place.inside is not None]
    limits = [_furthest(f.builder, each) for each in zip(*(p.limits for p in places), strict=True)]
    axis = vector_axis(dims)
    f.nest(dims, values, body, axis=axis, guard=guard, into=Into(past, limits))


def _furthest(b: Builder, limits: Sequence[Value | None]) -> Value | None:
    """The largest of some limits; None where one of them is no limit."""
    found: Value | None = None
    for limit in limits:
        if limit is None:
            return None
        found = limit if found is None else llvm.intrinsic(b, "umax", [found, limit])
    return found


def _store_rest(
    f: FunctionEmitter, place: TilePosition, value: Tile, destination: Destination
) -> None:
    """Store a tile unless the product that made it has."""
    f.flush()
    b = f.builder
    done = b.load(destination.there, typ=I1)
    with b.if_then(b.not_(done), likely=False):
        nest = LoopNest(b, masked=True)
        axis = vector_axis(place.dims) if place.contiguous is None else place.contiguous

        def body(nest: LoopNest, coords: Coords) -> None:
            store_lanes(nest, place, coords, nest.vector(value, coords), None)

        loops(nest, place.dims, axis, f.lanes([value], place.dims[axis]), 1, body)
        nest.close_all()


def _store_packed(f: FunctionEmitter, place: TilePosition, value: Tile, tiles: list[Tile]) -> None:
    def body(nest: LoopNest, coords: Coords) -> None:
        data = nest.vector(value, coords)
        inside = inside_mask(nest, place, coords) if nest.masked else None
        with where_on(nest.inner, inside):
            store_packed(nest, place.base, number_in(nest, place, coords), data)

    guard = [] if place.inside is None else [place.inside]
    f.nest(place.dims, tiles, body, lanes=1, guard=guard)
