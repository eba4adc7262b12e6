"""The microkernel of a product with few columns, such as a matrix times a vector: the lanes of a vector are terms.

With as many lanes as columns, a product by one column would be one of scalars. Here both operands are read along k: the left one
in place, the right one column by column, ``[N][K]``. A block has some rows and all columns; the lanes of its sums are added up
at the end. The error is that of ``microkernel``: a sum has as many terms, in another order.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I8, I32, I64
from tilewright.cpu.codegen.ir.masked import masked_load
from tilewright.cpu.codegen.ir.types import Builder, Type, Value
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.products.accumulation import AccumulationKernel
from tilewright.cpu.codegen.products.factors import Entry, Table, each_round
from tilewright.cpu.codegen.products.tile_registers import Sums

#: How many rows at most are read at once: as many streams as processors follow.
_MOST_ROWS = 8


def rows_of(m: int, n: int, sums: int) -> int:
    """The rows of a block of a product of extents M, N, of which ``sums`` vectors of accumulators stay in registers."""
    return max(1, min(m, _MOST_ROWS, sums // n))


def emit(
    b: Builder,
    accumulation: AccumulationKernel,
    dims: tuple[int, int, int],
    rows: int,
    source: Table | Entry,
    sums: Sums,
    limit: Value | None,
    lanes: int,
) -> None:
    """The body of a kernel function (``microkernel.kernel_function``): so many rows at once, of ``limit`` in all (None:
    of all), by vectors of so many accumulators."""
    kernel = _Kernel(accumulation, dims, source, sums, limit, lanes)
    m, _, _ = dims
    most = _number(m) if limit is None else limit

    def block(b: Builder, first: Value) -> None:
        last = b.sub(most, _number(1))
        numbers = [b.add(first, _number(row)) for row in range(rows)]
        if limit is not None or m % rows:
            numbers = [llvm.intrinsic(b, "umin", [number, last]) for number in numbers]
        kernel.block(b, numbers)

    llvm.count(b, _number(0), most, _number(rows), block)


class _Kernel:
    """One product under construction."""

    def __init__(
        self,
        accumulation: AccumulationKernel,
        dims: tuple[int, int, int],
        source: Table | Entry,
        sums: Sums,
        limit: Value | None,
        lanes: int,
    ) -> None:
        self.accumulation, self.source, self.sums = accumulation, source, sums
        _, self.columns, self.k = dims
        self.some = limit is not None
        """Whether there may be fewer terms than K."""
        self.lanes = lanes
        self.terms = lanes * accumulation.group
        self.vector = llvm.vector(accumulation.accumulator.register, lanes)

    def block(self, b: Builder, rows: list[Value]) -> None:
        """The results of some rows; one may be there several times."""
        start: list[Value] = [llvm.number(self.vector, 0) for _ in range(len(rows) * self.columns)]

        def add(entry: Entry, before: list[Value]) -> list[Value]:
            return self._added(b, entry, rows, before)

        if isinstance(self.source, Entry):
            totals = add(self.source, start)
        else:
            totals = each_round(LoopNest(b), self.source, start, add)
        self._store(b, rows, totals)

    def _added(
        self, b: Builder, entry: Entry, rows: list[Value], before: list[Value]
    ) -> list[Value]:
        """The sums after the terms of one entry."""
        size = self.accumulation.panel.buffer_bytes
        lefts = [_moved(b, entry.left, b.mul(row, entry.left_step)) for row in rows]
        rights = [
            _moved(b, entry.right, _number(column * self.k * size))
            for column in range(self.columns)
        ]
        depth = entry.depth if self.some else _number(self.k)
        # The rows of the next block are asked for meanwhile: a page ends before the processor sees a stream in each of them.
        # With one column there are hardly more instructions than loads, and more of them cost what they save.
        ahead = b.mul(entry.left_step, _number(len(rows)))
        count = b.udiv(b.add(depth, _number(self.terms - 1)), _number(self.terms))

        def step(number: Value, sums: list[Value]) -> list[Value]:
            first = b.mul(number, _number(self.terms))
            on = self._inside(b, b.sub(depth, first)) if self.some else None
            behind = b.mul(first, _number(size))
            columns = [self._terms(b, _moved(b, right, behind), on) for right in rights]
            found: list[Value] = []
            for row, left in enumerate(lefts):
                place = _moved(b, left, behind)
                factor = self._terms(b, place, on)
                if self.columns > 1:
                    llvm.prefetch(b, _moved(b, place, ahead), near=False)
                for at, column in enumerate(columns):
                    total = sums[row * self.columns + at]
                    found.append(self.accumulation.multiply(b, total, factor, column))
            return found

        return llvm.count_with(b, count, before, step)

    def _inside(self, b: Builder, left: Value) -> Value:
        """Which of the next terms there are, given how many."""
        steps = llvm.int_lanes(range(self.terms), I32)
        return b.icmp_signed("<", steps, llvm.splat(b, b.trunc(left, I32), self.terms))

    def _terms(self, b: Builder, where: Value, on: Value | None) -> Value:
        """A vector of groups of neighbours, zeros where there are none."""
        panel, lanes = self.accumulation.panel, self.lanes
        if on is None:
            return self.accumulation.load_right(b, where, 0, lanes)
        ty = ir.VectorType(panel.buffer, self.terms)
        found = masked_load(b, where, ty, on, llvm.number(ty, 0), panel.buffer_bytes, near=True)
        wanted = llvm.vector(self.accumulation.unit.register, lanes)
        return found if found.type == wanted else b.bitcast(found, wanted)

    def _store(self, b: Builder, rows: list[Value], totals: list[Value]) -> None:
        """Add up the lanes of sums, and what was there before, and write the results."""
        sums, dense = self.sums, _number(self.columns * self._size)
        ty = llvm.vector(self._element, self.columns if self.columns > 1 else 0)
        found: list[Value] = []
        for row, result in zip(rows, self._added_up(b, totals), strict=True):
            place = _moved(b, sums.pointer, b.mul(row, dense))
            before = b.load(place, typ=ty, align=self._size)
            before = b.select(sums.fresh, llvm.number(ty, 0), before)
            found.append(plus(b, before, result))
        for row, result in zip(rows, found, strict=True):
            place = _moved(b, sums.target, b.mul(row, sums.target_step))
            b.store(result, place, align=self._size)

    def _added_up(self, b: Builder, totals: list[Value]) -> list[Value]:
        """For each row the sums of its columns; of several rows together, if their number is a power of two."""
        count, columns = len(totals), self.columns
        at_once = count if count & (count - 1) == 0 and count <= self.lanes else columns
        found: list[Value] = []
        for first in range(0, count, at_once):
            sums = added_up(b, totals[first : first + at_once], self.lanes)
            for column in range(0, at_once, columns):
                if columns == 1:
                    found.append(b.extract_element(sums, ir.Constant(I32, column)))
                else:
                    found.append(llvm.shuffle(b, sums, sums, range(column, column + columns)))
        return found

    @property
    def _size(self) -> int:
        return self.accumulation.accumulator.buffer_bytes

    @property
    def _element(self) -> Type:
        return self.accumulation.accumulator.register


def added_up(b: Builder, totals: Sequence[Value], lanes: int) -> Value:
    """A vector of the sums of the lanes of some vectors, whose number is a power of two, not above that of lanes: halves are
    added to halves, those of two vectors at a time."""
    found, each = list(totals), lanes
    while each > 1:
        joined = min(2, len(found))
        parts = joined * llvm.lanes_of(found[0].type) // each
        low = [part * each + lane for part in range(parts) for lane in range(each // 2)]
        high = [lane + each // 2 for lane in low]
        pairs = zip(found[::joined], found[joined - 1 :: joined], strict=True)
        found = [plus(b, *(llvm.shuffle(b, x, y, half) for half in (low, high))) for x, y in pairs]
        each //= 2
    return found[0]


def plus(b: Builder, x: Value, y: Value) -> Value:
    """The sum of two numbers or vectors, of integers or of floats."""
    integers = isinstance(llvm.scalar_of(x.type), ir.IntType)
    return b.add(x, y) if integers else b.fadd(x, y)


def _number(value: int) -> Value:
    return ir.Constant(I64, value)


def _moved(b: Builder, pointer: Value, distance: Value) -> Value:
    return b.gep(pointer, [distance], source_etype=I8)
