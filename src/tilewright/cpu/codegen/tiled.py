"""Loads and stores of tiles through views, in one piece and by rows."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen import llvm, traits
from tilewright.cpu.codegen.access import (
    ViewLoad,
    load_lanes,
    load_single,
    padding_of,
    place_of_tile,
    scatter_to,
    store_lanes,
    streaming,
    view_of,
)
from tilewright.cpu.codegen.checks import check_addresses
from tilewright.cpu.codegen.elements import I1, I64, PTR, element_of
from tilewright.cpu.codegen.function import FunctionEmitter, loops, vector_axis
from tilewright.cpu.codegen.indices import Coords, Lane, lanes_in
from tilewright.cpu.codegen.irtypes import Builder, Constant, Type, Value
from tilewright.cpu.codegen.nests import Nest
from tilewright.cpu.codegen.packing import store_packed
from tilewright.cpu.codegen.pointers import optional, ordered_load, ordered_store, where_on
from tilewright.cpu.codegen.sums import Destination
from tilewright.cpu.codegen.table import lowers, refuse
from tilewright.cpu.codegen.tiles import Tile, to_buffer
from tilewright.cpu.codegen.views import Memref, Place, View, as_value, full_mask, inside_mask
from tilewright.dialects.declare import bool_values
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M
from tilewright.dialects.syntax.engine import values_of


@lowers("tiled_load")
def tiled_load(f: FunctionEmitter, op: M.TiledLoadOp) -> None:
    _check(op)
    if not traits.is_weak(op):
        ordered_load(f, op)
        return
    ty = op.result.type
    dims, element = T.dims_of(ty), element_of(ty)
    padding = padding_of(op, view_of(f, op, dims), element)
    place = place_of_tile(f, op, dims)
    mask, other = optional(f, op.mask), optional(f, op.other)
    f.define(op.result, ViewLoad(element, dims, place, padding, mask, other))
    f.give_token(op)


@lowers("tiled_store")
def tiled_store(f: FunctionEmitter, op: M.TiledStoreOp) -> None:
    _check(op)
    if not traits.is_weak(op):
        ordered_store(f, op)
        return
    value = f.tile(op.value)
    place = place_of_tile(f, op, T.dims_of(op.value.type))
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

    def body(nest: Nest, coords: Coords) -> None:
        found = nest.vector(value, coords)
        chosen = None if mask is None else nest.eval(mask, coords)
        store_lanes(nest, place, coords, found, chosen, streams)

    axis = vector_axis(place.dims) if place.contiguous is None else place.contiguous
    guard = [] if place.inside is None else [place.inside]
    if mask is not None or not f.transposes(
        value, axis, lambda nest, at, data: store_lanes(nest, place, at, data, None), guard
    ):
        f.nest(place.dims, tiles, body, axis=axis, guard=guard)
    f.give_token(op)


def _store_rest(f: FunctionEmitter, place: Place, value: Tile, destination: Destination) -> None:
    """Store a tile unless the product that made it has."""
    f.flush()
    b = f.builder
    done = b.load(destination.there, typ=I1)
    with b.if_then(b.not_(done), likely=False):
        nest = Nest(b, masked=True)
        axis = vector_axis(place.dims) if place.contiguous is None else place.contiguous

        def body(nest: Nest, coords: Coords) -> None:
            store_lanes(nest, place, coords, nest.vector(value, coords), None)

        loops(nest, place.dims, axis, f.lanes([value], place.dims[axis]), 1, body)
        nest.close_all()


def _store_packed(f: FunctionEmitter, place: Place, value: Tile, tiles: list[Tile]) -> None:
    def body(nest: Nest, coords: Coords) -> None:
        data = nest.vector(value, coords)
        inside = inside_mask(nest, place, coords) if nest.masked else None
        with where_on(nest.inner, inside):
            store_packed(nest, place, coords, data)

    guard = [] if place.inside is None else [place.inside]
    f.nest(place.dims, tiles, body, lanes=1, guard=guard)


def _check(op: M.Access) -> None:
    if "multimem" in op.properties or "multimem" in op.attributes:
        raise refuse(op, "there are no multicast addresses here")
    packed = T.element_name(T.element_of(op.moved.type)) in ("i4", "f4E2M1FN")
    if packed and (values_of(op, "mask") or not traits.is_weak(op)):
        raise refuse(op, "masks and orders of elements that share bytes")


@dataclass(frozen=True, slots=True)
class Gathered:
    """Elements of a view whose coordinates along some axes are given by tiles.

    ``indices`` are for each axis a tile of coordinates, or the first coordinate. Without a view the
    index tiles have the shape of the value, with one they have its extent along their axis.
    """

    memref: Memref
    indices: tuple[Tile | Value, ...]
    promised: tuple[bool, ...]
    view: View | None

    def locate(self, nest: Nest, coords: Coords) -> tuple[Lane, Lane, Lane | None]:
        """The address of the first lane, the distances of all, and which are in the memref."""
        lanes = lanes_in(coords)
        base: Lane | None = None
        spread: Lane | None = None
        mask: Lane | None = None
        for axis, index in enumerate(self.indices):
            memref_axis = axis if self.view is None else self.view.axes[axis]
            stride = as_value(self.memref.strides[memref_axis])
            position = self._position(nest, coords, axis, index)
            if not (self.promised and self.promised[axis]):
                size = as_value(self.memref.sizes[memref_axis])
                inside = nest.emit(
                    [position],
                    lambda b, p, size=size: b.icmp_unsigned(
                        "<", p, llvm.splat(b, size, llvm.lanes_of(p.type))
                    ),
                )
                mask = _both(nest, mask, inside, lanes)
            part = nest.emit(
                [position],
                lambda b, p, stride=stride: b.mul(p, llvm.splat(b, stride, llvm.lanes_of(p.type))),
            )
            if llvm.lanes_of(part.value.type):
                spread = part if spread is None else _add(nest, spread, part)
            else:
                base = part if base is None else _add(nest, base, part)
        unit, pointer = self.memref.element.buffer, self.memref.pointer
        where = Lane(pointer)
        if base is not None:
            where = nest.emit([base], lambda b, o: b.gep(pointer, [o], source_etype=unit))
        if spread is None:
            spread = Lane(llvm.int_lanes([0] * max(lanes, 1)))
        return where, spread, mask

    def _position(self, nest: Nest, coords: Coords, axis: int, index: Tile | Value) -> Lane:
        if isinstance(index, Tile):
            at = coords if self.view is None else (coords[axis],)
            return nest.eval(index, at)
        start = Lane(index)
        if self.view is None:
            return start
        numbers = nest.numbers(coords[axis])
        return nest.emit(
            [numbers, start], lambda b, n, s: b.add(n, llvm.splat(b, s, llvm.lanes_of(n.type)))
        )

    def runs_along(self, coords: Coords) -> bool:
        """Whether the lanes lie side by side."""
        if self.view is None:
            return False
        for axis, index in enumerate(coords):
            if index.offsets is None:
                continue
            if isinstance(self.indices[axis], Tile):
                return False
            if self.memref.strides[self.view.axes[axis]] != 1:
                return False
            return index.offsets == tuple(range(len(index.offsets)))
        return False


def _add(nest: Nest, lhs: Lane, rhs: Lane) -> Lane:
    return nest.emit([lhs, rhs], lambda b, x, y: b.add(x, y))


def _both(nest: Nest, lhs: Lane | None, rhs: Lane, lanes: int) -> Lane:
    if lhs is None:
        return rhs
    pair = [lhs, rhs]
    if any(llvm.lanes_of(lane.value.type) for lane in pair):
        pair = [nest.widened(lane, lanes) for lane in pair]
    return nest.emit(pair, lambda b, x, y: b.and_(x, y))


def gathered(f: FunctionEmitter, op: M.GatherLoadOp | M.ScatterStoreOp) -> Gathered:
    found = f.values[op.base]
    memref = found.memref if isinstance(found, View) else found
    assert isinstance(memref, Memref)
    if memref.element.is_packed:
        raise refuse(op, "elements share bytes")
    indices: list[Tile | Value] = []
    view = found if isinstance(found, View) else None
    for axis, value in enumerate(op.indices):
        if isinstance(value.type, T.TileType):
            indices.append(f.tile(value))
            continue
        index = f.as_index(value)
        step = 1 if view is None else view.steps[axis]
        indices.append(index if step == 1 else f.builder.mul(index, ir.Constant(I64, step)))
    promised = bool_values(op.properties.get("in_bounds"))
    found = Gathered(memref, tuple(indices), promised, view)
    if f.unit.checked:
        _check_gathered(f, op, found)
    return found


def _check_gathered(
    f: FunctionEmitter, op: M.GatherLoadOp | M.ScatterStoreOp, at: Gathered
) -> None:
    """Every element that is selected lies in memory of the launch."""
    mask = optional(f, op.mask)
    size = at.memref.element.memory_bytes
    tiles = [tile for tile in (mask, *at.indices) if isinstance(tile, Tile)]

    def addresses(nest: Nest, coords: Coords) -> tuple[Lane, Lane | None]:
        where, spread, on = at.locate(nest, coords)
        if mask is not None:
            on = _both(nest, on, nest.eval(mask, coords), lanes_in(coords))
        if not lanes_in(coords):
            return nest.emit([where], lambda b, p: b.ptrtoint(p, I64)), on

        def spread_out(b: Builder, p: Value, s: Value) -> Value:
            lanes = llvm.lanes_of(s.type)
            first = llvm.splat(b, b.ptrtoint(p, I64), lanes)
            return b.add(first, b.mul(s, llvm.number(s.type, size)))

        return nest.emit([where, spread], spread_out), on

    check_addresses(f, op, T.dims_of(op.moved.type), tiles, size, addresses)


@dataclass(frozen=True, slots=True, eq=False)
class GatherLoad(Tile):
    """The elements that tiles of indices select."""

    gathered: Gathered
    padding: Constant
    mask: Tile | None
    other: Tile | None

    @property
    def sources(self) -> tuple[Tile, ...]:
        tiles = [tile for tile in (self.mask, self.other) if tile is not None]
        return (*tiles, *(tile for tile in self.gathered.indices if isinstance(tile, Tile)))

    def at(self, nest: Nest, coords: Coords) -> Lane:
        lanes = lanes_in(coords)
        where, spread, mask = self.gathered.locate(nest, coords)
        if self.mask is not None:
            mask = _both(nest, mask, nest.eval(self.mask, coords), lanes)
        passive = Lane(self.padding)
        if self.other is not None:
            passive = nest.eval(self.other, coords)
        if not lanes:
            return load_single(nest, where, self.element, mask, passive)
        dense = self.gathered.runs_along(coords)
        if dense:
            where, spread = _from_first(nest, where, spread, self.element.buffer)
        return load_lanes(nest, where, self.element, lanes, dense, spread, mask, passive)


def _from_first(nest: Nest, where: Lane, spread: Lane, unit: Type) -> tuple[Lane, Lane]:
    """The address of the first lane, where the lanes follow one another."""
    zero = ir.Constant(ir.IntType(32), 0)
    moved = nest.emit(
        [where, spread],
        lambda b, p, s: b.gep(p, [b.extract_element(s, zero)], source_etype=unit),
    )
    return moved, spread


@lowers("gather_load")
def gather_load(f: FunctionEmitter, op: M.GatherLoadOp) -> None:
    if not traits.is_weak(op):
        raise refuse(op, "gathers that order memory")
    dims, element = T.dims_of(op.result.type), element_of(op.result.type)
    padding = padding_of(op, f.values[op.base], element)  # pyright: ignore[reportArgumentType]
    tile = GatherLoad(
        element, dims, gathered(f, op), padding, optional(f, op.mask), optional(f, op.other)
    )
    f.define(op.result, tile)
    f.give_token(op)


@lowers("scatter_store")
def scatter_store(f: FunctionEmitter, op: M.ScatterStoreOp) -> None:
    if not traits.is_weak(op):
        raise refuse(op, "scatters that order memory")
    places, value, mask = gathered(f, op), f.tile(op.value), optional(f, op.mask)
    element = value.element

    def body(nest: Nest, coords: Coords) -> None:
        lanes = lanes_in(coords)
        data = to_buffer(nest.inner, nest.vector(value, coords), element)
        where, spread, on = places.locate(nest, coords)
        if mask is not None:
            on = _both(nest, on, nest.eval(mask, coords), lanes)
        b = nest.inner
        if not lanes:
            target = where.value
            with where_on(b, on):
                b.store(data, target, align=element.buffer_bytes)
            return
        chosen = full_mask(lanes) if on is None else nest.widened(on, lanes).value
        pointers = b.gep(where.value, [spread.value], source_etype=element.buffer)
        pointers.type = ir.VectorType(PTR, lanes)
        scatter_to(b, pointers, data, element, chosen)

    tiles = [tile for tile in (value, mask, *places.indices) if isinstance(tile, Tile)]
    f.nest(value.dims, tiles, body)
    f.give_token(op)
