"""Gathers and scatters: accesses to elements selected by index tiles."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import PTR, element_of
from tilewright.cpu.codegen.ir.masked import somewhere
from tilewright.cpu.codegen.ir.types import Type, Value
from tilewright.cpu.codegen.loops.indices import Coords, Lane, lanes_in
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Tile, to_buffer
from tilewright.cpu.codegen.memory.access import (
    both,
    load_lanes,
    load_single,
    padding_of,
    passive_elements,
    scatter_to,
    view_of,
)
from tilewright.cpu.codegen.memory.addresses import masked_off, optional, refuse_packed, where_on
from tilewright.cpu.codegen.memory.index_tiles import Gathered, gathered
from tilewright.cpu.codegen.memory.ordered import ordered_load, ordered_store
from tilewright.cpu.codegen.memory.packing import load_packed
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M


@dataclass(frozen=True, slots=True, eq=False)
class GatherLoad(Tile):
    """The elements that tiles of indices select."""

    gathered: Gathered
    padding: Value
    mask: Tile | None
    other: Tile | None

    @property
    def sources(self) -> tuple[Tile, ...]:
        tiles = [tile for tile in (self.mask, self.other) if tile is not None]
        return (*tiles, *(tile for tile in self.gathered.indices if isinstance(tile, Tile)))

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        lanes, packed = lanes_in(coords), self.element.is_packed
        if packed and lanes:
            return nest.lane_by_lane(self, coords)
        if packed:
            number, _, inside = self.gathered.numbers(nest, coords)
            pointer = self.gathered.memref.pointer
            return load_packed(nest, pointer, number, inside, Lane(self.padding))
        where, spread, inside = self.gathered.locate(nest, coords)
        mask, passive = inside, Lane(self.padding)
        if self.mask is not None and self.other is not None:
            chosen = nest.eval(self.mask, coords)
            mask = both(nest, inside, chosen, lanes)
            off = nest.eval(self.other, coords)
            passive = passive_elements(nest, inside, chosen, passive, off, lanes)
        if not lanes:
            return load_single(nest, where, self.element, mask, passive)
        dense = self.gathered.runs_along(coords)
        if dense:
            where, spread = _from_first(nest, where, spread, self.element.buffer)
            if mask is not None:
                on = nest.widened(mask, lanes)
                where = nest.emit([where, on], lambda b, p, m: somewhere(b, p, llvm.any_lane(b, m)))
        return load_lanes(nest, where, self.element, lanes, dense, spread, mask, passive)


def _from_first(nest: LoopNest, where: Lane, spread: Lane, unit: Type) -> tuple[Lane, Lane]:
    """The address of the first lane, where the lanes follow one another."""
    zero = ir.Constant(ir.IntType(32), 0)
    moved = nest.emit(
        [where, spread],
        lambda b, p, s: b.gep(p, [b.extract_element(s, zero)], source_etype=unit),
    )
    return moved, spread


@lowers("gather_load")
def gather_load(f: FunctionEmitter, op: M.GatherLoadOp) -> None:
    """Elements of rows whose numbers are a tile's; padding outside. Ordered loads go by element. Raises ``not-
    compiled`` for
    packed elements.
    """
    refuse_packed(op)
    if not op.is_weak:
        ordered_load(f, op)
        return
    dims, element = T.dims_of(op.result.type), element_of(op.result.type)
    padding = padding_of(op, view_of(f, op, dims), element)
    mask, other = optional(f, op.mask), masked_off(f, op)
    f.define(op.result, GatherLoad(element, dims, gathered(f, op), padding, mask, other))
    f.give_token(op)


@lowers("scatter_store")
def scatter_store(f: FunctionEmitter, op: M.ScatterStoreOp) -> None:
    """Stores rows by number; what lies outside is left out. Raises ``cpu-unsupported`` for
    packed elements.
    """
    refuse_packed(op)
    if not op.is_weak or element_of(op.value.type).is_packed:
        ordered_store(f, op)
        return
    places, value, mask = gathered(f, op), f.tile(op.value), optional(f, op.mask)
    element = value.element

    def body(nest: LoopNest, coords: Coords) -> None:
        lanes = lanes_in(coords)
        data = to_buffer(nest.inner, nest.vector(value, coords), element)
        where, spread, on = places.locate(nest, coords)
        if mask is not None:
            on = both(nest, on, nest.eval(mask, coords), lanes)
        b = nest.inner
        if not lanes:
            target = where.value
            with where_on(b, on):
                b.store(data, target, align=element.buffer_bytes)
            return
        chosen = llvm.all_on(lanes) if on is None else nest.widened(on, lanes).value
        pointers = b.gep(where.value, [spread.value], source_etype=element.buffer)
        pointers.type = ir.VectorType(PTR, lanes)
        scatter_to(b, pointers, data, element, chosen)

    tiles = [tile for tile in (value, mask, *places.indices) if isinstance(tile, Tile)]
    f.nest(value.dims, tiles, body)
    f.give_token(op)
