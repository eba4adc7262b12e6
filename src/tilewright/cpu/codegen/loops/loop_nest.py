"""Loop nests over tiles, and the evaluation of tile elements inside them.

A nest has a builder for each level: level 0 stands before the loops, level k inside the k-th loop. An element is computed at
the outermost level that its dependences allow, so work that a row shares is done once per row. Equal elements are
computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.debug_info import Origins
from tilewright.cpu.codegen.ir.elements import I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import (
    Coords,
    Index,
    Lane,
    alignment,
    at_lane,
    fixed,
    lanes_in,
)


class Evaluated(Protocol):
    """What has an element at each position: a tile."""

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        """The elements at these positions."""
        ...


class LoopNest:
    """Levels of loops under construction.

    ``masked``: accesses through views check each element; without it whole tiles are inside. ``non_temporal``:
    stores of whole vectors bypass the caches. ``strides`` are those of views whose stride only shows
    when the code runs, by the ``id`` of their ``tiles.Loose``, where it has been asked for. ``on``: accesses through pointers
    are for these lanes only, whatever their masks say elsewhere. ``certain``: those that need no checks in the part of a row
    that the code is for, by the ``id`` of their pointers and of their mask. ``fetches``: rows of the next
    tile block may be asked for. ``work`` is the same number for all versions of a nest that do the same work.
    """

    def __init__(
        self,
        builder: Builder,
        *,
        masked: bool = False,
        non_temporal: bool = False,
        strides: Mapping[int, int] | None = None,
        work: int | None = None,
    ):
        self.levels = [builder]
        # Where only patterns of positions are looked at there is no builder.
        module = None if builder is None else builder.module
        self._origins: Origins | None = getattr(module, "origins", None)
        self.masked, self.non_temporal, self.strides = masked, non_temporal, strides or {}
        self.fetches = True
        self.on: Lane | None = None
        self.certain: frozenset[tuple[int, int]] = frozenset()
        self.work = work
        self._memo: dict[object, Lane] = {}
        self._kept: list[object] = []
        self._halved: dict[int, tuple[Lane, int]] = {}
        """Bases that are others shifted right, by how many bits, all of which were zero."""
        self._latches: list[tuple[ir.Block, ir.PhiInstr, Value, int]] = []

    @property
    def depth(self) -> int:
        """How many loops are open."""
        return len(self.levels) - 1

    @property
    def inner(self) -> Builder:
        """The builder of the innermost level."""
        return self.levels[-1]

    # -- loops -------------------------------------------------------------------------------

    def loop(
        self, extent: int, step: int = 1, *, align: int = 0, limit: Value | None = None
    ) -> Index:
        """Open a loop over ``0, step, ... < extent``; no loop where that is one iteration. With a ``limit`` up
        to the extent it ends there, but not before the first iteration."""
        if extent <= step:
            return fixed(0)
        outer = self.levels[-1]
        before = outer.block
        header = outer.append_basic_block("loop")
        outer.branch(header)
        outer.position_before(before.terminator)
        inner = ir.IRBuilder(header)
        inner.debug_metadata = outer.debug_metadata
        counter = inner.phi(I64)
        counter.add_incoming(ir.Constant(I64, 0), before)
        self.levels.append(inner)
        end = ir.Constant(I64, extent) if limit is None else limit
        self._latches.append((header, counter, end, step))
        return Index(Lane(counter, self.depth), None, align or alignment(step))

    def carried(self, initial: Value) -> ir.PhiInstr:
        """A value that the innermost loop hands from iteration to iteration; ``close`` is given the next one."""
        _, counter, _, _ = self._latches[-1]
        builder = self.inner
        here = builder.block
        builder.position_after(counter)
        phi = builder.phi(initial.type)
        builder.position_at_end(here)
        phi.add_incoming(initial, counter.incomings[0][1])
        return phi

    def close(
        self, carries: Sequence[tuple[ir.PhiInstr, Value]] = (), until: Value | None = None
    ) -> None:
        """End the innermost loop; ``carries`` gives its carried values their next ones. It ends early where ``until``
        holds."""
        header, counter, end, step = self._latches.pop()
        builder = self.levels.pop()
        latch = builder.block
        for phi, following in carries:
            phi.add_incoming(following, latch)
        following = builder.add(counter, ir.Constant(I64, step), flags=["nuw", "nsw"])
        counter.add_incoming(following, latch)
        again = builder.icmp_unsigned("<", following, end)
        if until is not None:
            again = builder.and_(again, builder.not_(until))
        after = builder.append_basic_block("after")
        builder.cbranch(again, header, after)
        self.levels[-1].position_at_end(after)
        self._forget(len(self.levels))

    @contextmanager
    def where(self, condition: Value) -> Iterator[None]:
        """Code of the innermost level that runs where a condition holds; what it computes is unknown behind it."""
        before = dict(self._memo)
        with self.inner.if_then(condition):
            yield
        self._memo = before

    def with_checks_unless(self, condition: Value, make: Callable[[], None]) -> None:
        """Make code of the innermost level twice: without checks where a condition holds, else with them."""
        before = dict(self._memo)
        with self.inner.if_else(condition) as branches:
            for branch, masked in zip(branches, (False, True), strict=True):
                with branch:
                    self.masked, self._memo = masked, dict(before)
                    make()
        self._memo = before

    def close_all(self) -> None:
        """Close all open loops, the innermost first."""
        while self._latches:
            self.close()

    def _forget(self, level: int) -> None:
        """Drop what was computed at levels that are closed."""
        self._memo = {key: lane for key, lane in self._memo.items() if lane.level < level}

    # -- elements ----------------------------------------------------------------------------

    def eval(self, tile: Evaluated, coords: Coords) -> Lane:
        """The elements of a tile at these positions: a vector, or a scalar that holds for all."""
        key = (id(tile), *(index.key for index in coords))
        found = self._memo.get(key)
        if found is None:
            found = tile.at(self, coords) if self._origins is None else self._traced(tile, coords)
            self._memo[key] = found
            self._kept.append((tile, coords))
        return found

    def holds(self, tile: Evaluated, coords: Coords, value: Value) -> None:
        """Let the elements of a tile at these positions be a value of the innermost level."""
        key = (id(tile), *(index.key for index in coords))
        self._memo[key] = Lane(value, self.depth)
        self._kept.append((tile, coords))

    def _traced(self, tile: Evaluated, coords: Coords) -> Lane:
        """The elements, computed by instructions that belong to the operation the tile is from."""
        assert self._origins is not None
        line = self._origins.line_of(tile)
        if line is None:
            return tile.at(self, coords)
        place = self._origins.place(self.levels[0], line)
        outer = [each.debug_metadata for each in self.levels]
        for each in self.levels:
            each.debug_metadata = place
        try:
            return tile.at(self, coords)
        finally:
            for each, before in zip(self.levels, outer, strict=True):
                each.debug_metadata = before

    def once(self, key: object, make: Callable[[], Lane]) -> Lane:
        """What ``make`` gives, made once for a key; what the key names by ``id`` must stay."""
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = make()
        return found

    def vector(self, tile: Evaluated, coords: Coords) -> Value:
        """The elements as a vector of all lanes (a scalar where the coordinates have none), in register form."""
        lane = self.eval(tile, coords)
        return self.widened(lane, lanes_in(coords)).value

    def widened(self, lane: Lane, lanes: int) -> Lane:
        """The same in every lane; a vector stays."""
        if not lanes or isinstance(lane.value.type, ir.VectorType):
            return lane
        return self.emit([lane], lambda b, v: llvm.splat(b, v, lanes))

    def emit(self, lanes: Sequence[Lane], make: Callable[..., Value]) -> Lane:
        """What ``make(builder, *values)`` gives, at the outermost level that has the values."""
        level = max((lane.level for lane in lanes), default=0)
        return Lane(make(self.levels[level], *(lane.value for lane in lanes)), level)

    def lane_by_lane(self, tile: Evaluated, coords: Coords) -> Lane:
        """The elements, each computed for itself: for positions that do not follow a pattern."""
        count = lanes_in(coords)
        parts = [
            self.eval(tile, tuple(self.shift(i, by) for i, by in at_lane(coords, lane)))
            for lane in range(count)
        ]
        ty = ir.VectorType(parts[0].value.type, count)

        def gather(b: Builder, *values: Value) -> Value:
            result: Value = llvm.undefined(ty)
            for lane, value in enumerate(values):
                result = b.insert_element(result, value, ir.Constant(ir.IntType(32), lane))
            return result

        return self.emit(parts, gather)

    # -- positions ---------------------------------------------------------------------------

    def shift(self, index: Index, amount: int) -> Index:
        """``index + amount``."""
        if not amount:
            return index
        align = min(index.align, alignment(amount))
        return Index(self._base("add", index.base, amount), index.offsets, align)

    def plus(self, index: Index, amount: Lane, align: int = 1) -> Index:
        """``index + amount``, an amount that is known when the code runs."""
        base = index.base
        if isinstance(base, int):
            moved = amount
            if base:
                moved = self.emit([amount], lambda b, v: b.add(v, ir.Constant(I64, base)))
        else:
            moved = self._remember(
                ("plus", id(base.value), id(amount.value)),
                [base, amount],
                lambda b, x, y: b.add(x, y),
            )
        return Index(moved, index.offsets, min(index.align, align))

    def times(self, index: Index, factor: int) -> Index:
        """``index * factor``."""
        if not factor:
            return Index(0, index.offsets and (0,) * len(index.offsets), alignment(0))
        offsets = index.offsets and tuple(offset * factor for offset in index.offsets)
        return Index(
            self._base("mul", index.base, factor),
            offsets,
            min(index.align * alignment(factor), 1 << 62),
        )

    def sum(self, parts: Sequence[Index]) -> Index:
        """The sum of positions."""
        total = fixed(0)
        for part in parts:
            total = self._sum(total, part)
        return total

    def linear(self, coords: Coords, strides: Sequence[int]) -> Index:
        """The sum of positions times strides. What is known of a vector's base goes to its offsets, so
        that it does not spoil how the rest is aligned."""
        parts = [self.times(i, s) for i, s in zip(coords, strides, strict=True)]
        if all(part.offsets is None for part in parts):
            return self.sum(parts)
        known = sum(part.base for part in parts if isinstance(part.base, int))
        total = self.sum(
            [Index(0, p.offsets, alignment(0)) if isinstance(p.base, int) else p for p in parts]
        )
        offsets = tuple(offset + known for offset in total.offsets or ())
        return Index(total.base, offsets, total.align)

    def _sum(self, lhs: Index, rhs: Index) -> Index:
        if lhs.offsets is None or rhs.offsets is None:
            offsets = lhs.offsets or rhs.offsets
        else:
            offsets = tuple(a + b for a, b in zip(lhs.offsets, rhs.offsets, strict=True))
        align = min(lhs.align, rhs.align)
        if isinstance(lhs.base, int) and isinstance(rhs.base, int):
            return Index(lhs.base + rhs.base, offsets, align)
        if isinstance(rhs.base, int):
            return Index(self._base("add", lhs.base, rhs.base), offsets, align)
        if isinstance(lhs.base, int):
            return Index(self._base("add", rhs.base, lhs.base), offsets, align)
        key = ("sum", id(lhs.base.value), id(rhs.base.value))
        base = self._remember(key, [lhs.base, rhs.base], lambda b, x, y: b.add(x, y))
        return Index(base, offsets, align)

    def low_bits(self, index: Index, extent: int) -> Index:
        """``index % extent``, for a power of two, of an index that splits bits."""
        offsets = index.offsets and tuple(offset & (extent - 1) for offset in index.offsets)
        align = index.align if index.align < extent else alignment(0)
        base = index.base
        base = 0 if index.align >= extent else self._base("and", base, extent - 1)
        return _settled(Index(base, offsets, align))

    def high_bits(self, index: Index, extent: int) -> Index:
        """``index // extent``, for a power of two, of an index that splits bits."""
        by = extent.bit_length() - 1
        offsets = index.offsets and tuple(offset >> by for offset in index.offsets)
        align = max(index.align >> by, 1)
        base = self._base("lshr", index.base, by)
        if isinstance(base, Lane) and isinstance(index.base, Lane) and index.align >> by:
            # Nothing was lost, so that multiplying gives the base again.
            first, before = self._halved.get(id(index.base.value), (index.base, 0))
            self._halved[id(base.value)] = (first, before + by)
        return _settled(Index(base, offsets, align))

    def position(self, index: Index) -> Lane:
        """The base as an i64."""
        base = index.base
        return Lane(ir.Constant(I64, base)) if isinstance(base, int) else base

    def numbers(self, index: Index) -> Lane:
        """The positions as an i64 vector (a scalar where all lanes agree)."""
        base, offsets = self.position(index), index.offsets
        if offsets is None:
            return base
        steps = llvm.int_lanes(offsets)
        return self.emit([base], lambda b, v: b.add(llvm.splat(b, v, len(offsets)), steps))

    def _base(self, op: str, base: Lane | int, amount: int) -> Lane | int:
        if isinstance(base, int):
            return _KNOWN[op](base, amount)
        if (op == "mul" and amount == 1) or (op in ("add", "lshr") and not amount):
            return base
        first, by = self._halved.get(id(base.value), (base, 0))
        if op == "mul" and by and not amount & (amount - 1) and amount.bit_length() - 1 <= by:
            left = by - amount.bit_length() + 1
            found = self._base("lshr", first, left)
            if left and isinstance(found, Lane):
                self._halved[id(found.value)] = (first, left)
            return found
        constant = ir.Constant(I64, amount)
        return self._remember(
            (op, id(base.value), amount), [base], lambda b, v: getattr(b, _METHODS[op])(v, constant)
        )

    def _remember(self, key: object, lanes: Sequence[Lane], make: Callable[..., Value]) -> Lane:
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self.emit(lanes, make)
            self._kept.append(lanes)
        return found


_KNOWN: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "and": lambda x, y: x & y,
    "lshr": lambda x, y: x >> y,
}
_METHODS = {"add": "add", "mul": "mul", "and": "and_", "lshr": "lshr"}


def _settled(index: Index) -> Index:
    """Without lanes where all are equal."""
    offsets = index.offsets
    if offsets is None or any(offset != offsets[0] for offset in offsets):
        return index
    if not offsets[0]:
        return Index(index.base, None, index.align)
    if isinstance(index.base, int):
        return fixed(index.base + offsets[0])
    return index
