"""Loops that only accumulate products of tiles, the core of a matrix product:

    for %k in (...) iter_values(%sum = %start) {
      %a, %t0 = load_view_tko weak %a_tiles[%i, %k]
      %b, %t1 = load_view_tko weak %b_tiles[%k, %j]
      %c = mmaf %a, %b, %sum
      continue %c
    }

Nothing in such a loop can observe whether a tile is loaded before or after the previous iteration's product. Several
iterations therefore run together: their tiles are loaded and widened as one array and multiplied pairwise, and the
products are added one after the other. Results and faults are those of the loop as written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard

import numpy as np

from tilewright.dialects.cuda_tile.ops import control_flow as cf
from tilewright.dialects.cuda_tile.ops.core import ConstantOp
from tilewright.dialects.cuda_tile.ops.matrix import MmaFOp
from tilewright.dialects.cuda_tile.ops.views import LoadViewTkoOp
from tilewright.machine.compile import Nested, Step, Translator, implements, tile_type
from tilewright.machine.faults import Fault
from tilewright.machine.load_memo import LoadHistory
from tilewright.machine.memory import Allocation
from tilewright.machine.ops.control_flow import for_step, induction_values
from tilewright.machine.ops.memory import is_weak
from tilewright.machine.ops.views import access_of, padding_tile
from tilewright.machine.values import Registers
from tilewright.machine.view_access import StridedElements, ViewAccess
from tilewright.numerics import matrix
from tilewright.numerics.accumulation import mmaf_of
from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.widening import as_f32, as_f64

Tiles = tuple[Array, Allocation | None]
"""The tiles of several iterations as stored in memory, and their allocation if it is the same for all."""

# The size of the products computed together: what fits in a second-level cache.
_MAX_BYTES = 1 << 19


@implements(cf.ForOp)
def _for(op: cf.ForOp, t: Translator) -> Step | Nested:
    loop = None if t.is_observed else _product_loop(op, t)
    return for_step(op, t, unsigned=_is_unsigned(op)) if loop is None else loop.run


def _is_unsigned(op: cf.ForOp) -> bool:
    return "unsignedCmp" in op.properties


def _product_of(loop: cf.ForOp, t: Translator) -> MmaFOp | None:
    """Return the product that a loop accumulates, if the loop does nothing else."""
    block = loop.regions[0].blocks[0]
    ops = [op for op in block.ops if not isinstance(op, ConstantOp)]
    if len(ops) != 4 or len(block.args) != 2:
        return None
    first, second, product, end = ops
    if not isinstance(product, MmaFOp) or not isinstance(end, cf.ContinueOp):
        return None
    if not _is_weak_load(first) or not _is_weak_load(second):
        return None
    if {product.lhs, product.rhs} != {first.tile, second.tile}:
        return None
    if product.acc is not block.args[1] or end.operands[0] is not product.result:
        return None
    element, sums = tile_type(product.lhs).element, tile_type(product.acc).element
    # An accumulator of another type is rounded after each product.
    if sums != ("f64" if element == "f64" else "f32"):
        return None
    return product if mmaf_of(t.arithmetic, element) is matrix.mmaf else None


def _is_weak_load(op: object) -> TypeGuard[LoadViewTkoOp]:
    return isinstance(op, LoadViewTkoOp) and is_weak(op)


@dataclass(slots=True, eq=False)
class _Factor:
    """An operand of the products. ``fixed`` are the slots of the loop-invariant indices; ``wide``
    converts tiles to the type in which products are computed."""

    op: LoadViewTkoOp
    access: ViewAccess
    padding: Array
    variable: int
    fixed: tuple[int, ...]
    history: LoadHistory
    wide: Callable[[Array], Array]

    def kept(self, regs: Registers, numbers: range) -> Array | None:
        """Return the memoized tiles of these iterations, or None."""
        if not self.history.is_open:
            return None
        if (view := regs[self.access.view_slot]) is not self.history.view:
            self.history.turn_to(view)
        kept = self.history.current(self._key(regs, numbers))
        return None if kept is None else kept.tile

    def _key(self, regs: Registers, numbers: range) -> tuple[int, ...]:
        fixed = [regs[slot].item() for slot in self.fixed]
        return (*fixed, numbers.start, numbers.step, len(numbers))

    def together(self, regs: Registers, ends: tuple[Array, Array], count: int) -> Tiles | None:
        """Return the tiles of ``count`` iterations as stored in memory, if all are in bounds.

        ``ends`` are the values of ``variable`` in the first and the last iteration. If these two tiles
        are in bounds, so are those between, at equal distances.
        """
        try:
            regs[self.variable] = ends[1]
            last = self.access.box(regs)
            regs[self.variable] = ends[0]
            first = self.access.box(regs)
        except Fault:
            return None
        whole = first.inside is None and last.inside is None
        if not whole or first.allocation is not last.allocation:
            return None
        distance = (last.byte_offset - first.byte_offset) // max(count - 1, 1)
        extents, strides = (count, *first.extents), (distance, *first.byte_strides)
        all_of_them = StridedElements(first.allocation, first.byte_offset, extents, strides, None)
        return all_of_them.elements(self.access.storage.raw).copy(), first.allocation

    def read(self, regs: Registers, raw: Array) -> Allocation:
        """Read the tile of one iteration into ``raw``."""
        try:
            box = self.access.box(regs)
        except Fault as fault:
            fault.op = self.op
            raise
        elements = box.elements(raw.dtype)
        if box.inside is None:
            raw[...] = elements
        else:
            raw[...] = self.padding
            raw[box.inside] = elements
        return box.allocation

    def widened(self, regs: Registers, numbers: range, tiles: Tiles) -> Array:
        """Convert the tiles of several iterations to the product's type, and memoize them."""
        raw, allocation = tiles
        wide = self.wide(self.access.storage.to_tile(raw))
        if self.history.is_open and allocation is not None:
            self.history.note(self._key(regs, numbers), wide, allocation)
        return wide


@dataclass(slots=True, eq=False)
class _ProductLoop:
    """A loop of products. ``factors`` are in program order; ``lhs`` and ``rhs`` are positions in
    ``factors``."""

    factors: tuple[_Factor, _Factor]
    lhs: int
    rhs: int
    values: Callable[[Registers], tuple[range, Callable[[int], int]]]
    iterations: Callable[[Iterable[int]], Iterable[int]]
    number: Callable[[int], Array]
    """Converts an iteration's number to the tile of the induction variable."""
    start: int
    result: int
    work: Array
    """Buffer for the products computed together and the accumulator."""

    def run(self, regs: Registers) -> None:
        numbers, held = self.values(regs)
        together = len(self.work) - 1
        total = regs[self.start]
        for first in self.iterations(range(0, len(numbers), together)):
            some = numbers[first : first + together]
            tiles = self._tiles(regs, some, held)
            work = self.work[: len(some) + 1]
            total = matrix.add_products(tiles[self.lhs], tiles[self.rhs], total, work)
        regs[self.result] = total

    def _tiles(
        self, regs: Registers, numbers: range, held: Callable[[int], int]
    ) -> tuple[Array, Array]:
        """Return the wide tiles of both operands in several iterations."""
        one, other = (factor.kept(regs, numbers) for factor in self.factors)
        if one is not None and other is not None:
            return one, other
        absent = [factor for factor, tiles in zip(self.factors, (one, other)) if tiles is None]
        ends = self.number(held(numbers[0])), self.number(held(numbers[-1]))
        found: list[Tiles] = []
        for factor in absent:
            tiles = factor.together(regs, ends, len(numbers))
            if tiles is None:
                found = self._one_by_one(regs, absent, numbers, held)
                break
            found.append(tiles)
        made = iter(f.widened(regs, numbers, tiles) for f, tiles in zip(absent, found))
        return next(made) if one is None else one, next(made) if other is None else other

    def _one_by_one(
        self,
        regs: Registers,
        absent: list[_Factor],
        numbers: range,
        held: Callable[[int], int],
    ) -> list[Tiles]:
        """Load the tiles of each iteration in the order of the loop."""
        count = len(numbers)
        raw = [np.empty((count, *f.padding.shape), f.padding.dtype) for f in absent]
        places: list[set[Allocation]] = [set() for _ in absent]
        for position, number in enumerate(numbers):
            tile = self.number(held(number))
            for factor, tiles, seen in zip(absent, raw, places):
                regs[factor.variable] = tile
                seen.add(factor.read(regs, tiles[position]))
        return [(t, seen.pop() if len(seen) == 1 else None) for t, seen in zip(raw, places)]


def _factor(load: LoadViewTkoOp, variable: int, t: Translator) -> _Factor | None:
    access, storage = access_of(load, t)
    if not access.is_box:
        return None
    return _Factor(
        load,
        access,
        storage.from_tile(padding_tile(load.view.type)),  # pyright: ignore[reportArgumentType]
        variable,
        tuple(slot for slot in access.index_slots if slot != variable),
        t.machine.memo.history(),
        as_f64 if storage.element == "f64" else as_f32,
    )


def _product_loop(op: cf.ForOp, t: Translator) -> _ProductLoop | None:
    """Return the loop as one of products, or None if it is not."""
    product = _product_of(op, t)
    if product is None:
        return None
    block = op.regions[0].blocks[0]
    for inner in block.ops:
        if isinstance(inner, ConstantOp):
            t.operation(inner)
    variable = t.slot(block.args[0])
    loads = [load for load in block.ops if isinstance(load, LoadViewTkoOp)]
    first, second = (_factor(load, variable, t) for load in loads)
    if first is None or second is None:
        return None
    ty = tile_type(product.acc)
    sums = dtype_of(ty.element)
    together = max(1, _MAX_BYTES // (ty.element_count * sums.itemsize))
    lhs = 0 if product.lhs is loads[0].tile else 1
    return _ProductLoop(
        (first, second),
        lhs,
        1 - lhs,
        induction_values(op, t, _is_unsigned(op)),
        t.machine.iterations,
        partial(np.array, dtype=dtype_of(tile_type(op.operands[0]).element)),
        t.slot(op.operands[3]),
        t.slot(op.results[0]),
        np.empty((together + 1, *ty.dims), sums),
    )
