"""Scans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from tilewright.cpu.codegen.analysis import cost_model
from tilewright.cpu.codegen.emitter.function import FunctionEmitter, vector_axis
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, fixed
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.over_shapes import loops
from tilewright.cpu.codegen.loops.tiles import Strided, guards
from tilewright.cpu.codegen.reductions.combination import (
    Combination,
    combination_of,
    put_at,
    with_axis,
)
from tilewright.cpu.codegen.reductions.scalar_bodies import combine_each
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.contraction import ScanOp


@lowers("scan")
def scan(f: FunctionEmitter, op: ScanOp) -> None:
    """Running results along an axis, from its end where it is reversed; in the order of the elements."""
    reverse = is_set(op, "reverse")
    if not cost_model.is_body_of_elements(op):
        combine_each(f, op, int_property(op, "axis"), reverse=reverse)
        return
    combination = combination_of(f, op, f.read_once(op.operands))
    targets = [
        f.buffer(element, combination.dims, f.plan.last_use(result))
        for element, result in zip(combination.elements, op.results, strict=True)
    ]
    inner = all(extent == 1 for extent in combination.dims[combination.axis + 1 :])
    lanes = f.lanes(combination.tiles, combination.dims[combination.axis])
    along = inner and lanes > 1
    make = _scan_along if along else _scan_across

    def one(masked: bool) -> list[Value]:
        make(f, combination, targets, reverse, masked)
        return []

    f.versions(guards(*combination.tiles), one)
    for target, result in zip(targets, op.results, strict=True):
        f.values[result] = target
    f.settle()


def _reversed(nest: LoopNest, index: Index, last: int) -> Index:
    """``last - index``."""
    if isinstance(index.base, int):
        return fixed(last - index.base)
    from_end = nest.emit([index.base], lambda b, v: b.sub(ir.Constant(v.type, last), v))
    return Index(from_end, None, 1)


def _scan_across(
    f: FunctionEmitter,
    combination: Combination,
    targets: Sequence[Strided],
    reverse: bool,
    masked: bool,
) -> None:
    """Each lane is a row of its own."""
    nest = LoopNest(f.builder, masked=masked, work=f.now)
    extent = combination.dims[combination.axis]
    rest = tuple(e for axis, e in enumerate(combination.dims) if axis != combination.axis)
    along = vector_axis(rest)
    lanes = f.lanes(combination.tiles, rest[along] if rest else 1)

    def row(nest: LoopNest, coords: Coords) -> None:
        start = combination.start(lanes if lanes > 1 else 0)
        depth = nest.depth
        index = nest.loop(extent)
        looped = nest.depth > depth
        state: list[Any] = [nest.carried(value) for value in start] if looped else start
        place = _reversed(nest, index, extent - 1) if reverse else index
        at = with_axis(coords, combination.axis, place)
        elements = [nest.vector(tile, at) for tile in combination.tiles]
        after = combination.first_or_step(nest.inner, elements, state, index, looped=looped)
        put_at(nest, targets, at, after)
        if looped:
            nest.close(list(zip(state, after, strict=True)))

    loops(nest, rest, along, lanes, 1, row)
    nest.close_all()


def _scan_along(
    f: FunctionEmitter,
    combination: Combination,
    targets: Sequence[Strided],
    reverse: bool,
    masked: bool,
) -> None:
    """Lanes share a row: prefixes within a vector, then with what came before it."""
    nest = LoopNest(f.builder, masked=masked, work=f.now)
    extent = combination.dims[combination.axis]
    lanes = f.lanes(combination.tiles, extent)
    rest = tuple(e for axis, e in enumerate(combination.dims) if axis != combination.axis)
    coords = [nest.loop(size) for size in rest]
    depth = nest.depth
    start = combination.start(lanes)
    base = nest.loop(extent, lanes)
    looped = nest.depth > depth
    state: list[Any] = [nest.carried(value) for value in start] if looped else start
    place = base
    if reverse:
        back = _reversed(nest, base, extent - lanes)
        place = Index(back.base, None, lanes)
    at = with_axis(coords, combination.axis, Index(place.base, tuple(range(lanes)), place.align))
    b = nest.inner
    values = [nest.vector(tile, at) for tile in combination.tiles]
    values = _prefixes(b, combination, values, lanes, reverse)
    found = combination.first_or_step(b, values, state, base, looped=looped)
    put_at(nest, targets, at, found)
    if looped:
        # The last of what was found, by a combination of its own: from vector to vector only combinations wait for one another,
        # and no lanes that move.
        edge = [0 if reverse else lanes - 1] * lanes
        last = [llvm.shuffle(b, value, value, edge) for value in values]
        carry = combination.first_or_step(b, last, state, base, looped=looped)
        nest.close(list(zip(state, carry, strict=True)))
    nest.close_all()


def _prefixes(
    b: Builder, combination: Combination, values: list[Value], lanes: int, reverse: bool
) -> list[Value]:
    """Each lane combined with all before it (behind it, if reversed)."""
    distance = 1
    while distance < lanes:
        if reverse:
            source = [min(lane + distance, lanes - 1) for lane in range(lanes)]
            has = [int(lane + distance < lanes) for lane in range(lanes)]
        else:
            source = [max(lane - distance, 0) for lane in range(lanes)]
            has = [int(lane >= distance) for lane in range(lanes)]
        before = [llvm.shuffle(b, v, v, source) for v in values]
        combined = combination.step(b, values, before)
        mask = llvm.int_lanes(has, ir.IntType(1))
        values = [b.select(mask, c, v) for c, v in zip(combined, values, strict=True)]
        distance *= 2
    return values
