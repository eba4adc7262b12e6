"""Updates of elements that lie anywhere, in two passes: vectors of addresses go to a list first, then one element after the
other is updated by its address from there.

An address that comes from memory costs less than one that is taken out of a vector register, and the processor passes
the sum of one update on to the next of the same element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from tilewright.cpu.codegen.emitter.function import FunctionEmitter, vector_axis
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import ELEMENTS, I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Index, fixed
from tilewright.cpu.codegen.loops.lane_strides import is_one_number, lane_strides_of
from tilewright.cpu.codegen.loops.tiles import (
    FORMULAS,
    Elementwise,
    Mapped,
    Strided,
    Tile,
    Uniform,
    walk,
)

#: How many elements a list has at least, and how many updates an iteration makes.
_SHORTEST, _ROUND = 16, 8
_LANES = 8
#: How many bytes are read for an address at most.
_MOST_READ = 2
#: Bytes that updates go to which are off.
_SPARE = 64

Rmw = Callable[[Builder, Value, Value], None]
"""``rmw(builder, address, data)``: one update; the address is a number, the data have their buffer form."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The addresses of updates, in row-major order, and the number that each brings. Those that
    are off go to ``spare``."""

    places: Strided
    data: Value
    spare: Value
    count: int

    def place(self, b: Builder, at: Value) -> Value:
        """The address of an update."""
        return b.load(self._where(b, at), typ=I64, align=8)

    def places_of_round(self, b: Builder, at: Value) -> Value:
        """The addresses of a round of updates."""
        return b.load(self._where(b, at), typ=ir.VectorType(I64, _ROUND), align=8)

    def _where(self, b: Builder, at: Value) -> Value:
        return b.gep(self.places.pointer, [at], source_etype=I64)


def goes_by_list(value: Tile, pointers: Tile, *, exact: bool) -> bool:
    """Whether elements are updated by a list: they are many, do not lie side by side (``exact``: for sure), and all by one
    number, as where things are counted, which are bytes or hardly longer. Reading more for a list takes as long as a list saves:
    meanwhile nothing is updated."""
    if prod(pointers.dims) < _SHORTEST or not is_one_number(value):
        return False
    if (
        sum(t.element.memory_bytes for t in walk(pointers) if not isinstance(t, FORMULAS))
        > _MOST_READ
    ):
        return False
    axis = vector_axis(pointers.dims)
    lanes = min(_LANES, pointers.dims[axis])
    at: list[Index] = [fixed(0)] * len(pointers.dims)
    at[axis] = Index(0, tuple(range(lanes)), lanes)
    found = lane_strides_of(pointers, tuple(at))
    size = value.element.memory_bytes
    return found is None or not found.is_run(size) or (exact and not found.exact)


def listed(f: FunctionEmitter, value: Tile, pointers: Tile, mask: Tile | None) -> Listed:
    """The updates of a tile by one number."""
    place, dims = ELEMENTS["i64"], value.dims
    spare = f.builder.ptrtoint(f.pointer_to(f.scratch(_SPARE)), I64)

    def address(b: Builder, where: Value, *on: Value) -> Value:
        if not on:
            return where
        return b.select(on[0], where, llvm.splat(b, spare, llvm.lanes_of(where.type)))

    operands = (pointers,) if mask is None else (pointers, mask)
    places = f.buffer(place, dims, f.now)
    f.fill([(places, Elementwise(place, dims, operands, address))])
    while isinstance(value, Mapped):
        value = value.source
    assert isinstance(value, Uniform)
    return Listed(places, value.value, spare, prod(dims))


def one_by_one(b: Builder, found: Listed, rmw: Rmw, *, skips: bool = False) -> None:
    """Make all updates of a list, in order; ``skips``: those that are off are left out."""

    def round_(inner: Builder, at: Value) -> None:
        if skips:
            end = inner.add(at, _number(_ROUND))
            llvm.count(inner, at, end, _number(1), lambda c, here: _unless_off(c, found, here, rmw))
        else:
            _round(inner, found, at, rmw)

    llvm.count(b, _number(0), _number(found.count), _number(_ROUND), round_)


def _round(b: Builder, found: Listed, at: Value, rmw: Rmw) -> None:
    for turn in range(_ROUND):
        here = b.add(at, _number(turn)) if turn else at
        rmw(b, found.place(b, here), found.data)


def _unless_off(b: Builder, found: Listed, at: Value, rmw: Rmw) -> None:
    where = found.place(b, at)
    with b.if_then(b.icmp_unsigned("!=", where, found.spare)):
        rmw(b, where, found.data)


def near_or_far(
    b: Builder, found: Listed, is_near: Callable[[Builder, Value], Value], near: Rmw, far: Rmw
) -> None:
    """Make all updates of a list, in order: rounds all of whose addresses are ``is_near`` (of a vector, or of one) or off
    by ``near``, others element by element, by ``near`` or by ``far``."""

    def either(b: Builder, where: Value, data: Value) -> None:
        with b.if_else(is_near(b, where)) as (here, there):
            with here:
                near(b, where, data)
            with there:
                far(b, where, data)

    def round_(inner: Builder, at: Value) -> None:
        where = found.places_of_round(inner, at)
        off = inner.icmp_unsigned("==", where, llvm.splat(inner, found.spare, _ROUND))
        inside = inner.or_(is_near(inner, where), off)
        all_near = llvm.intrinsic(inner, "vector.reduce.and", [inside], inside.type.element)
        with inner.if_else(all_near, likely=True) as (together, apart):
            with together:
                _round(inner, found, at, near)
            with apart:
                end = inner.add(at, _number(_ROUND))
                llvm.count(
                    inner, at, end, _number(1), lambda c, here: _unless_off(c, found, here, either)
                )

    llvm.count(b, _number(0), _number(found.count), _number(_ROUND), round_)


def _number(value: int) -> Value:
    return ir.Constant(I64, value)
