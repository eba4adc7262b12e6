"""Elements that share bytes: 4-bit elements in memory, and tiles of them reinterpreted as bytes."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import ELEMENTS, I1, I8, I32, I64, Element
from tilewright.cpu.codegen.ir.masked import masked_load
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Lane, lanes_in
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Tile
from tilewright.cpu.codegen.memory.views import TilePosition, element_offset

BYTE = ELEMENTS["i8"]


def shared_bits(element: Element) -> int:
    """The bits of an element of which several make a byte; 0 for whole bytes."""
    return {"i1": 1, "i4": 4, "f4E2M1FN": 4}.get(element.name, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Bytes(Tile):
    """A rank-1 tile of small elements read as bytes, the first element in the low bits."""

    source: Tile

    @property
    def sources(self) -> tuple[Tile, ...]:
        return (self.source,)

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        bits = shared_bits(self.source.element)
        count = 8 // bits
        parts = [
            nest.eval(self.source, (nest.shift(nest.times(coords[0], count), place),))
            for place in range(count)
        ]
        lanes = lanes_in(coords)

        def join(b: Builder, *values: Value) -> Value:
            ty = llvm.vector(I8, lanes)
            total: Value = llvm.number(ty, 0)
            for place, value in enumerate(values):
                byte = b.zext(value, ty) if bits == 1 else b.and_(value, llvm.number(ty, 15))
                total = b.or_(total, b.shl(byte, llvm.number(ty, place * bits)))
            return total

        return nest.emit([nest.widened(part, lanes) for part in parts], join)


@dataclass(frozen=True, slots=True, eq=False)
class FromBytes(Tile):
    """A rank-1 tile of bytes read as small elements."""

    source: Tile

    @property
    def sources(self) -> tuple[Tile, ...]:
        return (self.source,)

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        bits = shared_bits(self.element)
        count = 8 // bits
        index = coords[0]
        if not index.splits_bits:
            return nest.lane_by_lane(self, coords)
        lanes = lanes_in(coords)
        byte = nest.eval(self.source, (nest.high_bits(index, count),))
        place = nest.numbers(nest.low_bits(index, count))

        def cut(b: Builder, value: Value, number: Value) -> Value:
            narrow = b.trunc(number, llvm.shaped(I8, number.type))
            amount = b.mul(narrow, llvm.number(narrow.type, bits))
            moved = b.lshr(value, amount)
            if bits == 1:
                return b.trunc(moved, llvm.shaped(I1, moved.type))
            return b.and_(moved, llvm.number(moved.type, 15))

        return nest.emit([nest.widened(byte, lanes), nest.widened(place, lanes)], cut)


def number_in(nest: LoopNest, place: TilePosition, coords: Coords) -> Lane:
    """The number of an element in its memref."""
    offset, _ = element_offset(nest, place, coords)
    first = Lane(place.first)
    return first if offset is None else nest.emit([first, offset], lambda b, x, y: b.add(x, y))


def byte_of(nest: LoopNest, base: Value, number: Lane) -> tuple[Lane, Lane]:
    """The address of the byte that has the element of a number, and how far the element lies from its
    low end."""
    where = nest.emit(
        [number], lambda b, n: b.gep(base, [b.lshr(n, ir.Constant(I64, 1))], source_etype=I8)
    )
    return where, nest.emit([number], _shift)


def load_packed(
    nest: LoopNest, base: Value, number: Lane, inside: Lane | None, passive: Lane
) -> Lane:
    """The 4-bit element of a number, in the lower half of a byte; ``passive`` outside of the memref."""
    where, shift = byte_of(nest, base, number)

    def load(b: Builder, pointer: Value, amount: Value, *on: Value) -> Value:
        if on:
            one = ir.VectorType(I8, 1)
            mask = b.bitcast(on[0], ir.VectorType(I1, 1))
            found = masked_load(b, pointer, one, mask)
            byte = b.extract_element(found, ir.Constant(I32, 0))
        else:
            byte = b.load(pointer, typ=I8, align=1)
        return b.and_(b.lshr(byte, amount), ir.Constant(I8, 15))

    if inside is None:
        return nest.emit([where, shift], load)
    found = nest.emit([where, shift, inside], load)
    return nest.emit([inside, found, passive], lambda b, c, x, y: b.select(c, x, y))


def _shift(b: Builder, number: Value) -> Value:
    """How far the bits of an element lie from the low end of its byte."""
    odd = b.trunc(b.and_(number, ir.Constant(I64, 1)), I8)
    return b.shl(odd, ir.Constant(I8, 2))


def store_packed(nest: LoopNest, base: Value, number: Lane, value: Value) -> None:
    """Write one 4-bit element. The other half of the byte may be another block's: it is kept by
    clearing and setting bits atomically."""
    where, shift = (lane.value for lane in byte_of(nest, base, number))
    b = nest.inner
    kept = b.not_(b.shl(ir.Constant(I8, 15), shift))
    bits = b.shl(b.and_(value, ir.Constant(I8, 15)), shift)
    b.atomic_rmw("and", where, kept, "monotonic")
    b.atomic_rmw("or", where, bits, "monotonic")
