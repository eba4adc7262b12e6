"""The microkernel of a matrix product: panels in, accumulators out.

There is one function per shape and accumulation kernel. It iterates over blocks of some rows and ``columns`` elements,
which stay in vector registers while k runs: for some rows, which stay in L1, over all strips of columns, which stream
from L2. Neighbouring blocks also write side by side, in few pages.

The left operand is read row by row, with any distance between rows, dense along k; the right one lies in strips of
``columns`` columns, in each of which k goes from top to bottom: ``[N / columns][K / group][columns]`` of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from llvmlite import ir

from tilewright.cpu.codegen.emitter.function import Unit
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I8, I32, I64, PTR, VOID, Element
from tilewright.cpu.codegen.ir.masked import masked_load, masked_store
from tilewright.cpu.codegen.ir.types import Builder, Type, Value
from tilewright.cpu.codegen.loops.indices import Index, fixed
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.memory.access import loaded
from tilewright.cpu.codegen.products import few_columns, last_columns, tile_registers, tile_shapes
from tilewright.cpu.codegen.products.accumulation import AccumulationKernel, widening
from tilewright.cpu.codegen.products.factors import MOST_ROUNDS, Entry, Table, each_round
from tilewright.cpu.codegen.products.last_columns import LastColumns
from tilewright.cpu.codegen.products.tile_registers import Sums
from tilewright.cpu.target import CpuTarget

#: Rounds of the loop over k that are written out.
_UNROLL = 4
_CACHE_LINE = 64
#: How many rows of a right operand that is read where it lies are asked for before their turn.
_ROWS_AHEAD = 64
#: Products of at most so many rows go along rows of a right operand that is read where it lies, so many of them at once.
FEWEST_ROWS = 2
#: Or so many, of a right operand of so many bytes, which half of the first cache does not hold.
_FEW_ROWS, _FAR_BYTES = 16, 16 << 10
_ROWS_AT_ONCE = 8
#: Rounds of the loop over k, there, if more rows than this are to be addressed: with more of them LLVM loads
#: elements long before their turn, to have addresses out of its registers, and puts them on the stack.
_MANY_ROWS, _SHORT_UNROLL = 4, 2
#: How many lines are asked for before a strip.
_MOST_FETCHES = 32
#: How many vectors of sums stay in registers, and in how many columns of them, on a processor with few and
#: with many registers. The others hold a row of the right operand and an element of the left one.
_MANY_REGISTERS = 32
_BLOCKS = ((12, 2), (24, 4))
#: How many vectors of columns there are at most in what is left of a strip.
_NARROW = 4
#: Blocks of one vector of columns, and those of what is left of a strip, have so many rows at most: fewer wait for their sums. There
#: are no registers for the addresses of more, and rows whose distance is a power of two push each other out of the first cache.
_HIGHEST = 8
#: A block for what is left of the rows has one of so many parts of the rows of others.
_LOW = 2
#: How many groups of a row are summed at once, most first.
_SUM_LANES = (16, 8, 4)


@dataclass(frozen=True, slots=True)
class Shape:
    """One product: extents, and the largest block that stays in registers."""

    m: int
    n: int
    k: int
    rows: int
    lanes: int
    vectors: int
    two_axes: bool = False
    """Whether the kernel is that for registers with two axes (``tile_registers``)."""
    along_k: bool = False
    """Whether the lanes of a vector are terms (``few_columns``) and not columns."""

    @property
    def dims(self) -> tuple[int, int, int]:
        """The extents M, N, K."""
        return self.m, self.n, self.k

    @property
    def columns(self) -> int:
        """The columns of the block that is held in registers."""
        return self.n if self.along_k else self.lanes * self.vectors

    @property
    def heights(self) -> tuple[tuple[int, int], ...]:
        """The rows as blocks of nearly one height: how many rows a block has, and how many such blocks
        there are, the higher ones first."""
        count = -(-self.m // self.rows)
        low, higher = divmod(self.m, count)
        both = ((low + 1, higher), (low, count - higher))
        return tuple((rows, blocks) for rows, blocks in both if blocks)


def shape_of(target: CpuTarget, accumulation: AccumulationKernel, m: int, n: int, k: int) -> Shape:
    """The blocking of a product: as many accumulators as registers allow.

    Wide blocks take fewer instructions beside the products: a row has one element to load, which all
    its columns share. Few rows leave registers for more columns.
    """
    sums, widest = _BLOCKS[target.vector_registers >= _MANY_REGISTERS]
    if accumulation.goes_along_k(target, n, k):
        lanes = target.vector_bits // accumulation.accumulator_bits
        return Shape(m, n, k, few_columns.rows_of(m, n, sums), lanes, 1, along_k=True)
    lanes = min(target.vector_bits // accumulation.accumulator_bits, n)
    if accumulation.in_tiles(target, m, n, k):
        columns = min(n, tile_shapes.COLUMNS)
        return Shape(m, n, k, tile_shapes.ROWS, lanes, columns // lanes, two_axes=True)
    if m * widest < sums:
        widest = 1 << (sums // m).bit_length() - 1
    vectors = min(widest, n // lanes)
    rows = min(sums // vectors, m, _HIGHEST if vectors == 1 else m)
    return Shape(m, n, k, rows, lanes, vectors)


def _height_of(shape: Shape, vectors: int) -> int:
    """The rows of a block of so many vectors of columns, where all rows are divided into blocks of nearly one height."""
    most = max(1, min(shape.rows * shape.vectors // vectors, _HIGHEST, shape.m))
    return -(-shape.m // -(-shape.m // most))


def kernel_function(
    unit: Unit,
    accumulation: AccumulationKernel,
    shape: Shape,
    there: Element | None = None,
    *,
    rounds: bool = False,
    part: bool = False,
    to: Element | None = None,
) -> ir.Function:
    """The kernel of a shape.

    ``void (left, i64 left_step, right, sums, target, i64 target_step, i1 fresh)``: ``target = left x
    right`` if ``fresh``, else ``target = sums + left x right``. Steps are the bytes from row to row;
    the sums are dense. They and the target may be the same.

    With ``there``, the right operand is a matrix of such elements with dense rows, and the bytes from
    row to row follow it. With ``rounds``, a table of factors and its length (``rounds``) stand in the
    place of the factors, and all their products are added up.

    With ``part``, only some of the rows and columns are computed, and only some terms added: their numbers, one at
    least of each, come last. Elements beyond them may be written to, and those of the left operand be read that lie in
    the blocks of registers with two axes. The table has the number of terms of each entry.

    With ``to``, the target has such elements, to which sums are rounded; no others are written to there.
    """
    name = f"tilewright.dot.{accumulation.name}.{shape.m}x{shape.n}x{shape.k}"
    name += ".rounds" if rounds else "" if there is None else f".{there.name}"
    name += ".part" if part else ""
    name += "" if to is None else f".to.{to.name}"
    found = unit.module.globals.get(name)
    if isinstance(found, ir.Function):
        return found
    factors = [("left", PTR), ("left_step", I64), ("right", PTR)]
    if rounds:
        factors = [("table", PTR), ("count", I64)]
    elif there is not None:
        factors.append(("right_step", I64))
    rest = [("sums", PTR), ("target", PTR), ("target_step", I64), ("fresh", I1)]
    counts = [("rows", I64), ("columns", I64), ("depth", I64)][: 2 if rounds else 3]
    function = _declared(unit, name, [*factors, *rest, *(counts if part else ())])
    lanes = unit.target.vector_bits // accumulation.accumulator_bits
    _emit(function, accumulation, shape, there, to, lanes)
    return function


def _emit(
    function: ir.Function,
    accumulation: AccumulationKernel,
    shape: Shape,
    there: Element | None,
    to: Element | None,
    lanes: int,
) -> None:
    """The body of a kernel of these parameters; vectors have so many accumulators at most."""
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    arguments = {argument.name: argument for argument in function.args}
    source: Table | Entry
    if "table" in arguments:
        source = Table(arguments["table"], arguments["count"])
    else:
        depth = arguments.get("depth", _number(shape.k))
        source = Entry(arguments["left"], arguments["left_step"], arguments["right"], depth)
    before, target, step, fresh = (
        arguments[given] for given in ("sums", "target", "target_step", "fresh")
    )
    sums = Sums(before, target, step, fresh, accumulation.accumulator if to is None else to)
    limits = (arguments["rows"], arguments["columns"]) if "rows" in arguments else None
    row_bytes = _number(shape.columns * accumulation.group * accumulation.panel.buffer_bytes)
    right_step = arguments.get("right_step", row_bytes)
    if shape.along_k:
        most = None if limits is None else limits[0]
        few_columns.emit(
            builder, accumulation, shape.dims, shape.rows, source, sums, most, shape.lanes
        )
    elif there is None and shape.two_axes:
        tile_registers.emit(builder, accumulation, shape.dims, source, sums, limits)
    elif limits is not None:
        part = _Part(builder, accumulation, shape, there, source, right_step, sums)
        part.rows, part.columns = limits
        part.most_lanes = lanes
        part.emit()
    else:
        kind = _Kernel
        if there is not None and to is None and _goes_along_rows(accumulation, shape):
            kind, shape = _AlongRows, replace(shape, vectors=1)
        kind(builder, accumulation, shape, there, source, right_step, sums).emit()
    builder.ret_void()


def _declared(unit: Unit, name: str, parameters: Sequence[tuple[str, Type]]) -> ir.Function:
    """A function of these parameters, for this module alone; factors share no memory with others."""
    types = [ty for _, ty in parameters]
    function = ir.Function(unit.module, ir.FunctionType(VOID, types), name)
    function.linkage = "internal"
    unit.prepare(function)
    llvm.add_attribute(function, "noinline")
    for argument, (given, _) in zip(function.args, parameters, strict=True):
        argument.name = given
        if given in ("left", "right"):
            argument.add_attribute("noalias")
    return function


class _Kernel:
    """The body of one kernel under construction."""

    def __init__(
        self,
        builder: Builder,
        accumulation: AccumulationKernel,
        shape: Shape,
        there: Element | None,
        source: Table | Entry,
        right_step: Value,
        sums: Sums,
    ) -> None:
        self.nest = LoopNest(builder)
        self.accumulation, self.shape, self.there = accumulation, shape, there
        self.source, self.right_step = source, right_step
        self.sums, self.target, self.target_step = sums.pointer, sums.target, sums.target_step
        self.fresh, self.written = sums.fresh, sums.element
        self.groups = shape.k // accumulation.group
        self.group_bytes = accumulation.group * accumulation.panel.buffer_bytes
        self.vector = llvm.vector(
            accumulation.accumulator.register, shape.lanes if shape.lanes > 1 else 0
        )

    def emit(self) -> None:
        first_row = 0
        for rows, blocks in self.shape.heights:
            self._blocks(first_row, rows, blocks)
            first_row += rows * blocks

    def _blocks(self, first_row: int, height: int, blocks: int) -> None:
        """The products of so many blocks of rows, from a row on."""
        nest, shape, source = self.nest, self.shape, self.source
        block = nest.shift(nest.loop(height * blocks, height), first_row)
        rows: list[Value] = []
        if isinstance(source, Entry):
            rows = self._rows(source, block, height)
        terms = self._terms(lambda entry: rows or self._rows(entry, block, height), height)
        strip = nest.loop(shape.n, shape.columns)
        row_bytes = _number(shape.n * self.accumulation.accumulator.buffer_bytes)
        start = self._start(row_bytes, strip, block, height, terms)
        places = self._places(
            self.target, self.target_step, strip, block, height, self.written.buffer_bytes
        )
        self._fetch(
            places, self.written.buffer_bytes, write=True
        )  # They are on their way while k runs.
        if isinstance(source, Entry):
            totals = self._summed(source, rows, strip, start)
        else:

            def add(entry: Entry, before: list[Value]) -> list[Value]:
                return self._summed(entry, self._rows(entry, block, height), strip, before)

            totals = each_round(nest, source, start, add)
        b = nest.inner
        for place, total in zip(places, totals, strict=True):
            self._write(b, total, place)
        nest.close_all()

    def _write(self, b: Builder, total: Value, place: Value, on: Value | None = None) -> None:
        """Write sums to the target, as the elements that it has; with a mask, only where that is on."""
        size = self.written.buffer_bytes
        if self.written.name != self.accumulation.accumulator.name:
            total = self.accumulation.rounded(b, total, self.written)
        if on is None:
            b.store(total, place, align=size)
        else:
            masked_store(b, total, place, on, near=True)

    def _rows(self, entry: Entry, block: Index, height: int) -> list[Value]:
        """Where the rows of a block of the left operand begin."""
        b = self.nest.inner
        first = _further(b, entry.left, _value(block), entry.left_step)
        return [_further(b, first, _number(row), entry.left_step) for row in range(height)]

    def _summed(
        self, entry: Entry, rows: list[Value], strip: Index, start: list[Value]
    ) -> list[Value]:
        """The accumulators after the product of some rows and a strip of columns."""
        column_bytes = self.groups * self.group_bytes
        if self.there is not None:
            column_bytes = self.there.buffer_bytes
        strip_at = _advance(self.nest.inner, entry.right, _value(strip), column_bytes)
        self._fetch_next_rows(rows[0], entry.left_step, strip, len(rows))
        return self._sum_over_k(rows, strip_at, start)

    def _places(
        self, first: Value, step: Value, strip: Index, block: Index, height: int, size: int = 0
    ) -> list[Value]:
        """Where the vectors of a block of a matrix lie, row by row; the size is that of an element, if not of a sum."""
        b, size = self.nest.inner, size or self.accumulation.accumulator.buffer_bytes
        corner = _advance(b, first, _value(strip), size)
        corner = _further(b, corner, _value(block), step)
        return [
            _advance(b, row_at, _number(v * self.shape.lanes), size)
            for row in range(height)
            for row_at in [_further(b, corner, _number(row), step)]
            for v in range(self.shape.vectors)
        ]

    def _start(
        self,
        row_bytes: Value,
        strip: Index,
        block: Index,
        height: int,
        terms: list[Value] | None,
    ) -> list[Value]:
        """What the totals begin with: zero or the sums, and what the accumulation kernel adds."""
        size = self.accumulation.accumulator.buffer_bytes

        def sums(b: Builder) -> list[Value]:
            places = self._places(self.sums, row_bytes, strip, block, height)
            found = [b.load(place, typ=self.vector, align=size) for place in places]
            following = self.nest.shift(strip, self.shape.columns)
            ahead = self._places(self.sums, row_bytes, following, block, height)
            self._fetch(ahead, size, write=False)
            return found

        return _begin(self.nest.inner, self.fresh, self.vector, sums, terms)

    def _fetch(self, places: list[Value], size: int, *, write: bool) -> None:
        """Ask for the lines of a block of a matrix of elements of that size."""
        b = self.nest.inner
        for place in places[:: self.shape.vectors]:
            for offset in range(0, self.shape.columns * size, _CACHE_LINE):
                llvm.prefetch(b, _advance(b, place, _number(offset), 1), write=write)

    def _fetch_next_rows(self, first: Value, step: Value, strip: Index, height: int) -> None:
        """Ask for the rows of the next block, for each strip a part of them."""
        shape, b = self.shape, self.nest.inner
        lines_of_row = self.groups * self.group_bytes // _CACHE_LINE
        lines = height * lines_of_row * shape.columns // shape.n
        if shape.m == height or not lines:
            return
        ahead = _further(b, first, _number(height), step)
        strips_before = b.udiv(_value(strip), _number(shape.columns))
        for number in range(min(lines, _MOST_FETCHES)):
            line = b.add(b.mul(strips_before, _number(lines)), _number(number))
            row, column = b.udiv(line, _number(lines_of_row)), b.urem(line, _number(lines_of_row))
            at = _further(b, ahead, row, step)
            llvm.prefetch(b, _advance(b, at, column, _CACHE_LINE), near=False)

    def _terms(self, rows: Callable[[Entry], list[Value]], count: int) -> list[Value] | None:
        """For each of so many rows, which begin there, the sum of its elements in all rounds times the factor of the accumulation
        kernel; None where that has none."""
        nest, factor = self.nest, self.accumulation.row_factor
        if not factor:
            return None
        lanes = next((n for n in _SUM_LANES if n <= self.groups), 0)
        # A whole vector is the least that the instruction takes: of few groups each is in all lanes.
        zero = llvm.number(ir.VectorType(I32, lanes or _SUM_LANES[-1]), 0)

        def add(entry: Entry, before: list[Value]) -> list[Value]:
            return self._row_sums(rows(entry), before, lanes)

        start: list[Value] = [zero] * count
        if isinstance(self.source, Entry):
            sums = add(self.source, start)
        else:
            sums = each_round(nest, self.source, start, add)
        b = nest.inner
        if lanes:
            sums = [llvm.intrinsic(b, "vector.reduce.add", [total], I32) for total in sums]
        else:
            sums = [b.extract_element(total, ir.Constant(I32, 0)) for total in sums]
        return [b.mul(total, ir.Constant(I32, factor)) for total in sums]

    def _row_sums(self, rows: list[Value], start: list[Value], lanes: int) -> list[Value]:
        """Sums of rows by vectors of so many lanes; 0: the same in all."""
        nest, accumulation = self.nest, self.accumulation
        depth = nest.depth
        group = nest.loop(self.groups, lanes or 1)
        looped = nest.depth > depth
        phis = [nest.carried(value) for value in start] if looped else start
        b = nest.inner
        totals: list[Value] = []
        for row, before in zip(rows, phis, strict=True):
            here = _advance(b, row, _value(group), self.group_bytes)
            if lanes:
                values = accumulation.load_right(b, here, 0, lanes)
            else:
                values = accumulation.load_left(b, here, 0, _SUM_LANES[-1])
            totals.append(accumulation.add_up(b, before, values))
        if looped:
            nest.close(list(zip(phis, totals, strict=True)))
        return totals

    def _sum_over_k(self, rows: list[Value], strip: Value, start: list[Value]) -> list[Value]:
        """The accumulators after all of k."""
        nest, accumulation, shape = self.nest, self.accumulation, self.shape
        near = self.there is None or len(rows) <= _MANY_ROWS
        unroll = min(_UNROLL if near else _SHORT_UNROLL, self.groups)
        depth = nest.depth
        step = nest.loop(self.groups, unroll)
        looped = nest.depth > depth
        phis = [nest.carried(s) for s in start] if looped else []
        totals: list[Value] = list(phis) or list(start)
        b = nest.inner
        right = _further(b, strip, _value(step), self.right_step)
        here = [_advance(b, row, _value(step), self.group_bytes) for row in rows]
        for k in range(unroll):
            row_there = _further(b, right, _number(k), self.right_step)
            if self.there is not None:
                self._fetch_row(b, _further(b, right, _number(k + _ROWS_AHEAD), self.right_step))
            columns = [self._column(b, row_there, v * shape.lanes) for v in range(shape.vectors)]
            for row, row_at in enumerate(here):
                factor = accumulation.load_left(b, row_at, k, shape.lanes)
                for v, column in enumerate(columns):
                    at = row * shape.vectors + v
                    totals[at] = accumulation.multiply(b, totals[at], factor, column)
        if looped:
            nest.close(list(zip(phis, totals, strict=True)))
        return totals

    def _fetch_row(self, b: Builder, row: Value, columns: int | None = None) -> None:
        """Ask for a row of the right operand that is read where it lies: rows are too far apart for the
        processor to see a stream. Behind the last one often comes the tile of the next round."""
        assert self.there is not None
        columns = self.shape.columns if columns is None else columns
        for offset in range(0, columns * self.there.buffer_bytes, _CACHE_LINE):
            llvm.prefetch(b, _advance(b, row, _number(offset), 1), near=False)

    def _column(self, b: Builder, row: Value, column: int, on: Value | None = None) -> Value:
        """A vector of a row of groups of the right operand; with a mask, what is read where it lies is zero elsewhere."""
        accumulation, lanes = self.accumulation, self.shape.lanes
        there = self.there
        if there is None:
            return accumulation.load_right(b, row, column, lanes)
        where = b.gep(row, [_number(column)], source_etype=there.buffer)
        ty = llvm.vector(there.buffer, lanes if lanes > 1 else 0)
        if on is None:
            found = b.load(where, typ=ty, align=there.buffer_bytes)
        else:
            found = masked_load(b, where, ty, on, llvm.number(ty, 0), near=True)
        found = loaded(b, found, there)
        return widening(there, accumulation.panel)(b, found)


def _goes_along_rows(accumulation: AccumulationKernel, shape: Shape) -> bool:
    """Whether few rows are multiplied by long ones of a right operand that is read where it lies: where all of them fit into
    registers, or blocks of some of them are narrow, so that each would read a line of a row, and another row next: that costs
    where the right operand is not in the first cache."""
    unit = accumulation.panel.buffer_bytes
    narrow = shape.rows < shape.m <= _FEW_ROWS and shape.columns * unit <= _CACHE_LINE
    far = shape.n * shape.k * unit >= _FAR_BYTES
    return (
        (shape.m <= FEWEST_ROWS or (narrow and far))
        and shape.n >= 2 * shape.columns
        and shape.k % _ROWS_AT_ONCE == 0
        and accumulation.group == 1
        and not accumulation.row_factor
    )


class _AlongRows(_Kernel):
    """The product of a few rows: it waits for the right operand, of which some rows at once are read from
    one end to the other, as processors expect. The sums lie in the first cache meanwhile."""

    def emit(self) -> None:
        nest, shape, source = self.nest, self.shape, self.source
        assert isinstance(source, Entry)
        size, top = self.accumulation.accumulator.buffer_bytes, fixed(0)
        strip = nest.loop(shape.n, shape.columns)
        start = self._start(_number(shape.n * size), strip, top, shape.m, None)
        self._put(strip, start)
        nest.close_all()
        step = nest.loop(shape.k, _ROWS_AT_ONCE)
        b = nest.inner
        rows = [
            _advance(b, row, _value(step), self.group_bytes)
            for row in self._rows(source, top, shape.m)
        ]
        factors = [
            [self.accumulation.load_left(b, row, k, shape.lanes) for k in range(_ROWS_AT_ONCE)]
            for row in rows
        ]
        right = _further(b, source.right, _value(step), self.right_step)
        strip = nest.loop(shape.n, shape.columns)
        b = nest.inner
        assert self.there is not None
        corner = _advance(b, right, _value(strip), self.there.buffer_bytes)
        there = [_further(b, corner, _number(k), self.right_step) for k in range(_ROWS_AT_ONCE)]
        columns = [self._column(b, row, 0) for row in there]
        if shape.m > FEWEST_ROWS:
            for row in there:
                self._fetch_row(b, _further(b, row, _number(_ROWS_AT_ONCE), self.right_step))
        places = self._places(self.target, self.target_step, strip, top, shape.m)
        for place, of_row in zip(places, factors, strict=True):
            total: Value = b.load(place, typ=self.vector, align=size)
            for factor, column in zip(of_row, columns, strict=True):
                total = self.accumulation.multiply(b, total, factor, column)
            b.store(total, place, align=size)
        nest.close_all()

    def _put(self, strip: Index, values: Sequence[Value]) -> None:
        places = self._places(self.target, self.target_step, strip, fixed(0), self.shape.m)
        for place, value in zip(places, values, strict=True):
            self.nest.inner.store(value, place, align=self.accumulation.accumulator.buffer_bytes)


class _Part(_Kernel):
    """The kernel for some rows, columns and terms of a shape: first whole strips of columns, in blocks of whole height and a low one
    for what is left of the rows; then the last columns, by as many vectors as they take, in blocks that are the higher the fewer
    vectors there are. Rows beyond the last one are that one again."""

    rows: Value
    columns: Value
    most_lanes: int
    """How many accumulators a vector has at most."""

    def emit(self) -> None:
        b, shape = self.nest.inner, self.shape
        wide = b.and_(self.columns, _number(-shape.columns))
        with b.if_then(b.icmp_unsigned("!=", wide, _number(0))):
            self._wide_strips(b, wide)
        if shape.columns > 1:
            self._narrow_strips(b, wide)
        self.nest = LoopNest(b)

    def _wide_strips(self, b: Builder, wide: Value) -> None:
        """The columns of whole strips, all of them for some rows before those that follow."""
        shape, zero = self.shape, _number(0)

        def block(height: int) -> Callable[[Builder, Value], None]:
            def of_height(b: Builder, first: Value) -> None:
                self.nest = LoopNest(b)
                rows = [self._row(b, first, number) for number in range(height)]
                if isinstance(self.source, Entry):
                    self._fetch_following(b, self.source, first)
                terms = self._terms_of(rows)

                def strip(b: Builder, at: Value) -> None:
                    self._strip(b, rows, at, shape.vectors, terms)

                llvm.count(b, zero, wide, _number(shape.columns), strip)

            return of_height

        low = shape.rows // _LOW
        if not low:
            llvm.count(b, zero, self.rows, _number(shape.rows), block(shape.rows))
            return
        left = b.urem(self.rows, _number(shape.rows))
        few = b.icmp_unsigned("<=", left, _number(low))
        high = b.sub(self.rows, b.select(few, left, zero))
        llvm.count(b, zero, high, _number(shape.rows), block(shape.rows))
        llvm.count(b, high, self.rows, _number(low), block(low))

    def _terms_of(self, rows: Sequence[Value]) -> list[Value] | None:
        """What the accumulation kernel adds to each of some rows, if it adds anything."""
        return self._terms(lambda entry: self._starts(entry, rows), len(rows))

    def _fetch_following(self, b: Builder, entry: Entry, first: Value) -> None:
        """Ask for the rows of the left operand of the next block; behind the last one often come those of the next matrix."""
        lines = -(-self.groups * self.group_bytes // _CACHE_LINE)
        most = max(1, _MOST_FETCHES // lines)
        for number in range(self.shape.rows, self.shape.rows + min(self.shape.rows, most)):
            row = _further(b, entry.left, b.add(first, _number(number)), entry.left_step)
            for line in range(min(lines, _MOST_FETCHES)):
                llvm.prefetch(b, _advance(b, row, _number(line), _CACHE_LINE))

    def _narrow_strips(self, b: Builder, wide: Value) -> None:
        """The columns behind the last whole strip, in one go; wide strips have four vectors at most, so that code is not long."""
        shape = self.shape
        most = min(shape.vectors, _NARROW)
        last = self._last_columns(b)

        def strip(b: Builder, at: Value) -> None:
            left = b.sub(self.columns, at)
            if last is None:
                vectors_of(b, at, left)
                return
            few = b.icmp_unsigned("<=", left, _number(last_columns.MOST))
            with b.if_else(few) as (terms, columns):
                with terms:
                    last.emit(b, at, left)
                with columns:
                    vectors_of(b, at, left)

        def vectors_of(b: Builder, at: Value, left: Value) -> None:
            def of(vectors: int) -> None:
                height = _height_of(shape, vectors)

                def block(b: Builder, first: Value) -> None:
                    self.nest = LoopNest(b)
                    rows = [self._row(b, first, number) for number in range(height)]
                    self._strip(b, rows, at, vectors, self._terms_of(rows), whole=False)

                llvm.count(b, _number(0), self.rows, _number(height), block)

            def up_to(vectors: int) -> None:
                if vectors == 1:
                    of(1)
                    return
                more = b.icmp_unsigned(">", left, _number((vectors - 1) * shape.lanes))
                with b.if_else(more) as (all_of_them, fewer):
                    with all_of_them:
                        of(vectors)
                    with fewer:
                        up_to(vectors - 1)

            up_to(most)

        llvm.count(b, wide, self.columns, _number(most * shape.lanes), strip)

    def _last_columns(self, b: Builder) -> LastColumns | None:
        """How the last few columns are made along k, where they are."""
        lanes, accumulation, dims = self.most_lanes, self.accumulation, self.shape.dims
        rounds = 1 if isinstance(self.source, Entry) else MOST_ROUNDS
        if self.there is not None or not last_columns.fits(accumulation, rounds, dims, lanes):
            return None
        each = last_columns.column_bytes(accumulation, rounds, dims, lanes)
        with b.goto_entry_block():
            room = llvm.stack(b, ir.ArrayType(I8, last_columns.MOST * each), _CACHE_LINE)
        sums = Sums(self.sums, self.target, self.target_step, self.fresh, self.written)
        step = self.shape.columns * self.group_bytes
        return LastColumns(
            accumulation,
            dims,
            lanes,
            self.source,
            sums,
            self.rows,
            step,
            self._column_of,
            room,
            each,
        )

    def _column_of(self, b: Builder, entry: Entry, at: Value) -> Value:
        """Where a column begins in strips."""
        inside = b.and_(at, _number(self.shape.columns - 1))
        strip = _advance(b, entry.right, b.sub(at, inside), self.groups * self.group_bytes)
        return _advance(b, strip, inside, self.group_bytes)

    def _row(self, b: Builder, first: Value, number: int) -> Value:
        last = b.sub(self.rows, _number(1))
        return llvm.intrinsic(b, "umin", [b.add(first, _number(number)), last])

    def _starts(self, entry: Entry, rows: Sequence[Value]) -> list[Value]:
        """Where rows of the left operand begin."""
        b = self.nest.inner
        return [_further(b, entry.left, row, entry.left_step) for row in rows]

    def _strip(
        self,
        b: Builder,
        rows: Sequence[Value],
        at: Value,
        vectors: int,
        terms: list[Value] | None,
        *,
        whole: bool = True,
    ) -> None:
        """The products of some rows with so many vectors of columns; ``whole``: there are all of these columns."""
        self.nest = LoopNest(b)
        row_bytes = self.shape.n * self.accumulation.accumulator.buffer_bytes
        sums = self._at(self.sums, _number(row_bytes), rows, at, vectors)
        places = self._at(
            self.target, self.target_step, rows, at, vectors, self.written.buffer_bytes
        )
        start = self._begun(sums, terms)
        masks = [None] * vectors if whole else self._masks(b, at, vectors)

        def add(entry: Entry, before: list[Value]) -> list[Value]:
            return self._added(entry, rows, at, masks, before)

        if isinstance(self.source, Entry):
            totals = add(self.source, start)
        else:
            totals = each_round(self.nest, self.source, start, add)
        b = self.nest.inner
        for number, (place, total) in enumerate(zip(places, totals, strict=True)):
            self._write(b, total, place, masks[number % vectors])

    def _masks(self, b: Builder, at: Value, vectors: int) -> list[Value | None]:
        """Which columns of the vectors of a strip there are; None where all are. The target may end behind them."""
        lanes, masks = self.shape.lanes, list[Value | None]([None] * vectors)
        left = b.trunc(b.sub(self.columns, at), I32)
        steps = llvm.int_lanes(range((vectors - 1) * lanes, vectors * lanes), I32)
        masks[-1] = b.icmp_signed("<", steps, llvm.splat(b, left, lanes))
        return masks

    def _at(
        self,
        first: Value,
        step: Value,
        rows: Sequence[Value],
        at: Value,
        vectors: int,
        size: int = 0,
    ) -> list[Value]:
        """Where the vectors of a block of a matrix lie, row by row; the size is that of an element, if not of a sum."""
        b, size = self.nest.inner, size or self.accumulation.accumulator.buffer_bytes
        corner = _advance(b, first, at, size)
        return [
            _advance(b, _further(b, corner, row, step), _number(v * self.shape.lanes), size)
            for row in rows
            for v in range(vectors)
        ]

    def _begun(self, sums: list[Value], terms: list[Value] | None) -> list[Value]:
        """What the totals begin with: zero or the sums, and what the accumulation kernel adds."""
        size = self.accumulation.accumulator.buffer_bytes

        def read(b: Builder) -> list[Value]:
            return [b.load(place, typ=self.vector, align=size) for place in sums]

        return _begin(self.nest.inner, self.fresh, self.vector, read, terms)

    def _added(
        self,
        entry: Entry,
        rows: Sequence[Value],
        at: Value,
        masks: Sequence[Value | None],
        start: list[Value],
    ) -> list[Value]:
        """The accumulators after the terms of one entry, for a strip of as many vectors as there are masks."""
        accumulation, shape, b = self.accumulation, self.shape, self.nest.inner
        vectors = len(masks)
        if self.there is None:
            strip = self._column_of(b, entry, at)
        else:
            strip = _advance(b, entry.right, at, self.there.buffer_bytes)
        lefts = self._starts(entry, rows)
        above = b.add(entry.depth, _number(accumulation.group - 1))
        count = b.udiv(above, _number(accumulation.group))

        def add(group: Value, before: list[Value]) -> list[Value]:
            right = _further(b, strip, group, self.right_step)
            if self.there is not None:
                further = _further(b, right, _number(_ROWS_AHEAD), self.right_step)
                self._fetch_row(b, further, vectors * shape.lanes)
            columns = [
                self._column(b, right, v * shape.lanes, mask) for v, mask in enumerate(masks)
            ]
            totals = list(before)
            for row, left in enumerate(lefts):
                here = _advance(b, left, group, self.group_bytes)
                factor = accumulation.load_left(b, here, 0, shape.lanes)
                for v, column in enumerate(columns):
                    place = row * vectors + v
                    totals[place] = accumulation.multiply(b, totals[place], factor, column)
            return totals

        return llvm.count_with(b, count, start, add)


def _begin(
    b: Builder,
    fresh: Value,
    vector: Type,
    read: Callable[[Builder], list[Value]],
    terms: list[Value] | None,
) -> list[Value]:
    """What totals begin with: zero if ``fresh``, else what is read, and the term of each row."""
    before, add, begin = b.block, b.append_basic_block("add"), b.append_basic_block("begin")
    b.cbranch(fresh, begin, add)
    b.position_at_end(add)
    found = read(b)
    b.branch(begin)
    b.position_at_end(begin)
    start: list[Value] = []
    for value in found:
        phi = b.phi(vector)
        phi.add_incoming(llvm.number(vector, 0), before)
        phi.add_incoming(value, add)
        start.append(phi)
    if terms is None:
        return start
    vectors = len(start) // len(terms)
    spread = [llvm.splat(b, term, llvm.lanes_of(vector)) for term in terms]
    return [b.add(s, spread[i // vectors]) for i, s in enumerate(start)]


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
