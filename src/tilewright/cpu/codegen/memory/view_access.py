"""Loads and stores of tiles through views, in one piece and row by row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from typing import cast

from xdsl.dialects import scf

from tilewright.cpu.codegen.analysis.known_numbers import known_number
from tilewright.cpu.codegen.analysis.readers import is_read_once
from tilewright.cpu.codegen.analysis.store_groups import are_beside
from tilewright.cpu.codegen.emitter.function import (
    ANY_EXTENT,
    FunctionEmitter,
    vector_axis,
)
from tilewright.cpu.codegen.emitter.strides import Strides, by_stride
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.emitter.vector_lengths import unroll_of
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, element_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords
from tilewright.cpu.codegen.loops.long_rows import REMARK as LONG_ROWS
from tilewright.cpu.codegen.loops.long_rows import LongRows
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.over_shapes import loops
from tilewright.cpu.codegen.loops.row_ends import Into
from tilewright.cpu.codegen.loops.strided_lanes import SMALL_STRIDES
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Mapped,
    Range,
    Strided,
    Tile,
    Uniform,
    guards,
    walk,
)
from tilewright.cpu.codegen.memory.access import (
    ViewLoad,
    ask_for_next_target,
    indices_of,
    padding_of,
    place_of_tile,
    position_of_tile,
    store_beside,
    store_lanes,
    view_of,
)
from tilewright.cpu.codegen.memory.addresses import masked_off, optional, refuse_packed, where_on
from tilewright.cpu.codegen.memory.ordered import ordered_load, ordered_store
from tilewright.cpu.codegen.memory.packing import number_in, store_packed
from tilewright.cpu.codegen.memory.rows_ahead import ask_for_rows
from tilewright.cpu.codegen.memory.streams import may_stream, non_temporal_where
from tilewright.cpu.codegen.memory.views import (
    TilePosition,
    has_short_rows,
    inside_mask,
    rows_as_one,
)
from tilewright.cpu.codegen.products.state import Destination
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M

#: Tiles whose elements are in registers or in buffers of their own.
_NOT_FROM_MEMORY = (Elementwise, Mapped, Range, Strided, Uniform)
#: What is told of stores of short rows.
_OVER_ROWS = (
    "rows that end in a vector are stored whole where the next ones go over what is too much"
)


@lowers("tiled_load")
def tiled_load(f: FunctionEmitter, op: M.TiledLoadOp) -> None:
    """With ``multimem``, the one replica is all there is to combine."""
    refuse_packed(op)
    if not op.is_weak:
        ordered_load(f, op)
        return
    ty = op.result.type
    dims, element = T.dims_of(ty), element_of(ty)
    padding = padding_of(op, view_of(f, op, dims), element)
    place = position_of_tile(f, op, dims)
    mask, other = optional(f, op.mask), masked_off(f, op)
    ask_for_rows(f, op)
    # Of several rows the processor sees the streams; an iteration of a loop has no time to lose.
    in_one_row = place.contiguous is not None and dims[place.contiguous] == prod(dims)
    once = (in_one_row or isinstance(op.parent_op(), scf.ForOp)) and is_read_once(f.plan, op.result)
    f.define(op.result, ViewLoad(element, dims, place, padding, mask, other, once))
    f.give_token(op)


@lowers("tiled_store")
def tiled_store(f: FunctionEmitter, op: M.TiledStoreOp) -> None:
    """With ``multimem``, the one replica is written."""
    refuse_packed(op)
    if not op.is_weak:
        ordered_store(f, op)
        return
    if op in f.plan.groups:
        if op is f.plan.leader(op):
            _store_group(f, cast(list[M.TiledStoreOp], f.plan.groups[op]))
        elif f.checked:
            # Checks are made in the order of the program.
            position_of_tile(f, op, T.dims_of(op.value.type))
    else:
        _store(f, op)
    f.give_token(op)


def _store(f: FunctionEmitter, op: M.TiledStoreOp, *, strided: bool = True) -> None:
    """A store in nests of its own; ``strided``: also in one for small strides that show when the code runs."""
    value = f.tile(op.value)
    place = position_of_tile(f, op, T.dims_of(op.value.type))
    mask = optional(f, op.mask)
    tiles = [value] if mask is None else [value, mask]
    if place.element.is_packed:
        _store_packed(f, place, value, tiles)
        return
    if (destination := f.destinations.get(op)) is not None:
        _store_rest(f, place, value, destination)
        return
    lanes = f.lanes([value], ANY_EXTENT)
    if mask is None and f.has_room and (joined := rows_as_one(f.builder, place, lanes)):
        long, condition = joined
        rows = LongRows(f.builder, lanes)
        flat = rows.of(value)
        f.unit.remarks.add("loop", LONG_ROWS, op)
        f.either(
            llvm.all_of(f.builder, [*rows.conditions, *([] if condition is None else [condition])]),
            lambda: _store_at(f, op, long, flat, None, strided=False),
            lambda: _store_at(f, op, place, value, None, strided=strided),
        )
        return
    _store_at(f, op, place, value, mask, strided=strided)


def _store_at(
    f: FunctionEmitter,
    op: M.TiledStoreOp,
    place: TilePosition,
    value: Tile,
    mask: Tile | None,
    *,
    strided: bool,
) -> None:
    """The nests of a store to a place in memory."""
    tiles = [value] if mask is None else [value, mask]
    bypasses = non_temporal_where(f, op, place, tiles)
    in_order = _stores_over_rows(f, place, value, mask)
    if in_order:
        f.unit.remarks.add("loop", _OVER_ROWS, op)

    def body(nest: LoopNest, coords: Coords) -> None:
        found = nest.vector(value, coords)
        chosen = None if mask is None else nest.eval(mask, coords)
        store_lanes(nest, place, coords, found, chosen, in_order=in_order)

    def across(nest: LoopNest, coords: Coords, data: Value) -> None:
        ask_for_next_target(nest, place, coords)
        store_lanes(nest, place, coords, data, None, in_order=in_order)

    axis = vector_axis(place.dims) if place.contiguous is None else place.contiguous
    guard = [] if place.inside is None else [place.inside]
    if mask is not None or not f.transposes(value, axis, across, guard):
        non_temporal = None if mask is not None else bypasses
        loose = [place.loose] if strided and place.loose is not None else []
        into = Into(non_temporal, place.limits, loose, strided, [place.ends])
        f.nest(place.dims, tiles, body, axis=axis, guard=guard, into=into)


def _stores_over_rows(
    f: FunctionEmitter, place: TilePosition, value: Tile, mask: Tile | None
) -> bool:
    """Whether rows that end in a vector may be stored with what is behind their end, where later ones go over it: nobody reads
    that from memory meanwhile, and masks cost something."""
    return (
        mask is None
        and has_short_rows(place, f.lanes([value], place.dims[-1]) if place.dims else 0)
        and not f.unit.target.has("avx512f")
        and all(isinstance(tile, _NOT_FROM_MEMORY) for tile in walk(value))
    )


def _store_group(f: FunctionEmitter, group: list[M.TiledStoreOp]) -> None:
    """Stores in one nest: all values of an iteration are computed before the first one is written."""
    dims = T.dims_of(group[0].value.type)
    values = [f.tile(op.value) for op in group]
    made = place_of_tile if f.checked else position_of_tile
    places = [*(made(f, op, dims) for op in group[:-1]), position_of_tile(f, group[-1], dims)]
    if any(are_beside(*pair) for pair in combinations(group, 2)):
        _store_woven(f, group, values, places)
        return
    bypasses = [
        non_temporal_where(f, op, place, values) for op, place in zip(group, places, strict=True)
    ]
    known = [one for one in bypasses if one is not None]
    streams = len(known) == len(bypasses) and may_stream(f, len(known))
    non_temporal = llvm.all_of(f.builder, known) if streams else None

    def body(nest: LoopNest, coords: Coords) -> None:
        found = [nest.vector(value, coords) for value in values]
        for place, data in zip(places, found, strict=True):
            store_lanes(nest, place, coords, data, None)

    guard = [place.inside for place in places if place.inside is not None]
    limits = [_furthest(f.builder, each) for each in zip(*(p.limits for p in places), strict=True)]
    axis = vector_axis(dims)
    loose = [place.loose for place in places if place.loose is not None]
    into = Into(non_temporal, limits, loose, ends=[place.ends for place in places])
    f.nest(dims, values, body, axis=axis, guard=guard, into=into)


def _store_woven(
    f: FunctionEmitter, group: list[M.TiledStoreOp], values: list[Tile], places: list[TilePosition]
) -> None:
    """Stores of which some go to the gaps that others leave, if the stride turns out to be such, in one nest;
    else one after the other."""
    f.flush()
    first = {
        op: next(n for n, it in enumerate(group) if it is op or are_beside(it, op)) for op in group
    }
    ahead = [_elements_between(f, group[first[op]], op) for op in group]
    together = [
        [n for n, op in enumerate(group) if first[op] == lead]
        for lead in dict.fromkeys(first.values())
    ]
    loose = [each.loose for each in (*places, *walk(*values)) if each.loose is not None]
    conditions = [*guards(*values), *(p.inside for p in places if p.inside is not None)]
    (axis,) = (axis for axis, extent in enumerate(places[0].dims) if extent > 1)

    def apart(stride: int) -> bool:
        """Whether no two stores meet."""
        pairs = ((ahead[a], ahead[b]) for run in together for a, b in combinations(run, 2))
        return all(a is not None and b is not None and (a - b) % stride for a, b in pairs)

    def woven(stride: int) -> None:
        nest = LoopNest(f.builder, strides=asked.all_are(stride))

        def body(nest: LoopNest, coords: Coords) -> None:
            found = [nest.vector(value, coords) for value in values]
            for run in together:
                parts = [(ahead[n] or 0, found[n]) for n in run]
                store_beside(nest, places[run[0]], coords, parts)

        lanes = f.lanes(values, places[0].dims[axis])
        loops(nest, places[0].dims, axis, lanes, unroll_of(values), body)
        nest.close_all()

    def in_turn() -> None:
        for op in group:
            _store(f, op, strided=False)

    asked = Strides(loose, [number for number in SMALL_STRIDES if apart(number)])
    by_stride(
        f.builder,
        conditions,
        asked,
        lambda _, stride: woven(stride),
        in_turn,
        edges=False,
    )


def _elements_between(f: FunctionEmitter, one: M.TiledStoreOp, other: M.TiledStoreOp) -> int | None:
    """How many elements behind the tile of one store lies that of another one beside it, if that is known."""
    dims = T.dims_of(one.value.type)
    view = view_of(f, one, dims)
    total = 0
    pairs = zip(indices_of(one), indices_of(other), strict=True)
    for (a, b), axis, step in zip(pairs, view.axes, view.steps, strict=True):
        left, right, stride = known_number(a), known_number(b), view.memref.strides[axis]
        if left is None or right is None or left == right:
            continue
        if not isinstance(stride, int) or not isinstance(step, int):
            return None
        total += (right - left) * step * stride
    return total


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
