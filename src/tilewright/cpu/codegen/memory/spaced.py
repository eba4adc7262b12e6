"""Pointers whose lanes lie at known distances: constants, or multiples of a stride that only shows when the code runs."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.ir.elements import I64, Element
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Lane
from tilewright.cpu.codegen.loops.lane_strides import LaneStrides, lane_strides_of, unknown_stride
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.strided_lanes import ANY_STRIDE
from tilewright.cpu.codegen.loops.tiles import Loose, Tile
from tilewright.cpu.codegen.loops.value_ranges import Whole


@dataclass(frozen=True, slots=True, eq=False)
class Spaced:
    """Elements at equal distances that only show when the code runs: ``number``, the factor in their formula."""

    loose: Loose
    number: Value

    def known(self, nest: LoopNest) -> dict[int, int]:
        """What a nest takes the factor for, by the ``id`` of its value."""
        found = nest.strides.get(id(self.loose), ANY_STRIDE if nest.masked else 1)
        return {} if found == ANY_STRIDE else {id(self.number): found}


def spaced_of(b: Builder, pointers: Tile, whole: Whole | None, element: Element) -> Spaced | None:
    """What is asked when the code runs of elements that may lie at equal distances; None where nothing is to be asked."""
    known = (frozenset[int](), frozenset[int]()) if whole is None else whole.known(masked=False)
    number = unknown_stride(pointers, *known, element.memory_bytes)
    if number is None:
        return None
    stride = number if number.type == I64 else b.sext(number, I64)
    fits = None if whole is None else whole.guard
    inside = b.icmp_signed("==", stride, ir.Constant(I64, 1))
    if fits is not None:
        inside = b.and_(fits, inside)
    return Spaced(Loose(inside, fits, stride, gathers=True), number)


def lane_steps_of(
    nest: LoopNest, pointers: Tile, coords: Coords, whole: Whole | None, spaced: Spaced | None
) -> LaneStrides | None:
    """The lane strides of addresses, as far as a nest knows what they depend on."""
    factors = {} if spaced is None else spaced.known(nest)
    none = frozenset[int]()
    known = (none, none) if whole is None else whole.known(masked=nest.masked)
    return lane_strides_of(pointers, coords, *known, factors)


def each_lane(
    nest: LoopNest,
    pointers: Tile,
    coords: Coords,
    whole: Whole | None,
    spaced: Spaced | None,
) -> list[Lane]:
    """How many bytes behind the first lane each lies, where that is a constant, or one times a stride that only shows when the code
    runs; empty where it is not known."""
    if nest.masked and whole is not None and whole.fits is not None and not nest.fits:
        return []
    none = frozenset[int]()
    known = (none, none) if whole is None else whole.known(masked=nest.masked)
    loose = spaced is not None and nest.strides.get(id(spaced.loose)) == ANY_STRIDE
    if spaced is None or not loose:
        lane_steps = lane_steps_of(nest, pointers, coords, whole, spaced)
        if lane_steps is None or not lane_steps.exact or lane_steps.limited:
            return []
        return [Lane(ir.Constant(I64, delta)) for delta in lane_steps.lanes]
    if nest.masked:
        return []
    at_one, at_two = (
        lane_strides_of(pointers, coords, *known, {id(spaced.number): factor}) for factor in (1, 2)
    )
    if at_one is None or at_two is None or not (at_one.exact and at_two.exact):
        return []
    if any(2 * one != two for one, two in zip(at_one.lanes, at_two.lanes, strict=True)):
        return []
    return [_times(nest, Lane(spaced.loose.stride), delta) for delta in at_one.lanes]


def _times(nest: LoopNest, number: Lane, by: int) -> Lane:
    return nest.emit([number], lambda b, n: b.mul(n, ir.Constant(I64, by)))
