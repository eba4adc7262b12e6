"""Addresses of the elements of an access that goes element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import refuse
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import PTR, Element, bits_constant, element_of, pointee_of
from tilewright.cpu.codegen.ir.types import Builder, Constant, Value
from tilewright.cpu.codegen.loops.indices import Coords, Lane
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Tile, Uniform
from tilewright.cpu.codegen.memory.access import both, position_of_tile
from tilewright.cpu.codegen.memory.checks import check_pointers
from tilewright.cpu.codegen.memory.index_tiles import Gathered, gathered
from tilewright.cpu.codegen.memory.packing import byte_of, number_in
from tilewright.cpu.codegen.memory.views import (
    TilePosition,
    address_of,
    element_offset,
    inside_mask,
    whole,
)
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M
from tilewright.dialects.syntax.engine import values_of

ORDERINGS = {
    "weak": "monotonic",
    "relaxed": "monotonic",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
}
"""LLVM's name for each memory semantic; a weak access that is volatile keeps to itself."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One element in memory: its address, and whether it is accessed at all (None: always).

    Of an element that shares its byte with another, ``shift`` is the position of its lowest bit.
    """

    where: Lane
    on: Lane | None
    shift: Lane | None = None


Cells = Callable[[LoopNest, Coords], Cell]
"""The element of an access at a position."""


def zero_of(element: Element) -> Constant:
    """The element whose bits are all zero."""
    return bits_constant(element, 0)


def refuse_packed(op: M.Access) -> None:
    """Raises ``TileIRError`` (``cpu-unsupported``) for accesses that go by element where elements have no addresses."""
    base, moved = op.operands[0].type, op.moved.type
    gathers = isinstance(op, M.Scattered) and isinstance(base, T.MemrefType)
    whole_tile = T.dims_of(moved) and not values_of(op, "mask") and not gathers
    name = T.element_name(T.element_of(moved))
    if name in ("i4", "f4E2M1FN") and not whole_tile:
        raise refuse(op, f"it accesses single elements, but two {name} share a byte")


def pointer_cells(pointers: Tile, mask: Tile | None) -> Cells:
    """The elements behind a tile of pointers."""

    def cell(nest: LoopNest, coords: Coords) -> Cell:
        where = nest.eval(pointers, coords)
        where = nest.emit([where], lambda b, p: b.inttoptr(p, llvm.shaped(PTR, p.type)))
        return Cell(where, None if mask is None else nest.eval(mask, coords))

    return cell


def place_cells(place: TilePosition, mask: Tile | None) -> Cells:
    """Elements of a tile of a view. A scalar is the only element there."""

    def cell(nest: LoopNest, coords: Coords) -> Cell:
        at = coords or whole(place.dims)
        on = inside_mask(nest, place, at) if nest.masked else None
        if place.element.is_packed:
            return _packed_cell(nest, place.base, number_in(nest, place, at), on)
        if mask is not None:
            on = both(nest, on, nest.eval(mask, coords), 0)
        return Cell(address_of(nest, place, element_offset(nest, place, at)[0]), on)

    return cell


def gathered_cells(places: Gathered, mask: Tile | None) -> Cells:
    """The elements that tiles of indices select."""

    def cell(nest: LoopNest, coords: Coords) -> Cell:
        if places.memref.element.is_packed:
            number, _, on = places.numbers(nest, coords)
            return _packed_cell(nest, places.memref.pointer, number, on)
        where, _, on = places.locate(nest, coords)
        if mask is not None:
            on = both(nest, on, nest.eval(mask, coords), 0)
        return Cell(where, on)

    return cell


def _packed_cell(nest: LoopNest, base: Value, number: Lane, on: Lane | None) -> Cell:
    where, shift = byte_of(nest, base, number)
    return Cell(where, on, shift)


def cells_of(f: FunctionEmitter, op: M.Access, mask: Tile | None) -> tuple[Cells, list[Value]]:
    """Where an access goes element by element; and under which condition without checks.

    Raises ``TileIRError`` (``cpu-unsupported``) for elements of 4 bits behind pointers.
    """
    refuse_packed(op)
    if isinstance(op, M.Scattered):
        return gathered_cells(gathered(f, op), mask), []
    if isinstance(op.operands[0].type, T.MemrefType | T.TiledViewType):
        place = position_of_tile(f, op, T.dims_of(op.moved.type))
        return place_cells(place, mask), [] if place.inside is None else [place.inside]
    return pointer_cells(pointers_of(f, op, mask), mask), []


def pointers_of(f: FunctionEmitter, op: M.Access, mask: Tile | None) -> Tile:
    """The tile of pointers of an access; checked, where the code is to be.

    Raises ``TileIRError`` (``cpu-unsupported``) for elements of 4 bits.
    """
    pointee = pointee_of(op.operands[0].type)
    if pointee.is_packed:
        raise refuse(op, f"a pointer addresses a byte, which holds two {pointee.name}", _USE_VIEW)
    pointers = f.tile(op.operands[0])
    if f.checked:
        check_pointers(f, op, pointers, mask)
    return pointers


_USE_VIEW = "access them through a tiled_view"


def each_element(
    f: FunctionEmitter,
    dims: Sequence[int],
    tiles: Sequence[Tile],
    body: Callable[[LoopNest, Coords], None],
    guard: Sequence[Value] = (),
) -> None:
    """Run a body for single elements, in row-major order."""
    f.nest(dims, tiles, body, lanes=1, guard=guard)


def where_on(b: Builder, on: Lane | None) -> AbstractContextManager[object]:
    """What follows only where an element is accessed."""
    return nullcontext() if on is None else b.if_then(on.value)


def optional(f: FunctionEmitter, value: object) -> Tile | None:
    """The tile of an operand that may be absent."""
    return None if value is None else f.tile(value)  # pyright: ignore[reportArgumentType]


def masked_off(f: FunctionEmitter, op: M.LoadOp | M.TiledLoadOp | M.GatherLoadOp) -> Tile | None:
    """What a load gives where its mask is off, zero where nothing is said; None without a mask."""
    if op.mask is None:
        return None
    element = element_of(op.result.type)
    return optional(f, op.other) or Uniform(element, T.dims_of(op.result.type), zero_of(element))


def ordering_of(op: M.Access) -> str:
    """The ordering of an access as LLVM writes it; that of a plain one where the program says none."""
    return ORDERINGS[op.semantic]
