"""Loop nests over tiles, and the evaluation of tile elements inside them.

A nest has a builder for each level: level 0 stands before the loops, level k inside the k-th loop. An element is computed at
the outermost level that its dependences allow, so work that a row shares is done once per row. Equal elements are
computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.debug_info import Origins
from tilewright.cpu.codegen.ir.elements import I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.bit_fields import WORD, Bits, Field, bits_below
from tilewright.cpu.codegen.loops.even_odd import in_run, in_words, to_run, to_words
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

    @property
    def goes_by_lanes(self) -> bool:
        """Whether elements are computed lane by lane, so that their order costs nothing."""
        ...

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        """The elements at these positions."""
        ...


class LoopNest:
    """Levels of loops under construction.

    ``masked``: accesses through views check each element; without it whole tiles are inside. ``non_temporal``:
    stores of whole vectors bypass the caches. ``strides`` are those of views whose stride only shows
    when the code runs, by the ``id`` of their ``tiles.Loose``, where it has been asked for. ``on``: accesses through pointers
    are for these lanes only, whatever their masks say elsewhere. ``certain``: those that need no checks in the part of a row
    that the code is for, by the ``id`` of their pointers and of their mask. ``idle``: those whose mask is off there. ``fits``: whether all formulas of addresses are known to
    hold, which code with checks else asks for each; False: each lane goes by itself. ``instead``: what tiles are in the part of a row that
    the code is for, None where it is not for a part; ``plain``: addresses where all that is known of them holds, with checks or without,
    of a part of a row or of all. ``fetches``: rows of the next
    tile block may be asked for by the nest that has this number among their readers, or a later one; None: by none. ``work`` is the same number for all versions of a nest that do the same work.
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
        known = isinstance(module, llvm.TargetModule)
        self.fetches: int | None = module.target.first_asking_nest if known else None
        self.fits: bool | None = None
        self.on: Lane | None = None
        self.certain: frozenset[tuple[int, int]] = frozenset()
        self.idle: frozenset[tuple[int, int]] = frozenset()
        self.work = work
        self.instead: Mapping[int, Any] | None = None
        self.in_words = 0
        """The lanes of vectors that are computed in the order of words (``loops.even_odd``)."""
        self.plain: dict[tuple[bool, bool], object] = {}
        self._memo: dict[object, Lane] = {}
        self._kept: list[object] = []
        self._bits: dict[int, Bits] = {}
        """What bases are put together from."""
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
        base, align = Lane(counter, self.depth), align or alignment(step)
        self._is(base, bits_below(base, extent, align))
        return Index(base, None, align)

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

    def with_checks_unless(
        self, condition: Value, make: Callable[[], None], *, instead: Mapping[int, Any]
    ) -> None:
        """Make code of the innermost level twice: without checks where a condition holds, and ``instead``, else with them."""
        before = dict(self._memo)
        with self.inner.if_else(condition) as branches:
            for branch, masked in zip(branches, (False, True), strict=True):
                with branch:
                    self.masked, self._memo = masked, dict(before)
                    self.instead = None if masked else instead
                    make()
        self._memo, self.instead = before, None

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
            run = None if tile.goes_by_lanes or not self.in_words else in_run(coords, self.in_words)
            if run is not None:
                found = self.eval(tile, run)
                if llvm.lanes_of(found.value.type):
                    found = self.emit([found], to_words)
            elif self._origins is None:
                found = tile.at(self, coords)
            else:
                found = self._traced(tile, coords)
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
        lanes = lanes_in(coords)
        if self.in_words == lanes > 0 and tile.goes_by_lanes:
            words = in_words(coords, lanes)
            if words is not None:
                found = self.eval(tile, words)
                if llvm.lanes_of(found.value.type):
                    key = ("run", id(found.value))
                    return self._remember(key, [found], to_run).value
        return self.widened(self.eval(tile, coords), lanes).value

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
            self._base("mul", index.base, factor, index.align),
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
        that it does not spoil how the rest is aligned; only what that is aligned by goes to the base, if bits would meet else."""
        parts = [self.times(i, s) for i, s in zip(coords, strides, strict=True)]
        if all(part.offsets is None for part in parts):
            return self.sum(parts)
        known = sum(part.base for part in parts if isinstance(part.base, int))
        total = self.sum(
            [Index(0, p.offsets, alignment(0)) if isinstance(p.base, int) else p for p in parts]
        )
        base, align = total.base, total.align
        if max(total.offsets or (0,)) + known >= align:
            base, known = self._base("add", base, known - known % align), known % align
        return Index(base, tuple(offset + known for offset in total.offsets or ()), align)

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
        one, other = (self._bits.get(id(base.value)) for base in (lhs.base, rhs.base))
        bits = one.plus(other) if one and other else None
        key = bits.key if bits else ("sum", id(lhs.base.value), id(rhs.base.value))
        base = self._remember(key, [lhs.base, rhs.base], lambda b, x, y: b.add(x, y), bits)
        return Index(base, offsets, align)

    def low_bits(self, index: Index, extent: int) -> Index:
        """``index % extent``, for a power of two, of an index that splits bits."""
        offsets = index.offsets and tuple(offset & (extent - 1) for offset in index.offsets)
        align = index.align if index.align < extent else alignment(0)
        base = index.base
        base = 0 if index.align >= extent else self._base("and", base, extent - 1, index.align)
        return _settled(Index(base, offsets, align))

    def high_bits(self, index: Index, extent: int) -> Index:
        """``index // extent``, for a power of two, of an index that splits bits."""
        by = extent.bit_length() - 1
        offsets = index.offsets and tuple(offset >> by for offset in index.offsets)
        align = max(index.align >> by, 1)
        base = self._base("lshr", index.base, by, index.align)
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

    def _base(self, op: str, base: Lane | int, amount: int, align: int = 1) -> Lane | int:
        """``base`` of an alignment, and a number. Bits that were taken apart and put together again are what they were."""
        if isinstance(base, int):
            return _KNOWN[op](base, amount)
        if (op == "mul" and amount == 1) or (op in ("add", "lshr") and not amount):
            return base
        key: object = (op, id(base.value), amount)
        bits = None
        if op in ("and", "lshr") or (op == "mul" and not amount & (amount - 1)):
            before = self._bits_of(base, align)
            bits = before.after(op, amount)
            if not bits.fields:
                return bits.known
            if before.parts > 1 and op != "mul":
                return self._of_fields(bits)
            key = bits.key
        elif op == "add" and id(base.value) in self._bits and amount > 0:
            bits = self._bits[id(base.value)].plus(Bits((), amount))
            key = bits.key if bits else key
        constant = ir.Constant(I64, amount)
        return self._remember(key, [base], lambda b, v: getattr(b, _METHODS[op])(v, constant), bits)

    def _bits_of(self, base: Lane, align: int) -> Bits:
        if id(base.value) not in self._bits:
            self._is(base, bits_below(base, 1 << WORD, align))
        return self._bits[id(base.value)]

    def _is(self, base: Lane, bits: Bits) -> None:
        """Let a base be the one with these bits."""
        self._bits[id(base.value)] = bits
        self._memo[bits.key] = base

    def _of_fields(self, bits: Bits) -> Lane:
        """The sum of fields, each taken from its own value where that is known, and a known number."""
        found = self._memo.get(bits.key)
        if found is not None:
            return found
        total: Lane | None = None
        sofar = Bits(())
        for field in sorted(bits.fields, key=lambda field: field.base.level):
            part = self._of_field(field)
            following = sofar.plus(Bits((field,)))
            assert following is not None
            if total is None:
                total = part
            else:
                total = self._remember(
                    following.key, [total, part], lambda b, x, y: b.add(x, y), following
                )
            sofar = following
        assert total is not None
        if bits.known:
            number = ir.Constant(I64, bits.known)
            total = self._remember(bits.key, [total], lambda b, x: b.add(x, number), bits)
        return total

    def _of_field(self, field: Field) -> Lane:
        """Bits of a value, in their place."""
        (whole,) = self._bits[id(field.base.value)].fields
        below = field.low > whole.low and field.shift > 0
        mask = field.mask if below or field.high < whole.high else None
        right, left = max(field.low - field.shift, 0), max(field.shift - field.low, 0)

        def make(b: Builder, value: Value) -> Value:
            if right:
                value = b.lshr(value, ir.Constant(I64, right))
            if left:
                value = b.shl(value, ir.Constant(I64, left))
            return value if mask is None else b.and_(value, ir.Constant(I64, mask))

        bits = Bits((field,))
        return self._remember(bits.key, [field.base], make, bits)

    def _remember(
        self,
        key: object,
        lanes: Sequence[Lane],
        make: Callable[..., Value],
        bits: Bits | None = None,
    ) -> Lane:
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self.emit(lanes, make)
            self._kept.append(lanes)
        if bits is not None:
            self._bits.setdefault(id(found.value), bits)
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
