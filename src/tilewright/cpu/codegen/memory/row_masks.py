"""What masks ask of whole rows, and where vectors of rows are looked for that they turn off."""

from __future__ import annotations

from functools import reduce

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I64, PTR
from tilewright.cpu.codegen.ir.masked import somewhere
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Lane
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Elementwise, Mapped, Tile


def where_row_is_on(
    nest: LoopNest, first: Lane, mask: Tile | None, on: Lane | None, coords: Coords
) -> Lane:
    """The address of a vector, that of memory of the module if what its mask asks of its row does not hold: others are off at an end
    of their row at most, which is near memory, or all of the tile is."""
    if mask is None or on is None:
        return first
    asked = _of_row(nest, mask, coords)
    if asked is None or not asked.level:
        return first

    def make(b: Builder, address: Value, holds: Value) -> Value:
        return b.ptrtoint(somewhere(b, b.inttoptr(address, PTR), holds), I64)

    return nest.emit([first, asked], make)


def _of_row(nest: LoopNest, mask: Tile, coords: Coords) -> Lane | None:
    """What a mask asks that is the same for all lanes; None where it asks nothing such."""
    pending, found = [(mask, coords)], list[Lane]()
    seen: set[object] = set()
    while pending:
        tile, at = pending.pop()
        key = (id(tile), *(index.key for index in at))
        if key in seen:
            continue
        seen.add(key)
        if isinstance(tile, Mapped):
            inner = tile.mapping(nest, at)
            pending += [] if inner is None else [(tile.source, inner)]
        elif isinstance(tile, Elementwise) and tile.name == "andi":
            pending += [(operand, at) for operand in reversed(tile.operands)]
        else:
            lane = nest.eval(tile, at)
            found += [] if llvm.lanes_of(lane.value.type) else [lane]
    if not found:
        return None
    return nest.emit(found, lambda b, *conditions: reduce(b.and_, conditions))
