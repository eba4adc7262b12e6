"""The kernel of a matrix product: panels in, sums of products out.

There is a function of its own for each shape and scheme. It goes over blocks of ``rows`` x ``columns``
elements that stay in vector registers while k runs; for each strip of columns, which stays in the
first cache, over all rows.

The left operand is read row by row, with any distance between rows, k dense; the right one lies in
strips of ``columns`` columns, in each of which k goes from top to bottom:
``[N / columns][K / group][columns]`` of groups.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen import llvm
from tilewright.cpu.codegen.elements import I1, I8, I32, I64, PTR, VOID
from tilewright.cpu.codegen.function import Unit
from tilewright.cpu.codegen.indices import Index
from tilewright.cpu.codegen.irtypes import Builder, Value
from tilewright.cpu.codegen.nests import Nest
from tilewright.cpu.codegen.schemes import Scheme
from tilewright.cpu.target import CpuTarget

#: Rounds of the loop over k that are written out.
_UNROLL = 4
_CACHE_LINE = 64
#: How many rows before its own a row is asked for, when rows are read for the first time.
_ROWS_AHEAD = 8
#: How many groups of a row are summed at once, most first.
_SUM_LANES = (16, 8, 4)


@dataclass(frozen=True, slots=True)
class Shape:
    """One product: extents, and the block that stays in registers."""

    m: int
    n: int
    k: int
    rows: int
    lanes: int
    vectors: int

    @property
    def columns(self) -> int:
        return self.lanes * self.vectors


def shape_of(target: CpuTarget, scheme: Scheme, m: int, n: int, k: int) -> Shape:
    """The blocking of a product: as many accumulators as registers allow."""
    lanes = min(target.vector_bits // scheme.accumulator_bits, n)
    vectors = min(2, n // lanes)
    rows = 8 if target.vector_registers >= 32 else 4
    if vectors == 1:
        rows *= 2
    return Shape(m, n, k, min(rows, m), lanes, vectors)


def kernel_function(unit: Unit, scheme: Scheme, shape: Shape) -> ir.Function:
    """The kernel of a shape.

    ``void (left, i64 left_step, right, sums, target, i64 target_step, i1 fresh)``: ``target = left x
    right`` if ``fresh``, else ``target = sums + left x right``. Steps are the bytes from row to row;
    the sums are dense. They and the target may be the same.
    """
    name = f"tilewright.dot.{scheme.name}.{shape.m}x{shape.n}x{shape.k}"
    found = unit.module.globals.get(name)
    if isinstance(found, ir.Function):
        return found
    ty = ir.FunctionType(VOID, [PTR, I64, PTR, PTR, PTR, I64, I1])
    function = ir.Function(unit.module, ty, name)
    function.linkage = "internal"
    unit.prepare(function)
    llvm.add_attribute(function, "noinline")
    names = ("left", "left_step", "right", "sums", "target", "target_step", "fresh")
    for argument, attribute in zip(function.args, names, strict=True):
        argument.name = attribute
        if attribute in ("left", "right"):
            argument.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    _Kernel(builder, scheme, shape, *function.args).emit()
    builder.ret_void()
    return function


class _Kernel:
    """The body of one kernel under construction."""

    def __init__(
        self,
        builder: Builder,
        scheme: Scheme,
        shape: Shape,
        left: Value,
        left_step: Value,
        right: Value,
        sums: Value,
        target: Value,
        target_step: Value,
        fresh: Value,
    ) -> None:
        self.nest = Nest(builder)
        self.scheme, self.shape = scheme, shape
        self.left, self.left_step, self.right = left, left_step, right
        self.sums, self.target, self.target_step, self.fresh = sums, target, target_step, fresh
        self.groups = shape.k // scheme.group
        self.group_bytes = scheme.group * scheme.panel.buffer_bytes
        self.vector = llvm.vector(
            scheme.accumulator.register, shape.lanes if shape.lanes > 1 else 0
        )

    def emit(self) -> None:
        nest, shape = self.nest, self.shape
        terms = self._row_terms() if self.scheme.row_factor else None
        strip = nest.loop(shape.n, shape.columns)
        strip_at = _advance(nest.inner, self.right, _value(strip), self.groups * self.group_bytes)
        block = nest.loop(shape.m, shape.rows)
        size = self.scheme.accumulator.buffer_bytes
        row_bytes = _number(shape.n * size)
        start = self._start(self._places(self.sums, row_bytes, strip, block), terms, block)
        places = self._places(self.target, self.target_step, strip, block)
        b = nest.inner
        first = _further(b, self.left, _value(block), self.left_step)
        rows = [_further(b, first, _number(row), self.left_step) for row in range(shape.rows)]
        self._fetch_targets(places, row_bytes, strip, block)
        totals = self._sum_over_k(rows, strip_at, start)
        b = nest.inner
        for place, total in zip(places, totals, strict=True):
            b.store(total, place, align=size)
        nest.close_all()

    def _places(self, first: Value, step: Value, strip: Index, block: Index) -> list[Value]:
        """Where the vectors of a block of a matrix lie, row by row."""
        b, size = self.nest.inner, self.scheme.accumulator.buffer_bytes
        corner = _advance(b, first, _value(strip), size)
        corner = _further(b, corner, _value(block), step)
        return [
            _advance(b, row_at, _number(v * self.shape.lanes), size)
            for row in range(self.shape.rows)
            for row_at in [_further(b, corner, _number(row), step)]
            for v in range(self.shape.vectors)
        ]

    def _start(self, places: list[Value], terms: Value | None, block: Index) -> list[Value]:
        """What the sums begin with: zero or what is there, and what offsets add."""
        b, size = self.nest.inner, self.scheme.accumulator.buffer_bytes
        before, add, begin = b.block, b.append_basic_block("add"), b.append_basic_block("begin")
        b.cbranch(self.fresh, begin, add)
        b.position_at_end(add)
        found = [b.load(place, typ=self.vector, align=size) for place in places]
        b.branch(begin)
        b.position_at_end(begin)
        start: list[Value] = []
        for value in found:
            phi = b.phi(self.vector)
            phi.add_incoming(llvm.number(self.vector, 0), before)
            phi.add_incoming(value, add)
            start.append(phi)
        if terms is None:
            return start
        at = b.gep(terms, [_value(block)], source_etype=I32)
        rows = [
            b.load(b.gep(at, [_number(row)], source_etype=I32), typ=I32, align=4)
            for row in range(self.shape.rows)
        ]
        spread = [llvm.splat(b, row, llvm.lanes_of(self.vector)) for row in rows]
        return [b.add(s, spread[i // self.shape.vectors]) for i, s in enumerate(start)]

    def _fetch_targets(
        self, places: list[Value], row_bytes: Value, strip: Index, block: Index
    ) -> None:
        """What is written when k is through is on its way while it runs, and so are the sums of the
        block that is next."""
        shape, size = self.shape, self.scheme.accumulator.buffer_bytes
        following = self.nest.shift(block, shape.rows)
        sums = self._places(self.sums, row_bytes, strip, following)
        b = self.nest.inner
        for lines, write in ((places, True), (sums, False)):
            for place in lines[:: shape.vectors]:
                for offset in range(0, shape.columns * size, _CACHE_LINE):
                    llvm.prefetch(b, _advance(b, place, _number(offset), 1), write=write)

    def _row_terms(self) -> Value:
        """For each row the sum of its elements times the scheme's factor, in memory."""
        nest, scheme = self.nest, self.scheme
        terms = llvm.stack(nest.inner, ir.ArrayType(I32, self.shape.m))
        lanes = next((n for n in _SUM_LANES if n <= self.groups), 0)
        row = nest.loop(self.shape.m)
        row_at = _further(nest.inner, self.left, _value(row), self.left_step)
        b = nest.inner
        ahead = _further(b, row_at, _number(_ROWS_AHEAD), self.left_step)
        for offset in range(0, self.groups * self.group_bytes, _CACHE_LINE):
            llvm.prefetch(b, _advance(b, ahead, _number(offset), 1))
        total: Value
        if lanes:
            total = llvm.number(ir.VectorType(I32, lanes), 0)
            for first in range(0, self.groups, lanes):
                values = scheme.load_right(b, row_at, first, lanes)
                total = scheme.add_up(b, total, values)
            total = llvm.intrinsic(b, "vector.reduce.add", [total], I32)
        else:
            # A whole vector is the least that the instruction takes: the same group in each lane.
            total = llvm.number(ir.VectorType(I32, _SUM_LANES[-1]), 0)
            for group in range(self.groups):
                values = scheme.load_left(b, row_at, group, _SUM_LANES[-1])
                total = scheme.add_up(b, total, values)
            total = b.extract_element(total, ir.Constant(I32, 0))
        place = b.gep(terms, [_value(row)], source_etype=I32)
        b.store(b.mul(total, ir.Constant(I32, scheme.row_factor)), place, align=4)
        while nest.depth:
            nest.close()
        return terms

    def _sum_over_k(self, rows: list[Value], strip: Value, start: list[Value]) -> list[Value]:
        """The accumulators after all of k."""
        nest, scheme, shape = self.nest, self.scheme, self.shape
        unroll = min(_UNROLL, self.groups)
        depth = nest.depth
        step = nest.loop(self.groups, unroll)
        looped = nest.depth > depth
        phis = [nest.carried(s) for s in start] if looped else []
        totals: list[Value] = list(phis) or list(start)
        b = nest.inner
        if looped:
            self._fetch_rows(rows[0], step, unroll)
        right = _advance(b, strip, _value(step), shape.columns * self.group_bytes)
        here = [_advance(b, row, _value(step), self.group_bytes) for row in rows]
        for k in range(unroll):
            columns = [
                scheme.load_right(b, right, k * shape.columns + v * shape.lanes, shape.lanes)
                for v in range(shape.vectors)
            ]
            for row, row_at in enumerate(here):
                factor = scheme.load_left(b, row_at, k, shape.lanes)
                for v, column in enumerate(columns):
                    at = row * shape.vectors + v
                    totals[at] = scheme.multiply(b, totals[at], factor, column)
        if looped:
            nest.close(list(zip(phis, totals, strict=True)))
        return totals

    def _fetch_rows(self, first: Value, step: Index, unroll: int) -> None:
        """Ask for the next block's rows of the left operand, a part of its lines in each round."""
        shape, b = self.shape, self.nest.inner
        lines_of_row = self.groups * self.group_bytes // _CACHE_LINE
        lines = shape.rows * unroll * self.group_bytes // _CACHE_LINE
        if shape.m == shape.rows or not lines or not lines_of_row:
            return
        ahead = _further(b, first, _number(shape.rows), self.left_step)
        for number in range(lines):
            line = b.add(b.mul(_value(step), _number(lines)), _number(number * unroll))
            line = b.lshr(line, _number(unroll.bit_length() - 1))
            row = b.lshr(line, _number(lines_of_row.bit_length() - 1))
            at = _further(b, ahead, row, self.left_step)
            column = b.and_(line, _number(lines_of_row - 1))
            llvm.prefetch(b, _advance(b, at, column, _CACHE_LINE), near=False)


def _number(value: int) -> Value:
    return ir.Constant(I64, value)


def _value(index: Index) -> Value:
    return ir.Constant(I64, index.base) if isinstance(index.base, int) else index.base.value


def _advance(b: Builder, pointer: Value, count: Value, unit: int) -> Value:
    """The pointer ``count`` times ``unit`` bytes further."""
    return b.gep(pointer, [count], source_etype=ir.ArrayType(I8, unit))


def _further(b: Builder, pointer: Value, count: Value, step: Value) -> Value:
    """The pointer ``count`` rows further."""
    if isinstance(count, ir.Constant):
        if count.constant == 0:
            return pointer
        if count.constant == 1:
            return b.gep(pointer, [step], source_etype=I8)
    return b.gep(pointer, [b.mul(count, step)], source_etype=I8)
