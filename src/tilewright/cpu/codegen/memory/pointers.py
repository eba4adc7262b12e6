"""Loads and stores through pointers, and of single elements of memrefs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod
from typing import cast

from llvmlite import ir

from tilewright.cpu.codegen.emitter.function import FunctionEmitter, vector_axis
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I32, I64, PTR, Element, element_of
from tilewright.cpu.codegen.ir.masked import masked_load, masked_store, store_whole
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane, lanes_in
from tilewright.cpu.codegen.loops.lane_strides import (
    LaneStrides,
    along_last,
    follows_none,
    most_lanes,
)
from tilewright.cpu.codegen.loops.likely_lanes import likely_lanes
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.plain_addresses import PlainAddresses
from tilewright.cpu.codegen.loops.row_ends import Into
from tilewright.cpu.codegen.loops.single_rows import asks_rows
from tilewright.cpu.codegen.loops.strided_lanes import (
    Distances,
    load_near,
    nearby,
    store_near,
)
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Loose,
    Mapped,
    PointerAccess,
    Tile,
    Uniform,
    guards,
    is_formula,
    to_buffer,
    walk,
)
from tilewright.cpu.codegen.loops.value_ranges import (
    Whole,
    reach,
    whole_access,
    whole_in_row,
)
from tilewright.cpu.codegen.memory.access import (
    ViewLoad,
    both,
    loaded,
    position_of_tile,
    scatter_to,
    store_vector,
)
from tilewright.cpu.codegen.memory.addresses import (
    masked_off,
    optional,
    pointers_of,
    refuse_packed,
    where_on,
    zero_of,
)
from tilewright.cpu.codegen.memory.guessed_gathers import (
    Guess,
    Places,
    Run,
    Window,
    gather_guessed,
    guess_of,
)
from tilewright.cpu.codegen.memory.lane_gathers import (
    SCALES,
    gather_behind,
    gather_from,
    load_each,
    store_each,
)
from tilewright.cpu.codegen.memory.ordered import ordered_load, ordered_store
from tilewright.cpu.codegen.memory.row_masks import where_row_is_on
from tilewright.cpu.codegen.memory.rows_ahead import ask_for_rows
from tilewright.cpu.codegen.memory.spaced import Spaced, each_lane, lane_steps_of, spaced_of
from tilewright.cpu.codegen.memory.stores_apart import lie_apart
from tilewright.cpu.codegen.memory.streams import (
    SHORTEST_STREAM,
    STREAM_ALIGNMENT,
    far_from_reads,
    may_stream,
    too_many_bytes,
)
from tilewright.cpu.codegen.memory.views import TilePosition, whole
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M

#: Stores for each of which more loads are made gain too little from bypassing the caches for a nest of their own.
_MOST_READ = 6


@dataclass(frozen=True, slots=True, eq=False)
class PointerLoad(Tile):
    """The elements behind a tile of pointers; ``other`` where the mask is off."""

    pointers: Tile
    mask: Tile | None
    other: Tile
    note: Callable[[str], None]
    """Takes why the elements are gathered one by one."""
    whole: Whole | None = None
    """What is known where no number wraps and the mask is on."""
    most: int | None = None
    spaced: Spaced | None = None
    """How far the elements lie apart, where that only shows when the code runs."""
    in_rows: bool = False
    """Whether each row is looked at by itself (``loops.single_rows``), so that few vectors need addresses."""

    @property
    def most_lanes(self) -> int | None:
        return self.most

    @property
    def guard(self) -> Value | None:
        if self.spaced is not None:
            return self.spaced.loose.inside
        return None if self.whole is None else self.whole.guard

    @property
    def fits(self) -> Value | None:
        return None if self.whole is None else self.whole.fits

    @property
    def loose(self) -> Loose | None:
        return None if self.spaced is None else self.spaced.loose

    @property
    def through_pointers(self) -> PointerAccess | None:
        if self.spaced is not None:
            return None
        return access_of(self.pointers, self.mask, self.whole)

    @property
    def gathers(self) -> bool:
        return not is_formula(self.pointers)

    @property
    def gets_elements(self) -> bool:
        return True

    @property
    def computed(self) -> tuple[Tile, ...]:
        # Offsets from one base are added to it by the processor, two vectors of them where they are wide.
        known = self.whole is not None or self.in_rows or self._has_base
        return (self.other,) if known else self.sources

    @property
    def _has_base(self) -> bool:
        pointers = self.pointers
        if not isinstance(pointers, Elementwise) or pointers.name != "offset":
            return False
        return isinstance(pointers.operands[0], Uniform) and pointers.unit in SCALES

    @property
    def sources(self) -> tuple[Tile, ...]:
        return (self.pointers, self.other, *([] if self.mask is None else [self.mask]))

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        if (id(self.pointers), id(self.mask)) in nest.idle:
            return nest.eval(self.other, coords)
        lanes, element, whole = (
            lanes_in(coords),
            self.element,
            _known(nest, self.pointers, self.mask, self.whole),
        )
        all_on = self.mask is None or (
            whole is not None and whole.on is not None and not nest.masked
        )
        mask = None if all_on or self.mask is None else nest.eval(self.mask, coords)
        if lanes and nest.on is not None:
            mask = both(nest, mask, nest.on, lanes)
        lane_steps = (
            lane_steps_of(nest, self.pointers, coords, whole, self.spaced) if lanes else None
        )
        run = lane_steps is not None and lane_steps.is_run(element.memory_bytes)
        if not lanes or (lane_steps is not None and lane_steps.is_zero):
            return self._one(nest, coords, mask, whole if lanes and not nest.masked else None)
        on = Lane(llvm.all_on(lanes)) if mask is None else nest.widened(mask, lanes)
        other = nest.widened(nest.eval(self.other, coords), lanes)
        if run and lane_steps is not None and lane_steps.exact:
            first = where_row_is_on(nest, self._first(nest, coords, whole), self.mask, mask, coords)
            return self._together(nest, coords, [first, on, other], _run_load)
        addresses = nest.widened(nest.eval(self.pointers, coords), lanes)
        if not run:
            near = _near(lane_steps, element)
            if near is not None:
                first = self._first(nest, coords, whole)
                load = partial(_near_load, near=near)
                return self._together(nest, coords, [first, on, other], load)
            if mask is None:
                each = each_lane(nest, self.pointers, coords, whole, self.spaced)
                if each:
                    first = self._first(nest, coords, whole)
                    return nest.emit([first, *each], lambda b, p, *v: _load_each(b, p, v, element))
            likely = self._likely(nest, coords)
            why = _why_apart(lane_steps)
            self.note(why if likely is None else f"{why}, unless {likely.question}")
            return self._apart(nest, coords, addresses, on, other, likely)
        limited = lane_steps is not None and lane_steps.limited
        behind = self._behind_base(nest, coords) if limited else None

        def run_or_gather(b: Builder, m: Value, o: Value, base: Value | None, p: Value) -> Value:
            pointer = None if base is None else b.inttoptr(base, PTR)
            places = Places(pointer, p, element)
            return _run_or_gather(b, places, m, o, splits=b is nest.inner, limited=limited)

        if behind is not None:
            return nest.emit([on, other, *behind], run_or_gather)
        return nest.emit([on, other, addresses], lambda b, m, o, p: run_or_gather(b, m, o, None, p))

    def _behind_base(self, nest: LoopNest, coords: Coords) -> list[Lane] | None:
        """The one address from which elements are counted, and their numbers; None where there is none, or those count other units."""
        pointers = self.pointers
        if not isinstance(pointers, Elementwise) or not self._has_base:
            return None
        if pointers.unit != self.element.buffer_bytes:
            return None
        base = nest.eval(pointers.operands[0], coords)
        return [base, nest.widened(nest.eval(pointers.operands[1], coords), lanes_in(coords))]

    def _first(self, nest: LoopNest, coords: Coords, whole: Whole | None) -> Lane:
        """The address of the first lane, where lanes follow their formula."""
        in_row = self.spaced is None and _in_row(nest, self.pointers, self.mask, self.whole)
        pointers = _plain(nest, self.pointers, whole, in_row=in_row)
        return nest.eval(pointers, first_lane(nest, coords))

    def _apart(
        self,
        nest: LoopNest,
        coords: Coords,
        addresses: Lane,
        on: Lane,
        other: Lane,
        likely: Guess | None = None,
    ) -> Lane:
        """A gather. Offsets from one base stay such: x86 adds the base by itself, and takes twice as many offsets at once
        if they have 32 bits."""
        element, pointers, lanes = self.element, self.pointers, lanes_in(coords)
        unit = pointers.unit if isinstance(pointers, Elementwise) else 0
        if isinstance(pointers, Elementwise) and pointers.name == "offset" and unit in SCALES:
            base = nest.eval(pointers.operands[0], coords)
            offsets = nest.widened(nest.eval(pointers.operands[1], coords), lanes)
            if not llvm.lanes_of(base.value.type):
                parts = [base, offsets, on, other]
                return nest.emit(
                    parts,
                    lambda b, *v: _gather_behind(
                        b,
                        *v,
                        element=element,
                        unit=unit,
                        likely=likely if b is nest.inner else None,
                    ),
                )
        parts = [addresses, on, other]
        return nest.emit(parts, lambda b, p, m, o: _gather(b, p, m, o, element))

    def _likely(self, nest: LoopNest, coords: Coords) -> Guess | None:
        """How lanes likely lie whose addresses no pattern describes."""
        if self.gathers or getattr(self.pointers, "unit", 0) != self.element.buffer_bytes:
            return None
        target = llvm.target_of(nest.inner)
        return guess_of(target, likely_lanes(self.pointers, coords), self.element)

    def _together(
        self, nest: LoopNest, coords: Coords, parts: list[Lane], load: Callable[..., Value]
    ) -> Lane:
        """Lanes from the address of the first one, by ``load``, which follow their formula where no number wraps; where one
        may, else every address is computed for itself."""
        element, lanes, whole = self.element, lanes_in(coords), self.whole
        fits = whole.fits if nest.masked and whole is not None else None
        if fits is None or nest.fits:
            return nest.emit(parts, lambda b, p, m, o: load(b, p, m, o, element))
        if nest.fits is False:
            addresses = nest.widened(nest.eval(self.pointers, coords), lanes)
            return self._apart(nest, coords, addresses, parts[1], parts[2])
        first, on, other = (part.value for part in parts)
        b = nest.inner
        blocks = [b.append_basic_block(name) for name in ("run", "gather", "read")]
        b.cbranch(fits, blocks[0], blocks[1])
        b.position_at_end(blocks[0])
        together = load(b, first, on, other, element)
        run = b.block
        b.branch(blocks[2])
        b.position_at_end(blocks[1])
        addresses = apart(nest, self.pointers, coords)
        scattered = _gather(b, llvm.splat(b, addresses, lanes), on, other, element)
        gathered = b.block
        b.branch(blocks[2])
        b.position_at_end(blocks[2])
        found = b.phi(together.type)
        found.add_incoming(together, run)
        found.add_incoming(scattered, gathered)
        return Lane(found, nest.depth)

    def _one(self, nest: LoopNest, coords: Coords, mask: Lane | None, whole: Whole | None) -> Lane:
        """The single element that all lanes read, if the mask is on for one of them."""
        element, lanes = self.element, lanes_in(coords)
        where = self._first(nest, coords, whole)
        if mask is None:
            return nest.emit([where], lambda b, p: _load(b, p, element))
        other = nest.eval(self.other, coords)
        any_on = nest.emit([mask], llvm.any_lane)

        def make(b: Builder, p: Value, m: Value) -> Value:
            ty = ir.VectorType(element.buffer, 1)
            found = masked_load(b, b.inttoptr(p, PTR), ty, b.bitcast(m, ir.VectorType(I1, 1)))
            return loaded(b, b.extract_element(found, ir.Constant(I32, 0)), element)

        three = [mask, nest.emit([where, any_on], make), other]
        if any(llvm.lanes_of(lane.value.type) for lane in three):
            three = [nest.widened(lane, lanes) for lane in three]
        return nest.emit(three, lambda b, m, value, o: b.select(m, value, o))


def _known(nest: LoopNest, pointers: Tile, mask: Tile | None, whole: Whole | None) -> Whole | None:
    """What is known of an access, ``whole`` where nothing is of the part of a row that the code is for."""
    return whole_in_row(pointers) if (id(pointers), id(mask)) in nest.certain else whole


def _in_row(nest: LoopNest, pointers: Tile, mask: Tile | None, whole: Whole | None) -> bool:
    """Whether what is known of an access is known of the part of a row that the code is for."""
    if nest.certain:
        return (id(pointers), id(mask)) in nest.certain
    return nest.instead is not None and whole is not None and whole.guard is not None


def _plain(nest: LoopNest, pointers: Tile, whole: Whole | None, *, in_row: bool) -> Tile:
    """The pointers of an access of which something is known (``whole``), for code that is run where that holds. ``in_row``:
    what is known is known of a part of a row."""
    if whole is None:
        return pointers
    key = nest.masked, in_row
    known = nest.plain.setdefault(key, PlainAddresses())
    assert isinstance(known, PlainAddresses)
    known.settled |= whole.settled
    if not nest.masked:
        known.instead.update((nest.instead or {}) if in_row else whole.instead)
    return known.of(pointers)


def access_of(pointers: Tile, mask: Tile | None, whole: Whole | None) -> PointerAccess:
    """What is asked of an access before it needs no checks."""
    if whole is None:
        return PointerAccess(pointers, None, None, True, mask)
    asks = mask is not None and whole.on is None
    return PointerAccess(pointers, None if asks else mask, whole.guard, asks, mask)


def _fewer_lanes(
    f: FunctionEmitter, pointers: Tile, whole: Whole | None, most: int | None
) -> int | None:
    """How many lanes are accessed at once: as many as addresses have words, where each is accessed for itself, however
    short the elements are. Else there are more vectors of addresses than registers."""
    settled = frozenset[int]() if whole is None else whole.settled
    if most is not None or not follows_none(pointers, settled):
        return most
    return f.unit.target.vector_bits // _WORD_BITS


def _why_apart(lane_steps: LaneStrides | None) -> str:
    if lane_steps is None:
        return "the lane stride of the addresses is unknown"
    return "neighbouring lanes do not access consecutive addresses"


def _near(lane_steps: LaneStrides | None, element: Element) -> Distances | None:
    """How many elements behind the first lane each lies, if all lie near one another."""
    size = element.memory_bytes
    if (
        lane_steps is None
        or not lane_steps.exact
        or any(delta % size for delta in lane_steps.lanes)
    ):
        return None
    return nearby(tuple(delta // size for delta in lane_steps.lanes))


def _near_load(
    b: Builder, address: Value, on: Value, other: Value, element: Element, *, near: Distances
) -> Value:
    pointer, all_on = b.inttoptr(address, PTR), llvm.is_all_on(on)
    found = load_near(b, pointer, near, element.buffer, None if all_on else on)
    if not all_on:
        found = b.select(on, found, to_buffer(b, other, element))
    return loaded(b, found, element)


def _first(b: Builder, value: Value) -> Value:
    if llvm.lanes_of(value.type):
        return b.extract_element(value, ir.Constant(I32, 0))
    return value


def first_lane(nest: LoopNest, coords: Coords) -> Coords:
    """The position of the first lane."""
    return tuple(
        index
        if index.offsets is None
        else nest.shift(Index(index.base, None, index.align), index.offsets[0])
        for index in coords
    )


def apart(nest: LoopNest, tile: Tile, coords: Coords) -> Value:
    """The elements of a tile, computed where code of the innermost level goes and for nothing else:
    in a branch."""
    inner = LoopNest(nest.inner, masked=nest.masked)
    here = tuple(
        index if isinstance(index.base, int) else replace(index, base=Lane(index.base.value))
        for index in coords
    )
    return inner.eval(tile, here).value


def _load(b: Builder, address: Value, element: Element) -> Value:
    pointer = b.inttoptr(address, PTR)
    return loaded(b, b.load(pointer, typ=element.buffer, align=element.buffer_bytes), element)


def _run_load(b: Builder, address: Value, on: Value, other: Value, element: Element) -> Value:
    ty = ir.VectorType(element.buffer, llvm.lanes_of(on.type))
    pointer = b.inttoptr(address, PTR)
    if llvm.is_all_on(on):
        return loaded(b, b.load(pointer, typ=ty, align=element.buffer_bytes), element)
    held = to_buffer(b, other, element)
    return loaded(b, masked_load(b, pointer, ty, on, held, near=True), element)


def _load_each(b: Builder, address: Value, each: Sequence[Value], element: Element) -> Value:
    return loaded(b, load_each(b, b.inttoptr(address, PTR), each, element), element)


def _gather(b: Builder, addresses: Value, on: Value, other: Value, element: Element) -> Value:
    pointers = b.inttoptr(addresses, llvm.shaped(PTR, addresses.type))
    return loaded(b, gather_from(b, pointers, element, on, to_buffer(b, other, element)), element)


_WORD_BITS = 32


def _gather_behind(
    b: Builder,
    base: Value,
    offsets: Value,
    on: Value,
    other: Value,
    *,
    element: Element,
    unit: int,
    likely: Guess | None,
) -> Value:
    """Elements at offsets, in units of bytes, from one base."""
    pointer, held = b.inttoptr(base, PTR), to_buffer(b, other, element)
    if likely is not None:
        places = Places(pointer, offsets, element)
        return loaded(b, gather_guessed(b, places, on, held, [likely]), element)
    return loaded(b, gather_behind(b, pointer, offsets, unit, element, on, held), element)


def _run_or_gather(
    b: Builder, places: Places, on: Value, other: Value, *, splits: bool, limited: bool
) -> Value:
    """A vector load where the addresses turn out to follow one another, as their formula has it: what wraps within the vector shows
    in its last lane; that a limit is reached may not, where numbers wrap, too, and then many lanes are the same."""
    element = places.element
    held = to_buffer(b, other, element)
    if not splits:
        return loaded(b, places.gather(b, on, held), element)
    window = Window.of_all(llvm.target_of(b), element, places.lanes) if limited else None
    guesses = [Run(by_last=not limited), *([] if window is None else [window])]
    return loaded(b, gather_guessed(b, places, on, held, guesses), element)


@lowers("load")
def load(f: FunctionEmitter, op: M.LoadOp) -> None:
    """Elements at a tile of pointers, side by side where that is known; those that are masked off are padding. Ordered
    loads go by element.
    """
    if not op.is_weak:
        ordered_load(f, op)
        return
    ty = op.result.type
    dims, element = T.dims_of(ty), element_of(ty)
    mask = optional(f, op.mask)
    if isinstance(op.base.type, T.MemrefType):
        _load_at_indices(f, op, mask)
        return
    other = optional(f, op.other) or Uniform(element, dims, zero_of(element))
    ask_for_rows(f, op)

    def note(reason: str) -> None:
        f.unit.remarks.add("gather", f"a load gathers its elements: {reason}", op)

    pointers = pointers_of(f, op, mask)
    whole = whole_access(f.builder, pointers, mask) if dims else None
    settled = frozenset[int]() if whole is None else whole.settled
    most = most_lanes(pointers, settled) if dims else None
    spaced = spaced_of(f.builder, pointers, whole, element) if dims else None
    most = _fewer_lanes(f, pointers, whole, most) if spaced is None else most
    in_rows = asks_rows(access_of(pointers, mask, whole))
    tile = PointerLoad(element, dims, pointers, mask, other, note, whole, most, spaced, in_rows)
    if dims:
        f.define(op.result, tile)
    else:
        f.values[op.result] = f.element(tile, ())
    f.give_token(op)


def _load_at_indices(f: FunctionEmitter, op: M.LoadOp, mask: Tile | None) -> None:
    """From the given element of a memref on; a scalar is a tile of one element."""
    dims, element = T.dims_of(op.result.type), element_of(op.result.type)
    refuse_packed(op)
    place = position_of_tile(f, op, dims)
    other = masked_off(f, op)
    if dims:
        f.define(op.result, ViewLoad(element, dims, place, zero_of(element), mask, other))
    else:
        mask, other = (None if t is None else _of_one_element(t, place) for t in (mask, other))
        tile = ViewLoad(element, place.dims, place, zero_of(element), mask, other)
        f.values[op.result] = f.element(tile, whole(place.dims))
    f.give_token(op)


def _of_one_element(tile: Tile, place: TilePosition) -> Tile:
    """A scalar as a tile of one element."""
    return Mapped(tile.element, place.dims, tile, lambda nest, coords: ())


@lowers("store")
def store(f: FunctionEmitter, op: M.StoreOp) -> None:
    """Elements to a tile of pointers where the mask holds. Ordered stores go by element."""
    if not op.is_weak or isinstance(op.base.type, T.MemrefType):
        # What goes into a memref, one element after the other, is small.
        ordered_store(f, op)
        return
    group = cast(list[M.StoreOp], f.plan.groups.get(op, [op]))
    if op is f.plan.leader(op):
        _store(f, group)
    elif f.checked:
        pointers_of(f, op, optional(f, op.mask))  # Checks are made in the order of the program.
    f.give_token(op)


def _store(f: FunctionEmitter, ops: list[M.StoreOp]) -> None:
    """Stores of tiles of one shape in one nest; in turn, once all values are known, where they may meet."""
    stores = [_PointerStore.of(f, op, checks=op is ops[-1]) for op in ops]
    apart = lie_apart(f.builder, ops, stores)
    if apart is None:
        _store_together(f, stores)
        return

    def in_turn() -> None:
        pairs = [(f.buffer(s.value.element, s.value.dims, f.now), s.value) for s in stores]
        f.fill(pairs)
        for store, (value, _) in zip(stores, pairs, strict=True):
            _store_together(f, [replace(store, value=value)])

    if isinstance(apart, ir.Constant) or f.rarely:
        in_turn()
    else:
        f.either(apart, lambda: _store_together(f, stores), in_turn)


def _store_together(f: FunctionEmitter, stores: Sequence[_PointerStore]) -> None:
    """Stores in one nest: all values of an iteration are computed before the first one is written."""
    values = [store.value for store in stores]
    dims = values[0].dims

    def put(nest: LoopNest, coords: Coords) -> None:
        found = [nest.vector(value, coords) for value in values]
        for store, data in zip(stores, found, strict=True):
            store.put(nest, coords, data)

    tiles, guard, loose = list(values), [], []
    through: list[PointerAccess] | None = []
    lanes: int | None = None
    for store in stores:
        addressing = [tile for tile in (store.pointers, store.mask) if tile is not None]
        access = access_of(store.pointers, store.mask, store.whole)
        if store.whole is None:
            tiles += addressing
        else:
            own = [] if store.whole.guard is None else [store.whole.guard]
            loose += [] if store.spaced is None else [store.spaced.loose]
            guard += [
                *guards(*addressing),
                *(own if store.spaced is None else [store.spaced.loose.inside]),
            ]
            if store.spaced is None:
                few = _fewer_lanes(f, store.pointers, store.whole, None)
                if few is not None:
                    usual = f.lanes(values, dims[vector_axis(dims)])
                    lanes = min(few, usual if lanes is None else lanes)
            if store.spaced is not None or (guards(*addressing) and not asks_rows(access)):
                through = None
        if through is not None:
            through.append(access)
    fits = [each.whole.fits for each in stores if each.whole is not None]
    into = Into(
        _bypass_caches(f, stores),
        (),
        loose,
        through=through or (),
        fits=[each for each in fits if each is not None],
    )
    f.nest(dims, tiles, put, lanes=lanes, guard=guard, into=into)


def _bypass_caches(f: FunctionEmitter, stores: Sequence[_PointerStore]) -> Value | None:
    """Whether stores of single rows bypass the caches: the kernel reads nothing of the arrays, and its blocks write more than
    need stay there. None where they never do."""
    dims, elements = stores[0].value.dims, [store.value.element for store in stores]
    row = dims[-1] if dims else 0
    loads = sum(isinstance(tile, PointerLoad) for tile in walk(*(s.value for s in stores)))
    if (
        not f.unit.target.is_x86
        or f.rarely
        or loads > _MOST_READ * len(stores)
        or not may_stream(f, len(stores))
        or prod(dims) != row
        or any(row * element.memory_bytes < SHORTEST_STREAM for element in elements)
        or not all(store.op in f.plan.non_temporal and store.is_run for store in stores)
    ):
        return None
    b = f.builder
    reached = [reach(b, store.pointers, store.mask) for store in stores]
    first = [each.first for each in reached if each is not None]
    if len(first) < len(stores):
        return None
    low_bits = b.and_(reduce(b.or_, first), ir.Constant(I64, STREAM_ALIGNMENT - 1))
    blocks = reduce(b.mul, [b.zext(extent, I64) for extent in f.frame.grid])
    written = b.mul(blocks, ir.Constant(I64, row * sum(each.memory_bytes for each in elements)))
    large = b.icmp_unsigned(">=", written, ir.Constant(I64, too_many_bytes(f) // 2))
    f.unit.has_non_temporal_stores = True
    aligned, values = (
        b.icmp_unsigned("==", low_bits, ir.Constant(I64, 0)),
        [s.value for s in stores],
    )
    far = [
        condition
        for address, element in zip(first, elements, strict=True)
        for condition in far_from_reads(b, [address], element, values)
    ]
    return llvm.all_of(b, [aligned, *far, large])


@dataclass(frozen=True, slots=True)
class _PointerStore:
    """A store to a tile of pointers."""

    op: M.StoreOp
    value: Tile
    pointers: Tile
    mask: Tile | None
    note: Callable[[str], None]
    """Takes why the elements are scattered."""
    whole: Whole | None
    spaced: Spaced | None

    @staticmethod
    def of(f: FunctionEmitter, op: M.StoreOp, *, checks: bool) -> _PointerStore:
        """What an operation stores; ``checks``: with the checks that checked code has."""
        value, mask = f.tile(op.value), optional(f, op.mask)
        pointers = pointers_of(f, op, mask) if checks else f.tile(op.operands[0])
        whole = whole_access(f.builder, pointers, mask) if value.dims else None
        spaced = None if whole is None else spaced_of(f.builder, pointers, whole, value.element)

        def note(reason: str) -> None:
            f.unit.remarks.add("gather", f"a store scatters its elements: {reason}", op)

        return _PointerStore(op, value, pointers, mask, note, whole, spaced)

    @property
    def stride(self) -> Value | None:
        """How many elements lie apart, where that only shows when the code runs."""
        return None if self.spaced is None else self.spaced.loose.stride

    @property
    def is_run(self) -> bool:
        """Whether the elements of a row are known to follow one another, where no number wraps."""
        if self.whole is None or self.spaced is not None:
            return False
        strides = along_last(self.pointers, self.whole.settled)
        size = self.value.element.memory_bytes
        return strides is not None and strides.exact and strides.is_run(size)

    def put(self, nest: LoopNest, coords: Coords, data: Value) -> None:
        """Store the elements at these positions, ``data``."""
        lanes, element = lanes_in(coords), self.value.element
        whole = _known(nest, self.pointers, self.mask, self.whole)
        proven = whole is not None and whole.on is not None and not nest.masked
        on = None
        if self.mask is not None and not proven:
            on = nest.widened(nest.eval(self.mask, coords), lanes)
        if not lanes:
            where = nest.emit([nest.eval(self.pointers, coords)], lambda b, p: b.inttoptr(p, PTR))
            b = nest.inner
            with where_on(b, on):
                b.store(to_buffer(b, data, element), where.value, align=element.buffer_bytes)
            return
        if nest.on is not None:
            on = both(nest, on, nest.on, lanes)
        chosen = llvm.all_on(lanes) if on is None else on.value
        lane_steps = lane_steps_of(nest, self.pointers, coords, whole, self.spaced)
        if lane_steps is not None and lane_steps.is_run(element.memory_bytes) and lane_steps.exact:
            fits = whole.fits if nest.masked and whole is not None and not nest.fits else None
            first = where_row_is_on(nest, self._first(nest, coords), self.mask, on, coords).value
            _stored_together(nest, coords, self.pointers, first, data, chosen, element, fits)
        elif not self._put_near(nest, coords, lane_steps, data, on):
            each = each_lane(nest, self.pointers, coords, whole, self.spaced) if on is None else []
            if each:
                where = nest.inner.inttoptr(self._first(nest, coords).value, PTR)
                held = to_buffer(nest.inner, data, element)
                store_each(nest.inner, where, [lane.value for lane in each], held, element)
            else:
                self._put_apart(nest, coords, lane_steps, data, chosen)

    def _first(self, nest: LoopNest, coords: Coords) -> Lane:
        """The address of the first lane, where lanes follow their formula."""
        whole = _known(nest, self.pointers, self.mask, self.whole)
        in_row = self.spaced is None and _in_row(nest, self.pointers, self.mask, self.whole)
        pointers = _plain(nest, self.pointers, whole, in_row=in_row)
        return nest.eval(pointers, first_lane(nest, coords))

    def _put_near(
        self,
        nest: LoopNest,
        coords: Coords,
        lane_steps: LaneStrides | None,
        data: Value,
        on: Lane | None,
    ) -> bool:
        """Store lanes that lie near one another; False, and nothing, where they do not, or may not."""
        whole, element = self.whole, self.value.element
        sure = not nest.masked or whole is None or whole.fits is None or nest.fits
        near = _near(lane_steps, element) if sure else None
        if near is None:
            return False
        first = self._first(nest, coords).value
        parts = [(near, to_buffer(nest.inner, data, element))]
        where = nest.inner.inttoptr(first, PTR)
        return store_near(nest.inner, where, parts, None if on is None else on.value)

    def _put_apart(
        self,
        nest: LoopNest,
        coords: Coords,
        lane_steps: LaneStrides | None,
        data: Value,
        chosen: Value,
    ) -> None:
        """Store lanes each to its address, unless these turn out to follow one another, as they may where a formula that
        tells nothing gives them: a flat index, taken apart and put together by strides."""
        element, addresses = self.value.element, nest.vector(self.pointers, coords)
        limited = lane_steps is None or lane_steps.limited
        if lane_steps is None:
            may_run = is_formula(self.pointers)
        else:
            may_run = lane_steps.is_run(element.memory_bytes)
        if not may_run:
            self.note(_why_apart(lane_steps))
        _run_or_scatter(nest.inner, addresses, data, chosen, element, may_run, limited)


def _stored_together(
    nest: LoopNest,
    coords: Coords,
    pointers: Tile,
    first: Value,
    data: Value,
    on: Value,
    element: Element,
    fits: Value | None,
) -> None:
    """A store to addresses that follow one another, from ``first`` on; where ``fits`` does not hold, each is computed for itself."""
    b = nest.inner
    if nest.non_temporal and llvm.is_all_on(on):
        store_vector(b, data, b.inttoptr(first, PTR), element, non_temporal=True)
        return
    if fits is None:
        _run_store(b, first, data, on, element)
        return
    if nest.fits is False:
        addresses = llvm.splat(b, nest.vector(pointers, coords), lanes_in(coords))
        _scatter(b, addresses, data, on, element)
        return
    with b.if_else(fits) as (run, scatters):
        with run:
            _run_store(b, first, data, on, element)
        with scatters:
            addresses = llvm.splat(b, apart(nest, pointers, coords), lanes_in(coords))
            _scatter(b, addresses, data, on, element)


def _run_store(b: Builder, address: Value, data: Value, on: Value, element: Element) -> None:
    pointer, held = b.inttoptr(address, PTR), to_buffer(b, data, element)
    if llvm.is_all_on(on):
        store_whole(b, held, pointer, element.buffer_bytes)
        return
    masked_store(b, held, pointer, on, near=True)


def _scatter(b: Builder, addresses: Value, data: Value, on: Value, element: Element) -> None:
    pointers = b.inttoptr(addresses, llvm.shaped(PTR, addresses.type))
    scatter_to(b, pointers, to_buffer(b, data, element), element, on)


def _run_or_scatter(
    b: Builder,
    addresses: Value,
    data: Value,
    on: Value,
    element: Element,
    may_run: bool,
    limited: bool,
) -> None:
    if not may_run:
        _scatter(b, addresses, data, on, element)
        return
    places = Places(None, addresses, element)
    with b.if_else(Run(by_last=not limited).holds(b, places, on)) as (run, apart):
        with run:
            _run_store(b, _first(b, addresses), data, on, element)
        with apart:
            _scatter(b, addresses, data, on, element)
