"""Stores to one array that are made together: whether any two of them may meet, asked when the code runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, pairwise
from typing import Protocol

from llvmlite import ir

from tilewright.cpu.codegen.analysis.effects import root_of
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import fixed
from tilewright.cpu.codegen.loops.lane_strides import along_last
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Tile, is_formula
from tilewright.cpu.codegen.loops.value_ranges import Whole, reach
from tilewright.dialects.nv_tileaa.ops.memory import StoreOp


class Stored(Protocol):
    """A tile that is stored through pointers."""

    @property
    def value(self) -> Tile:
        """What is stored."""
        ...

    @property
    def pointers(self) -> Tile:
        """Where each element goes."""
        ...

    @property
    def mask(self) -> Tile | None:
        """Which elements are stored; None: all."""
        ...

    @property
    def whole(self) -> Whole | None:
        """What is known where no number wraps."""
        ...

    @property
    def stride(self) -> Value | None:
        """How many elements lie apart, where that only shows when the code runs."""
        ...


def lie_apart(b: Builder, ops: Sequence[StoreOp], stores: Sequence[Stored]) -> Value | None:
    """Whether each store to an array, in what it reaches, lies behind the one before it, or each before it, or elements of all
    alternate; None where they write to different arrays."""
    arrays = [root_of(op.base) for op in ops]
    if len(set(arrays)) == len(arrays):
        return None
    never = ir.Constant(I1, 0)
    found: list[Value] = []
    for array in dict.fromkeys(arrays):
        same = [store for store, each in zip(stores, arrays, strict=True) if each == array]
        if not same[1:]:
            continue
        reached = [reach(b, store.pointers, store.mask) for store in same]
        size = max(store.value.element.memory_bytes for store in same)
        orders: list[list[Value]] = [[], []]
        for one, other in pairwise(reached):
            if one is None or other is None:
                return never
            found += [one.fits, other.fits]
            for order, low, high in zip(orders, (one, other), (other, one), strict=True):
                behind = b.add(low.last, ir.Constant(I64, size))
                order.append(b.icmp_unsigned("<=", behind, high.first))
        ways = [llvm.all_of(b, order) for order in orders]
        ways += [_alternate(b, same)]
        found.append(reduce(b.or_, [way for way in ways if way is not None]))
    return llvm.all_of(b, found)


def _alternate(b: Builder, stores: Sequence[Stored]) -> Value | None:
    """Whether elements of stores lie at one distance, and those of one between those of another, as channels of pixels do; None where
    no formula tells."""
    lines = [_line(b, store) for store in stores]
    known = [line for line in lines if line is not None]
    sizes = {store.value.element.memory_bytes for store in stores}
    if len(known) < len(lines) or len(sizes) > 1:
        return None
    zero, (size,) = ir.Constant(I64, 0), sizes
    conditions = [fits for line in known for fits in line.fits]
    step = known[0].step
    conditions.append(b.icmp_signed("!=", step, zero))
    by = b.select(conditions[-1], step, ir.Constant(I64, size))
    for one, other in combinations(known, 2):
        conditions.append(b.icmp_signed("==", one.step, other.step))
        rest = b.srem(b.sub(other.first, one.first), by)
        conditions.append(b.icmp_signed("!=", rest, zero))
        inside = b.and_(rest, ir.Constant(I64, size - 1))
        conditions.append(b.icmp_signed("==", inside, zero))
    return llvm.all_of(b, conditions)


@dataclass(frozen=True, slots=True)
class _Line:
    """Elements at one distance: the address of the first one, the distance in bytes, and what holds where they are that."""

    first: Value
    step: Value
    fits: Sequence[Value]


def _line(b: Builder, store: Stored) -> _Line | None:
    """The line of what is stored; None where no formula tells that it is one."""
    pointers, whole, size = store.pointers, store.whole, store.value.element.memory_bytes
    formulas = is_formula(pointers)
    if whole is None or not formulas or sum(extent > 1 for extent in pointers.dims) != 1:
        return None
    if store.stride is not None:
        step, fits = b.mul(store.stride, ir.Constant(I64, size)), whole.clear
    else:
        strides, fits = along_last(pointers, whole.settled), whole.fits
        if strides is None or not strides.exact or not strides.is_run(strides.lanes[1]):
            return None
        step = ir.Constant(I64, strides.lanes[1])
    first = LoopNest(b).eval(pointers, tuple(fixed(0) for _ in pointers.dims)).value
    return _Line(first, step, [] if fits is None else [fits])
