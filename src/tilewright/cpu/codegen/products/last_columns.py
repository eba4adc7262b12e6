"""The last few columns of a product behind whole strips: the lanes of a vector are terms, as in ``few_columns``.

A vector of columns would be nearly empty, and each of its products wait for the one before. The right operand is packed for
whole strips: its last columns are first copied to the stack, each by itself along k. Then some rows at once are multiplied by
them, and the lanes of all sums are added up together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I8, I32, I64, PTR
from tilewright.cpu.codegen.ir.masked import masked_load
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.products.accumulation import AccumulationKernel
from tilewright.cpu.codegen.products.factors import Entry, Table, each_round
from tilewright.cpu.codegen.products.few_columns import added_up, plus
from tilewright.cpu.codegen.products.tile_registers import Sums

#: How many columns at most are made in this way.
MOST = 4
#: How many rows are multiplied by so many columns at once.
_ROWS = {1: 8, 2: 8, MOST: 4}
#: The bytes that one column may take on the stack.
_COLUMN_BYTES = 8192


@dataclass(frozen=True, slots=True)
class LastColumns:
    """A product of which the last columns are made in this way, by vectors of so many lanes.

    ``dims``: its extents; ``rows``: how many of its rows there are; ``panel_step``: the bytes between two groups of a column;
    ``column_of(b, entry, at)``: where a column of the right operand begins; ``room``: memory for as many columns as are made at
    once, of ``column_bytes`` each.
    """

    accumulation: AccumulationKernel
    dims: tuple[int, int, int]
    lanes: int
    source: Table | Entry
    sums: Sums
    rows: Value
    panel_step: int
    column_of: Callable[[Builder, Entry, Value], Value]
    room: Value
    column_bytes: int

    def emit(self, b: Builder, at: Value, left: Value) -> None:
        """The results of the columns from ``at`` on, of which there are ``left``: one to four."""
        with b.if_else(b.icmp_unsigned("==", left, _number(1))) as (one, more):
            with one:
                self._columns(b, at, left, 1)
            with more, b.if_else(b.icmp_unsigned("==", left, _number(2))) as (two, others):
                with two:
                    self._columns(b, at, left, 2)
                with others:
                    self._columns(b, at, left, MOST)

    @property
    def _group_bytes(self) -> int:
        return self.accumulation.group * self.accumulation.panel.buffer_bytes

    @property
    def _groups(self) -> int:
        """How many groups a column of one round takes: whole vectors."""
        return _groups(self.accumulation, self.dims[2], self.lanes)

    def _columns(self, b: Builder, at: Value, left: Value, count: int) -> None:
        """The results of so many columns; those behind the last one are that one again."""
        last = b.sub(left, _number(1))
        columns = [
            b.add(at, llvm.intrinsic(b, "umin", [_number(number), last])) for number in range(count)
        ]
        self._each_round(b, [], lambda entry, place, _: self._copy(b, entry, columns, place))
        height = _ROWS[count]

        def block(b: Builder, first: Value) -> None:
            end = b.sub(self.rows, _number(1))
            rows = [
                llvm.intrinsic(b, "umin", [b.add(first, _number(number)), end])
                for number in range(height)
            ]
            self._block(b, rows, columns)

        llvm.count(b, _number(0), self.rows, _number(height), block)

    def _each_round(
        self,
        b: Builder,
        start: Sequence[Value],
        body: Callable[[Entry, Value, list[Value]], list[Value]],
    ) -> list[Value]:
        """Run a body for each round, given where its columns lie in the room and the values so far."""
        if isinstance(self.source, Entry):
            return body(self.source, self.room, list(start))
        size = _number(self._groups * self._group_bytes)

        def one(entry: Entry, before: list[Value]) -> list[Value]:
            place, *values = before
            return [_moved(b, place, size), *body(entry, place, values)]

        return each_round(LoopNest(b), self.source, [self.room, *start], one)[1:]

    def _steps(
        self, b: Builder, entry: Entry, start: Sequence[Value], body: Callable[..., list[Value]]
    ) -> list[Value]:
        """Run a body for each vector of groups of a round, given the bytes before it and which of its groups there are."""
        group = self.accumulation.group
        groups = b.udiv(b.add(entry.depth, _number(group - 1)), _number(group))
        count = b.udiv(b.add(groups, _number(self.lanes - 1)), _number(self.lanes))
        numbers = llvm.int_lanes(range(self.lanes), I32)

        def step(number: Value, before: list[Value]) -> list[Value]:
            first = b.mul(number, _number(self.lanes))
            left = llvm.splat(b, b.trunc(b.sub(groups, first), I32), self.lanes)
            return body(first, b.icmp_signed("<", numbers, left), before)

        return llvm.count_with(b, count, start, step)

    def _copy(
        self, b: Builder, entry: Entry, columns: Sequence[Value], place: Value
    ) -> list[Value]:
        """Bring columns of one round to their places."""
        ty = llvm.vector(self.accumulation.unit.register, self.lanes)
        size = ir.Constant(I32, self._group_bytes)
        sources = [self.column_of(b, entry, column) for column in columns]
        offsets = llvm.int_lanes([lane * self.panel_step for lane in range(self.lanes)])

        def step(first: Value, on: Value, nothing: list[Value]) -> list[Value]:
            for number, source in enumerate(sources):
                begin = _moved(b, source, b.mul(first, _number(self.panel_step)))
                pointers = b.gep(begin, [offsets], source_etype=I8)
                pointers.type = ir.VectorType(PTR, self.lanes)
                given = [pointers, size, on, llvm.number(ty, 0)]
                found = llvm.intrinsic(b, "masked.gather", given, ty, [ty, pointers.type])
                there = self._in_room(b, place, number, first)
                b.store(found, there, align=self._group_bytes)
            return nothing

        return self._steps(b, entry, [], step)

    def _in_room(self, b: Builder, place: Value, number: int, first: Value) -> Value:
        behind = b.mul(first, _number(self._group_bytes))
        column = _number(number * self.column_bytes)
        return _moved(b, place, b.add(column, behind))

    def _block(self, b: Builder, rows: Sequence[Value], columns: Sequence[Value]) -> None:
        """The results of some rows and columns."""
        vector = llvm.vector(self.accumulation.accumulator.register, self.lanes)
        start: list[Value] = [llvm.number(vector, 0) for _ in range(len(rows) * len(columns))]

        def add(entry: Entry, place: Value, before: list[Value]) -> list[Value]:
            return self._added(b, entry, place, (rows, len(columns)), before)

        totals = self._each_round(b, start, add)
        # All of what was there is read before the first result is written: a row or a column may be there several times.
        found = [
            self._results(b, rows, column, totals[number :: len(columns)])
            for number, column in enumerate(columns)
        ]
        size = self.sums.element.buffer_bytes
        for column, results in zip(columns, found, strict=True):
            for row, value in zip(rows, results, strict=True):
                before = b.mul(row, self.sums.target_step)
                place = _element(b, self.sums.target, before, column, size)
                b.store(value, place, align=size)

    def _added(
        self,
        b: Builder,
        entry: Entry,
        place: Value,
        block: tuple[Sequence[Value], int],
        before: list[Value],
    ) -> list[Value]:
        """The sums after the terms of one round."""
        rows, columns = block
        lefts = [_moved(b, entry.left, b.mul(row, entry.left_step)) for row in rows]
        ty = llvm.vector(self.accumulation.unit.register, self.lanes)
        align = self.accumulation.panel.buffer_bytes

        def step(first: Value, on: Value, sums: list[Value]) -> list[Value]:
            behind = b.mul(first, _number(self._group_bytes))
            rights: list[Value] = [
                b.load(self._in_room(b, place, number, first), typ=ty, align=self._group_bytes)
                for number in range(columns)
            ]
            found: list[Value] = []
            for row, left in enumerate(lefts):
                there = _moved(b, left, behind)
                factor = masked_load(b, there, ty, on, llvm.number(ty, 0), align, near=True)
                for number, right in enumerate(rights):
                    total = sums[row * columns + number]
                    found.append(self.accumulation.multiply(b, total, factor, right))
            return found

        return self._steps(b, entry, before, step)

    def _results(
        self, b: Builder, rows: Sequence[Value], column: Value, totals: Sequence[Value]
    ) -> list[Value]:
        """The sums of the lanes of the sums of a column, and of what was there before, as the target has them."""
        sums, accumulator = self.sums, self.accumulation.accumulator
        dense, size = self.dims[1] * accumulator.buffer_bytes, accumulator.buffer_bytes
        at_once = min(len(rows), self.lanes)
        found: list[Value] = []
        for first in range(0, len(rows), at_once):
            ty = llvm.vector(accumulator.register, at_once)
            before = llvm.undefined(ty)
            for lane, row in enumerate(rows[first : first + at_once]):
                place = _element(b, sums.pointer, b.mul(row, _number(dense)), column, size)
                value = b.load(place, typ=accumulator.register, align=size)
                before = b.insert_element(before, value, ir.Constant(I32, lane))
            before = b.select(sums.fresh, llvm.number(ty, 0), before)
            total = plus(b, before, added_up(b, totals[first : first + at_once], self.lanes))
            if sums.element.name != accumulator.name:
                total = self.accumulation.rounded(b, total, sums.element)
            found += [b.extract_element(total, ir.Constant(I32, lane)) for lane in range(at_once)]
        return found


def _groups(accumulation: AccumulationKernel, k: int, lanes: int) -> int:
    return -(-(k // accumulation.group) // lanes) * lanes


def column_bytes(
    accumulation: AccumulationKernel, rounds: int, dims: tuple[int, int, int], lanes: int
) -> int:
    """How much of the stack a column of so many rounds takes."""
    size = accumulation.group * accumulation.panel.buffer_bytes
    return rounds * _groups(accumulation, dims[2], lanes) * size


def fits(
    accumulation: AccumulationKernel, rounds: int, dims: tuple[int, int, int], lanes: int
) -> bool:
    """Whether last columns of a product of so many rounds at once are better made in this way: its terms fill vectors, and the
    columns have room."""
    groups = dims[2] // accumulation.group
    short = column_bytes(accumulation, rounds, dims, lanes) <= _COLUMN_BYTES
    return not accumulation.row_factor and 2 * groups >= lanes and short


def _element(b: Builder, first: Value, before: Value, column: Value, size: int) -> Value:
    """Where an element of a matrix lies, given the bytes before its row."""
    return _moved(b, first, b.add(before, b.mul(column, _number(size))))


def _number(value: int) -> Value:
    return ir.Constant(I64, value)


def _moved(b: Builder, pointer: Value, distance: Value) -> Value:
    return b.gep(pointer, [distance], source_etype=I8)
