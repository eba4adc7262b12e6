"""Loads and stores of tiles through views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from llvmlite import ir
from xdsl.dialects import scf
from xdsl.ir import SSAValue

from tilewright.cpu.codegen.analysis.tickets import likely_rise, while_around
from tilewright.cpu.codegen.elementwise.operations import Rise, is_block_number, rise_per_iteration
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import refuse
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I8, I32, I64, PTR, Element
from tilewright.cpu.codegen.ir.masked import masked_load, masked_store, store_whole
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Lane, lanes_in
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.strided_lanes import Distances, load_near, nearby, store_near
from tilewright.cpu.codegen.loops.tiles import Loose, NextRow, Tile, is_run, to_buffer
from tilewright.cpu.codegen.loops.windows import put_together, windows
from tilewright.cpu.codegen.memory.checks import (
    check_address,
    check_indices,
    check_position,
    check_reach,
)
from tilewright.cpu.codegen.memory.lane_gathers import gather_from, load_each, store_each
from tilewright.cpu.codegen.memory.packing import load_packed, number_in
from tilewright.cpu.codegen.memory.views import (
    Extent,
    Memref,
    TilePosition,
    View,
    address_of,
    as_value,
    element_offset,
    inside_mask,
    known_distances,
    lane_strides,
    locate,
    padding_value,
    reaches_only_rows,
    rows_as_one,
    safe_address,
)
from tilewright.dialects.declare import bool_values, enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M
from tilewright.dialects.syntax.engine import values_of

_TF32_MASK = -(1 << 13)
#: How many rows ahead memory is asked for, and from which length on (in bytes) rows are streams.
_ROWS_AHEAD = 8
_LINE = 64
_LONG_ROW = 2048
#: How non-temporal stores must be aligned, in bytes.
STREAM_ALIGNMENT = 16
#: Tiles that are fetched before their block begins, in bytes.
_SMALLEST_TILE = 1 << 12
_LARGEST_TILE = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class ViewLoad(Tile):
    """The elements of a tile in memory; ``padding`` for those outside, ``other`` for those that the
    mask turns off; ``once``: one nest reads them."""

    place: TilePosition
    padding: Value
    mask: Tile | None = None
    other: Tile | None = None
    once: bool = False
    _next: NextRow | None = field(init=False)
    """The tile of the next block, whatever its shape."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_next", _next_row(self.place, 1 if self.once else 2))

    @property
    def next_row(self) -> NextRow | None:
        along = self.place.contiguous
        one = along is not None and self.dims[along] == prod(self.dims)
        return self._next if one else None

    @property
    def sources(self) -> tuple[Tile, ...]:
        return tuple(tile for tile in (self.mask, self.other) if tile is not None)

    @property
    def guard(self) -> Value | None:
        return self.place.inside

    @property
    def limits(self) -> Sequence[Value | None] | None:
        return self.place.ends

    @property
    def loose(self) -> Loose | None:
        return self.place.loose

    @property
    def lies_along(self) -> int | None:
        return None if self.element.is_packed else self.place.contiguous

    def rows_as_one(self, b: Builder, lanes: int) -> tuple[Tile, Value | None] | None:
        joined = None if self.mask is not None else rows_as_one(b, self.place, lanes)
        if joined is None:
            return None
        place, condition = joined
        return ViewLoad(self.element, place.dims, place, self.padding, once=self.once), condition

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        lanes = lanes_in(coords)
        if (moved := self._from_windows(nest, coords)) is not None:
            return moved
        inside = inside_mask(nest, self.place, coords) if nest.masked else None
        mask, passive = inside, Lane(self.padding)
        if self.mask is not None and self.other is not None:
            chosen = nest.eval(self.mask, coords)
            mask = both(nest, inside, chosen, lanes)
            off = nest.eval(self.other, coords)
            passive = passive_elements(nest, inside, chosen, passive, off, lanes)
        if self.element.is_packed:
            if lanes:
                return nest.lane_by_lane(self, coords)
            number = number_in(nest, self.place, coords)
            return load_packed(nest, self.place.base, number, mask, passive)
        offset, _ = element_offset(nest, self.place, coords)
        where = address_of(nest, self.place, offset)
        element = self.element
        if not lanes:
            return load_single(nest, where, element, mask, passive)
        dense, distances = lane_strides(nest, self.place, coords)
        assert distances is not None
        if dense:
            where = safe_address(nest, self.place, coords, where)
            self._ask_ahead(nest, coords, where)
            self._ask_for_next_tile(nest, where)
        elif near := nearby(known_distances(nest, self.place, coords)):
            where = safe_address(nest, self.place, coords, where)
            self._ask_ahead(nest, coords, where, near)
            return load_nearby(nest, where, element, near, mask, passive)
        return load_lanes(nest, where, element, lanes, dense, distances, mask, passive)

    def _from_windows(self, nest: LoopNest, coords: Coords) -> Lane | None:
        """Elements that lie near one another along the dense axis; None where others do it."""
        along = self.lies_along
        moving = [axis for axis, index in enumerate(coords) if index.offsets is not None]
        if along is None or moving != [along]:
            return None
        offsets = coords[along].offsets or ()
        held = windows(coords[along], self.dims[along])
        if held is None or is_run(offsets):
            return None
        parts = [nest.eval(self, (*coords[:along], w, *coords[along + 1 :])) for w in held]
        lanes = len(offsets)
        return nest.emit(
            [nest.widened(part, lanes) for part in parts],
            lambda b, *found: put_together(b, found, held, offsets),
        )

    def _ask_ahead(
        self, nest: LoopNest, coords: Coords, where: Lane, distances: Sequence[int] = (0,)
    ) -> None:
        """Fetch what lies some rows further: rows are too short for the processor to see a stream. Behind the last
        one that is the tile of the next iteration of a loop, or of the next block. ``distances``: of the lanes, in elements;
        each line is asked for once.
        """
        dims, along = self.place.dims, self.place.contiguous
        rows = [axis for axis, extent in enumerate(dims) if extent > 1 and axis != along]
        if not rows or along is None or where.level != nest.depth or nest.masked:
            return
        if dims[along] * self.element.memory_bytes > _LONG_ROW or dims[rows[-1]] < _ROWS_AHEAD:
            return
        further = self._further(nest, coords[rows[-1]].base, rows[-1])
        if further is None:
            return
        unit, size = self.element.buffer, self.element.memory_bytes
        first, last = (number * size // _LINE for number in (min(distances), max(distances)))

        def fetch(line: int) -> Lane:
            def ask(b: Builder, pointer: Value, offset: Value) -> Value:
                there = b.gep(pointer, [offset], source_etype=unit)
                near = b.gep(there, [ir.Constant(I64, _LINE * line)], source_etype=I8)
                llvm.prefetch(b, near if line else there)
                return pointer

            return nest.emit([where, further], ask)

        for line in range(first, last + 1):
            nest.once(("ahead", id(self), id(where.value), line), lambda line=line: fetch(line))

    def _further(self, nest: LoopNest, row: Lane | int, axis: int) -> Lane | None:
        """How many elements further lies what is fetched with a row: a row of this tile, or with the last ones
        one of the next tile; None where that is not known."""
        place, last = self.place, self.dims[axis] - _ROWS_AHEAD
        by, ahead = as_value(place.strides[axis]), place.ahead
        here = nest.emit([], lambda b: b.mul(by, ir.Constant(I64, _ROWS_AHEAD)))
        if isinstance(row, int) and row < last:
            return here
        if ahead is None:
            # With the last rows what is being read.
            beyond = Lane(ir.Constant(I64, 0))
        else:
            step = as_value(ahead)
            beyond = nest.emit([], lambda b: b.sub(step, b.mul(by, ir.Constant(I64, last))))
        if isinstance(row, int) or not last:
            return None if ahead is None else beyond

        def choose(b: Builder, row: Value, here: Value, beyond: Value) -> Value:
            return b.select(b.icmp_unsigned("<", row, ir.Constant(row.type, last)), here, beyond)

        return nest.emit([row, here, beyond], choose)

    def _ask_for_next_tile(self, nest: LoopNest, where: Lane) -> None:
        """Fetch the tile of the next block while this one is computed with."""
        row = self._next
        if row is None or not row.is_due(nest) or where.level != nest.depth:
            return

        def fetch(b: Builder, pointer: Value) -> Value:
            llvm.prefetch(b, b.gep(pointer, [row.ahead], source_etype=row.unit), near=False)
            return pointer

        nest.emit([where], fetch)


def _next_row(place: TilePosition, turn: int) -> NextRow | None:
    """The tile that the next block of the grid reads where this one reads another, if fetching it pays."""
    size = prod(place.dims) * place.element.memory_bytes
    if place.ahead is None or not _SMALLEST_TILE <= size <= _LARGEST_TILE:
        return None
    ahead = as_value(place.ahead)
    return NextRow(place.pointer, ahead, place.element.buffer, [], turn, place.jumps)


def passive_elements(
    nest: LoopNest, inside: Lane | None, chosen: Lane, padding: Lane, off: Lane, lanes: int
) -> Lane:
    """What a masked load gives where it reads nothing: padding outside of the memory, ``off`` where
    the mask is off."""
    if inside is None:
        return off
    three = [nest.widened(lane, lanes) for lane in (chosen, padding, off)]
    return nest.emit(three, lambda b, on, x, y: b.select(on, x, y))


def both(nest: LoopNest, lhs: Lane | None, rhs: Lane, lanes: int) -> Lane:
    """The conjunction of two masks; the second where the first is None."""
    if lhs is None:
        return rhs
    pair = [lhs, rhs]
    if any(llvm.lanes_of(lane.value.type) for lane in pair):
        pair = [nest.widened(lane, lanes) for lane in pair]
    return nest.emit(pair, lambda b, x, y: b.and_(x, y))


def load_single(
    nest: LoopNest, where: Lane, element: Element, mask: Lane | None, passive: Lane
) -> Lane:
    """One element, or ``passive`` where the mask is off."""
    if mask is None:
        return nest.emit([where], lambda b, p: loaded(b, _plain_load(b, p, element, 0), element))

    def make(b: Builder, p: Value, on: Value, otherwise: Value) -> Value:
        vector = ir.VectorType(element.buffer, 1)
        found = masked_load(b, p, vector, b.bitcast(on, ir.VectorType(I1, 1)))
        value = b.extract_element(found, ir.Constant(I32, 0))
        return b.select(on, loaded(b, value, element), otherwise)

    return nest.emit([where, mask, passive], make)


def load_lanes(
    nest: LoopNest,
    where: Lane,
    element: Element,
    lanes: int,
    dense: bool,
    distances: Lane,
    mask: Lane | None,
    passive: Lane,
) -> Lane:
    """A vector of elements that lie side by side, or at distances, in elements, from an address.

    ``passive`` where the mask is off. The address is that of memory, or next to some, even where all of it is.
    """
    ty = ir.VectorType(element.buffer, lanes)
    if dense and mask is None:
        return nest.emit(
            [where], lambda b, p: loaded(b, _plain_load(b, p, element, lanes), element)
        )
    if mask is None:
        each = _each_distance(nest, distances, element)
        return nest.emit(
            [where, *each], lambda b, p, *v: loaded(b, load_each(b, p, v, element), element)
        )
    on, otherwise = nest.widened(mask, lanes), nest.widened(passive, lanes)

    def make(b: Builder, p: Value, far: Value, on: Value, otherwise: Value) -> Value:
        fallback = to_buffer(b, otherwise, element)
        if dense:
            return loaded(b, masked_load(b, p, ty, on, fallback, near=True), element)
        pointers = b.gep(p, [far], source_etype=element.buffer)
        pointers.type = ir.VectorType(PTR, lanes)
        return loaded(b, gather_from(b, pointers, element, on, fallback), element)

    return nest.emit([where, distances, on, otherwise], make)


def _each_distance(nest: LoopNest, distances: Lane, element: Element) -> list[Lane]:
    """How many bytes behind the first lane each lies, of a vector of numbers of elements."""
    size = ir.Constant(I64, element.buffer_bytes)

    def one(lane: int) -> Lane:
        at = ir.Constant(I32, lane)
        return nest.emit([distances], lambda b, far: b.mul(b.extract_element(far, at), size))

    return [one(lane) for lane in range(llvm.lanes_of(distances.value.type))]


def load_nearby(
    nest: LoopNest, where: Lane, element: Element, near: Distances, mask: Lane | None, passive: Lane
) -> Lane:
    """Elements at such distances from an address, ``passive`` where the mask is off."""
    unit, lanes = element.buffer, len(near)
    if mask is None:
        return nest.emit([where], lambda b, p: loaded(b, load_near(b, p, near, unit), element))

    def make(b: Builder, p: Value, on: Value, otherwise: Value) -> Value:
        return b.select(on, loaded(b, load_near(b, p, near, unit, on), element), otherwise)

    return nest.emit([where, nest.widened(mask, lanes), nest.widened(passive, lanes)], make)


def _plain_load(b: Builder, pointer: Value, element: Element, lanes: int) -> Value:
    ty = llvm.vector(element.buffer, lanes)
    return b.load(pointer, typ=ty, align=element.buffer_bytes)


def loaded(b: Builder, value: Value, element: Element) -> Value:
    """What was loaded, in register form."""
    if element.register == I1:
        return b.icmp_unsigned("!=", value, llvm.number(value.type, 0))
    if element.name == "tf32":
        words = llvm.shaped(I32, value.type)
        kept = b.and_(b.bitcast(value, words), llvm.number(words, _TF32_MASK))
        return b.bitcast(kept, value.type)
    return value


def store_lanes(
    nest: LoopNest,
    place: TilePosition,
    coords: Coords,
    value: Value,
    chosen: Lane | None,
    *,
    in_order: bool = False,
) -> None:
    """Write elements of a tile to memory, those inside and chosen by the mask; whole vectors bypassing the
    caches if the nest says so. ``in_order``: rows are written one after the other, and nobody reads meanwhile what
    they replace."""
    lanes = lanes_in(coords)
    mask = inside_mask(nest, place, coords) if nest.masked else None
    over = reaches_only_rows(nest, place, coords) if in_order and mask is not None else None
    if chosen is not None:
        pair = [nest.widened(lane, lanes) for lane in (mask, chosen) if lane is not None]
        mask = pair[0] if len(pair) == 1 else nest.emit(pair, lambda b, x, y: b.and_(x, y))
    offset, _ = element_offset(nest, place, coords)
    at = address_of(nest, place, offset)
    where = at.value
    element, b = place.element, nest.inner
    data = to_buffer(b, value, element)
    if not lanes:
        store_one(b, where, data, element, mask)
        return
    dense, distances = lane_strides(nest, place, coords)
    assert distances is not None
    on = llvm.all_on(lanes) if mask is None else nest.widened(mask, lanes).value
    near = None if dense else nearby(known_distances(nest, place, coords))
    if near is not None and store_near(b, where, [(near, data)], None if mask is None else on):
        return
    if not dense and mask is None:
        each = [lane.value for lane in _each_distance(nest, distances, element)]
        store_each(b, where, each, data, element)
    elif not dense:
        pointers = b.gep(where, [distances.value], source_etype=element.buffer)
        pointers.type = ir.VectorType(PTR, lanes)
        scatter_to(b, pointers, data, element, on)
    elif mask is None:
        store_vector(b, value, where, element, non_temporal=nest.non_temporal)
    else:
        safe = safe_address(nest, place, coords, at).value
        if over is None:
            masked_store(b, data, safe, on, near=True)
            return
        with b.if_else(over.value, likely=True) as (whole, rest):
            with whole:
                store_whole(b, data, where, element.buffer_bytes)
            with rest:
                masked_store(b, data, safe, on, near=True)


def ask_for_next_target(nest: LoopNest, place: TilePosition, coords: Coords) -> None:
    """Fetch the last line of what the next tile block writes where this one writes a vector: short pieces of many
    rows are no stream that the processor sees. Where rows do not begin with a line, a vector ends in the line
    that the piece beside it does not fetch."""
    if place.ahead is None or nest.masked:
        return
    offset, _ = element_offset(nest, place, coords)
    where, unit = address_of(nest, place, offset).value, place.element.buffer
    b = nest.inner
    ahead, last = place.ahead, lanes_in(coords) - 1
    end = as_value(ahead + last) if isinstance(ahead, int) else b.add(ahead, as_value(last))
    llvm.prefetch(b, b.gep(where, [end], source_etype=unit), write=True)


def store_beside(
    nest: LoopNest, place: TilePosition, coords: Coords, parts: Sequence[tuple[int, Value]]
) -> None:
    """Write vectors whose lanes lie at equal distances, each so many elements behind the place, and where the
    others leave gaps."""
    offset, _ = element_offset(nest, place, coords)
    where = address_of(nest, place, offset).value
    distances = known_distances(nest, place, coords)
    assert distances is not None
    b, element = nest.inner, place.element
    woven = [(tuple(d + by for d in distances), to_buffer(b, data, element)) for by, data in parts]
    stored = store_near(b, where, woven)
    assert stored


def store_vector(
    b: Builder, data: Value, where: Value, element: Element, *, non_temporal: bool
) -> None:
    """Write lanes side by side; ``non_temporal``: past the caches, to an address of ``STREAM_ALIGNMENT``."""
    held, align = to_buffer(b, data, element), element.buffer_bytes
    if non_temporal and llvm.lanes_of(held.type) * align % STREAM_ALIGNMENT == 0:
        llvm.store_non_temporal(b, held, where, STREAM_ALIGNMENT)
    else:
        store_whole(b, held, where, align)


def scatter_to(b: Builder, pointers: Value, data: Value, element: Element, on: Value) -> None:
    """Write lanes behind pointers where the mask is on, in ascending order: of equal pointers the last lane stays.

    LLVM takes a branch for each lane where the processor scatters nothing, and branches on numbers from memory are foretold
    badly. Lanes that are off go to the stack instead.
    """
    size = ir.Constant(I32, element.buffer_bytes)
    target = llvm.target_of(b)
    if not target.scatters_fast and not isinstance(on, ir.Constant):
        with b.goto_entry_block():
            nowhere = llvm.stack(b, element.buffer, element.buffer_bytes)
        lanes = llvm.lanes_of(on.type)
        chosen = b.select(on, pointers, llvm.splat(b, nowhere, lanes))
        for lane in range(lanes):
            at = ir.Constant(I32, lane)
            where, value = b.extract_element(chosen, at), b.extract_element(data, at)
            where.type = PTR
            b.store(value, where, align=element.buffer_bytes)
        return
    args = [data, pointers, size, on]
    llvm.intrinsic(b, "masked.scatter", args, ir.VoidType(), [data.type, pointers.type])


def store_one(b: Builder, where: Value, data: Value, element: Element, mask: Lane | None) -> None:
    """Store a scalar, where the mask, if there is one, is on."""
    if mask is None:
        b.store(data, where, align=element.buffer_bytes)
        return
    one = ir.VectorType(element.buffer, 1)
    boxed = b.insert_element(llvm.undefined(one), data, ir.Constant(I32, 0))
    on = b.bitcast(mask.value, ir.VectorType(I1, 1))
    masked_store(b, boxed, where, on)


def view_of(f: FunctionEmitter, op: M.Access, dims: tuple[int, ...]) -> View:
    """The view that an access goes through; a memref counts as tiles one element apart.

    Raises ``TileIRError`` as ``check_sparse``.
    """
    found = f.values[op.operands[0]]
    if isinstance(found, Memref):
        return View.whole(found, dims, "")
    assert isinstance(found, View)
    check_sparse(op, found)
    return found


def check_sparse(op: M.Access, view: View) -> None:
    """Raises ``TileIRError`` (``cpu-unsupported``) for an access that gives no index for each row of a sparse axis."""
    axes = [axis for axis, index in enumerate(indices_of(op)) if T.dims_of(index.type)]
    if view.sparse is not None and axes != [view.sparse]:
        raise refuse(op, f"it must have an index for each row along the sparse axis {view.sparse}")


def indices_of(op: M.Access) -> Sequence[SSAValue]:
    """The operands that say where in the view an access begins."""
    return values_of(op, "indices")


def position_of_tile(f: FunctionEmitter, op: M.Access, dims: tuple[int, ...]) -> TilePosition:
    """Where the elements of a tile of these extents lie, from the indices of an access on; in
    checked code behind its checks."""
    indices = [f.as_index(value) for value in indices_of(op)]
    bounds = bool_values(op.properties.get("in_bounds"))
    view = view_of(f, op, dims)
    last: Value | None = None
    if f.checked:
        furthest = check_indices(f, op, view, indices, bounds)
        number = check_reach(f, op, view.memref, view.axes, furthest)
        last = check_address(f, op, view.memref, number)
    place = locate(f.builder, view, indices, bounds)
    ahead, jumps = _next_tile(f, op, view)
    place = replace(place, ahead=ahead, jumps=jumps)
    if last is not None:
        mask = op.mask  # pyright: ignore[reportAttributeAccessIssue]
        check_position(f, op, place, last, None if mask is None else f.tile(mask))
    return place


def place_of_tile(f: FunctionEmitter, op: M.Access, dims: tuple[int, ...]) -> TilePosition:
    """The same without checks, for who asks before the access is made, in checked code too: an index may be any number."""
    indices = [f.as_index(value) for value in indices_of(op)]
    bounds = bool_values(op.properties.get("in_bounds"))
    return locate(f.builder, view_of(f, op, dims), indices, bounds)


def _next_tile(f: FunctionEmitter, op: M.Access, view: View) -> tuple[Extent | None, bool]:
    """How many elements behind a tile the next iteration of the loop around it has its own, and where there is
    no loop the next block of the grid, if their number moves tiles along one axis; and whether the next iteration of a loop has one that
    is not right behind it. Loops without a counter may draw it from memory (``analysis.tickets``)."""
    fastest, loop = f.unit.order[0], op.parent_op()
    uncounted = while_around(op)
    counted: list[tuple[int, Rise]] = []
    for axis, index in enumerate(indices_of(op)):
        if isinstance(loop, scf.ForOp):
            rise = rise_per_iteration(index, loop)
        else:
            likely = 0 if uncounted is None else likely_rise(index, uncounted)
            rise = Rise(likely or int(is_block_number(index, fastest)))
        if rise is not None and rise.times:
            counted.append((axis, rise))
    if len(counted) != 1:
        return None, False
    ((axis, rise),) = counted
    stride, step = view.memref.strides[view.axes[axis]], view.steps[axis]
    if isinstance(stride, int) and isinstance(step, int) and rise.by is None:
        ahead = stride * step * rise.times
        return ahead, isinstance(loop, scf.ForOp) and ahead != prod(view.dims)
    found = f.builder.mul(as_value(stride), as_value(step))
    if rise.by is not None:
        found = f.builder.mul(found, f.as_index(rise.by))
    if rise.times != 1:
        found = f.builder.mul(found, ir.Constant(I64, rise.times))
    return found, isinstance(loop, scf.ForOp)


def padding_of(op: M.Access, view: View, element: Element) -> Value:
    """What is read outside of the memref; zero where nothing is said."""
    return padding_value(enum_property(op, "padding_value") or view.padding, element)
