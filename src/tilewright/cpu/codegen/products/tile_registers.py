"""The microkernel for processors with tile registers (AMX): of bf16, and of i8 of any signs.

A register holds 16 rows of 64 bytes. Operands are those of ``microkernel``: the left one in place, the right one in strips of
groups (pairs of bf16, four i8), in which 16 rows of 16 groups fill one register. Blocks of up to 32 x 32 results stay in four
registers while k runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I8, I32, I64, PTR, VOID, Element
from tilewright.cpu.codegen.ir.masked import masked_store
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.products import split_halves
from tilewright.cpu.codegen.products.accumulation import AccumulationKernel
from tilewright.cpu.codegen.products.factors import Entry, Table, each_round
from tilewright.cpu.codegen.products.tile_shapes import COLUMNS, ROW_BYTES, ROWS, WORD, depth_of

_HALF = ROW_BYTES // WORD
_REGISTERS = 8
#: Four registers of sums, then two of the left operand and two of the right one.
_LEFT, _RIGHT = 4, 6


@dataclass(frozen=True, slots=True)
class Sums:
    """What a kernel adds its products to, unless ``fresh``, and where it writes the sums, as elements of a type."""

    pointer: Value
    target: Value
    target_step: Value
    fresh: Value
    element: Element


def emit(
    b: Builder,
    accumulation: AccumulationKernel,
    dims: tuple[int, int, int],
    source: Table | Entry,
    sums: Sums,
    limits: tuple[Value, Value] | None,
) -> None:
    """The body of a kernel function (``microkernel.kernel_function``); ``limits``: how many rows and columns are
    computed."""
    kernel = _Kernel(accumulation, dims, source, sums, limits, _room(b))
    _call(b, "ldtilecfg", [_configuration(b.module, accumulation, kernel.depth)])
    m, n, _ = dims
    rows, columns = (_number(m), _number(n)) if limits is None else limits
    parts = 1 if m % (2 * ROWS) else 2
    halves = min(n, COLUMNS) // _HALF

    def strips(b: Builder, row: Value, parts: int) -> None:
        def strip(b: Builder, column: Value) -> None:
            left = b.sub(columns, column)
            _either(
                b,
                left,
                _HALF,
                halves,
                limits is not None,
                lambda h: kernel.block(b, row, column, parts, h),
            )

        llvm.count(b, _number(0), columns, _number(halves * _HALF), strip)

    def block(b: Builder, row: Value) -> None:
        left = b.sub(rows, row)
        _either(b, left, ROWS, parts, limits is not None, lambda p: strips(b, row, p))

    llvm.count(b, _number(0), rows, _number(parts * ROWS), block)
    _call(b, "tilerelease", [])


def _either(
    b: Builder, left: Value, each: int, most: int, some: bool, make: Callable[[int], None]
) -> None:
    """Code for as many registers as there are; with ``some``, for one where no more are needed."""
    if not some or most == 1:
        make(most)
        return
    with b.if_else(b.icmp_unsigned(">", left, _number(each))) as (more, one):
        with more:
            make(most)
        with one:
            make(1)


@dataclass(frozen=True, slots=True)
class _Kernel:
    """One product under construction."""

    accumulation: AccumulationKernel
    dims: tuple[int, int, int]
    source: Table | Entry
    sums: Sums
    limits: tuple[Value, Value] | None
    room: Value
    """Room for the sums of a block, where they are not written from registers."""

    @property
    def _is_split(self) -> bool:
        """Whether factors are sums of two, so that the products of infinite ones are no numbers."""
        return self.accumulation.turn_left is not None

    @property
    def depth(self) -> int:
        """How many terms one instruction adds."""
        return depth_of(self.accumulation.panel, self.dims[2])

    def block(self, b: Builder, row: Value, column: Value, parts: int, halves: int) -> None:
        """The results of so many registers of rows and of columns from a place on."""
        row_bytes, behind = _number(self.dims[1] * WORD), b.mul(column, _number(WORD))
        here = _moved(b, self.sums.pointer, b.add(b.mul(row, row_bytes), behind))
        _begin(b, here, row_bytes, parts, halves, self.sums.fresh)
        self._fetch(b, row, column, parts, halves)

        def add(entry: Entry, nothing: list[Value]) -> list[Value]:
            self._add_products(b, entry, row, column, parts, halves)
            return nothing

        if isinstance(self.source, Entry):
            add(self.source, [])
        else:
            each_round(LoopNest(b), self.source, [], add)
        self._write(b, row, column, parts, halves)

    def _fetch(self, b: Builder, row: Value, column: Value, parts: int, halves: int) -> None:
        """Ask for the lines that are written to, so that they are on their way while k runs."""
        size, step = self.sums.element.buffer_bytes, self.sums.target_step
        there = _moved(b, self.sums.target, b.add(b.mul(row, step), b.mul(column, _number(size))))
        for _ in range(parts * ROWS):
            for behind in range(0, halves * _HALF * size, ROW_BYTES):
                llvm.prefetch(b, _moved(b, there, _number(behind)), write=True)
            there = _moved(b, there, step)

    def _write(self, b: Builder, row: Value, column: Value, parts: int, halves: int) -> None:
        """Write the sums of a block to the target, of which there may be less than the block."""
        if self.limits is None:
            self._write_all(b, row, column, parts, halves)
            return
        rows, columns = (
            b.sub(most, at) for most, at in zip(self.limits, (row, column), strict=True)
        )
        inside = b.and_(
            b.icmp_unsigned(">=", rows, _number(parts * ROWS)),
            b.icmp_unsigned(">=", columns, _number(halves * _HALF)),
        )
        with b.if_else(inside) as (whole, some):
            with whole:
                self._write_all(b, row, column, parts, halves)
            with some:
                rows = llvm.intrinsic(b, "umin", [rows, _number(parts * ROWS)])
                self._write_rows(b, row, column, (parts, halves), rows, columns)

    def _write_all(self, b: Builder, row: Value, column: Value, parts: int, halves: int) -> None:
        step, element = self.sums.target_step, self.sums.element
        if element.name != self.accumulation.accumulator.name or self._is_split:
            self._write_rows(b, row, column, (parts, halves), _number(parts * ROWS), None)
            return
        behind = b.mul(column, _number(WORD))
        there = _moved(b, self.sums.target, b.add(b.mul(row, step), behind))
        for number, place in _places(b, there, step, parts, halves):
            _call(b, "tilestored64", [number, place, step])

    def _write_rows(
        self,
        b: Builder,
        row: Value,
        column: Value,
        registers: tuple[int, int],
        rows: Value,
        columns: Value | None,
    ) -> None:
        """Write so many rows and columns (None: all) through memory that is in the first cache, rounded to the element of the
        target."""
        parts, halves = registers
        step, row_bytes = self.sums.target_step, halves * ROW_BYTES
        for number, place in _places(b, self.room, _number(row_bytes), parts, halves):
            _call(b, "tilestored64", [number, place, _number(row_bytes)])
        if self._is_split:
            self._mend(b, row, column, registers)
        element, accumulator = self.sums.element, self.accumulation.accumulator
        size, vector = element.buffer_bytes, llvm.vector(accumulator.register, _HALF)
        first = _moved(b, self.sums.target, b.add(b.mul(row, step), b.mul(column, _number(size))))

        def write(b: Builder, number: Value) -> None:
            here = _moved(b, self.room, b.mul(number, _number(row_bytes)))
            there = _moved(b, first, b.mul(number, step))
            for half in range(halves):
                found = b.load(_moved(b, here, _number(half * ROW_BYTES)), typ=vector, align=WORD)
                if element.name != accumulator.name:
                    found = self.accumulation.rounded(b, found, element)
                place = _moved(b, there, _number(half * _HALF * size))
                if columns is None:
                    b.store(found, place, align=size)
                    continue
                left = b.trunc(b.sub(columns, _number(half * _HALF)), I32)
                on = b.icmp_signed(
                    "<", llvm.int_lanes(range(_HALF), I32), llvm.splat(b, left, _HALF)
                )
                masked_store(b, found, place, on, near=True)

        llvm.count(b, _number(0), rows, _number(1), write)

    def _add_products(
        self, b: Builder, entry: Entry, row: Value, column: Value, parts: int, halves: int
    ) -> None:
        """Add the products of some rows and a strip of columns to the registers of sums."""
        _, n, k = self.dims
        size, columns = self.accumulation.panel.buffer_bytes, min(n, COLUMNS)
        first = _moved(b, entry.left, b.mul(row, entry.left_step))
        # Where only some of the columns are computed, a strip begins with its first register.
        panel = _moved(b, entry.right, b.mul(column, _number(size * k)))

        turned = _number(size * k)

        def step(b: Builder, at: Value) -> None:
            behind = b.mul(at, _number(size))
            along, down = (
                _moved(b, first, behind),
                _moved(b, panel, b.mul(behind, _number(columns))),
            )
            if self._is_split:
                self._add_turned_step(b, along, down, entry.left_step, (parts, halves), turned)
            else:
                self._add_step(b, along, down, entry.left_step, (parts, halves))

        terms = _number(k) if self.limits is None else entry.depth
        llvm.count(b, _number(0), terms, _number(self.depth), step)

    def _add_step(
        self, b: Builder, left: Value, right: Value, left_step: Value, registers: tuple[int, int]
    ) -> None:
        """Add what one instruction can of each of so many registers of rows and of columns."""
        parts, halves = registers
        for half in range(halves):
            self._load_right(b, right, half)
            for part in range(parts):
                if not half:
                    rows = _moved(b, left, b.mul(_number(part * ROWS), left_step))
                    _call(b, "tileloadd64", [_register(_LEFT + part), rows, left_step])
                self._multiply(b, part, half, _LEFT + part)

    def _add_turned_step(
        self,
        b: Builder,
        left: Value,
        right: Value,
        left_step: Value,
        registers: tuple[int, int],
        turned: Value,
    ) -> None:
        """The same where each row of the left operand has a second form, so far behind it."""
        parts, halves = registers
        for half in range(halves):
            self._load_right(b, right, half)
        # An instruction waits for the one before that adds to the same register: all others come in between.
        for form in (left, _moved(b, left, turned)):
            for part in range(parts):
                rows = _moved(b, form, b.mul(_number(part * ROWS), left_step))
                _call(b, "tileloadd64", [_register(_LEFT + part), rows, left_step])
                for half in range(halves):
                    self._multiply(b, part, half, _LEFT + part)

    def _load_right(self, b: Builder, right: Value, half: int) -> None:
        row_bytes = _number(min(self.dims[1], COLUMNS) * WORD)
        groups = _moved(b, right, _number(half * ROW_BYTES))
        _call(b, "tileloaddt164", [_register(_RIGHT + half), groups, row_bytes])

    def _multiply(self, b: Builder, part: int, half: int, left: int) -> None:
        factors = [_register(left), _register(_RIGHT + half)]
        _call(b, self.accumulation.tile_product, [_register(part * 2 + half), *factors])

    def _mend(self, b: Builder, row: Value, column: Value, registers: tuple[int, int]) -> None:
        """Where sums in the room are no numbers, make those of the block again from factors that are no sums."""
        parts, halves = registers
        floats = llvm.vector(self.accumulation.accumulator.register, _HALF)
        none = llvm.number(ir.VectorType(I1, _HALF), 0)

        def look(number: Value, found: list[Value]) -> list[Value]:
            place = _moved(b, self.room, b.mul(number, _number(ROW_BYTES)))
            value = b.load(place, typ=floats, align=WORD)
            return [b.or_(found[0], b.fcmp_unordered("uno", value, value))]

        count = _number(parts * ROWS * halves)
        (found,) = llvm.count_with(b, count, [none], look)
        mask = b.bitcast(found, ir.IntType(_HALF))
        with b.if_then(b.icmp_unsigned("!=", mask, ir.Constant(mask.type, 0)), likely=False):
            rows, one = _number(parts * ROWS), _number(1)

            def again(b: Builder, number: Value) -> None:
                sums = self._whole_sums(b, b.add(row, number), column, halves)
                here = _moved(b, self.room, b.mul(number, _number(halves * ROW_BYTES)))
                for half, total in enumerate(sums):
                    b.store(total, _moved(b, here, _number(half * ROW_BYTES)), align=WORD)

            llvm.count(b, _number(0), rows, one, again)

    def _whole_sums(self, b: Builder, row: Value, column: Value, halves: int) -> list[Value]:
        """The sums of a row in so many vectors of columns, by products of whole factors."""
        (_, n, k), columns = self.dims, min(self.dims[1], COLUMNS)
        floats = llvm.vector(self.accumulation.accumulator.register, _HALF)
        words = llvm.vector(I32, _HALF)
        before = b.add(b.mul(row, _number(n * WORD)), b.mul(column, _number(WORD)))
        here = _moved(b, self.sums.pointer, before)
        start: list[Value] = []
        for half in range(halves):
            found = b.load(_moved(b, here, _number(half * ROW_BYTES)), typ=floats, align=WORD)
            start.append(b.select(self.sums.fresh, llvm.number(floats, 0), found))

        def add(entry: Entry, sums: list[Value]) -> list[Value]:
            first = _moved(b, entry.left, b.mul(row, entry.left_step))
            panel = _moved(b, entry.right, b.mul(column, _number(WORD * k)))

            def term(number: Value, totals: list[Value]) -> list[Value]:
                word = b.load(_moved(b, first, b.mul(number, _number(WORD))), typ=I32, align=WORD)
                factor = llvm.splat(b, split_halves.whole(b, word), _HALF)
                groups = _moved(b, panel, b.mul(number, _number(columns * WORD)))
                given = list(totals)
                for half, total in enumerate(totals):
                    place = _moved(b, groups, _number(half * ROW_BYTES))
                    other = split_halves.whole(b, b.load(place, typ=words, align=WORD))
                    given[half] = llvm.intrinsic(b, "fma", [factor, other, total])
                return given

            terms = _number(k) if self.limits is None else entry.depth
            return llvm.count_with(b, terms, sums, term)

        if isinstance(self.source, Entry):
            return add(self.source, start)
        return each_round(LoopNest(b), self.source, start, add)


def _begin(b: Builder, sums: Value, step: Value, parts: int, halves: int, fresh: Value) -> None:
    """Set the sums to zero, or load them."""
    with b.if_else(fresh) as (zero, add):
        with zero:
            for number, _ in _places(b, sums, step, parts, halves):
                _call(b, "tilezero", [number])
        with add:
            for number, place in _places(b, sums, step, parts, halves):
                _call(b, "tileloadd64", [number, place, step])


def _places(
    b: Builder, corner: Value, step: Value, parts: int, halves: int
) -> list[tuple[Value, Value]]:
    """The registers of sums, and where they lie in a matrix."""
    found: list[tuple[Value, Value]] = []
    for part in range(parts):
        rows = _moved(b, corner, b.mul(_number(part * ROWS), step))
        for half in range(halves):
            place = _moved(b, rows, _number(half * ROW_BYTES))
            found.append((_register(part * 2 + half), place))
    return found


def _room(b: Builder) -> Value:
    """Memory for a block of sums."""
    return llvm.stack(b, ir.ArrayType(I64, 4 * ROWS * ROW_BYTES // 8))


def _configuration(module: ir.Module, accumulation: AccumulationKernel, depth: int) -> Value:
    """Registers of full size, but for the terms of factors, of which there may be fewer."""
    row_bytes = depth * accumulation.panel.buffer_bytes
    name = f"tilewright.tile.registers.{row_bytes}"
    found = module.globals.get(name)
    if found is None:
        data = bytearray(64)
        data[0] = 1
        for number in range(_REGISTERS):
            left, right = _LEFT <= number < _RIGHT, number >= _RIGHT
            data[16 + 2 * number] = row_bytes if left else ROW_BYTES
            data[48 + number] = row_bytes // WORD if right else ROWS
        array = ir.Constant(ir.ArrayType(I8, len(data)), data)
        found = ir.GlobalVariable(module, array.type, name)
        found.linkage, found.global_constant = "internal", True
        found.align = 64  # pyright: ignore[reportAttributeAccessIssue]
        found.initializer = array  # pyright: ignore[reportAttributeAccessIssue]
    return llvm.opaque(found)


def _call(b: Builder, name: str, arguments: list[Value]) -> None:
    types = [I8 if a.type == I8 else I64 if a.type == I64 else PTR for a in arguments]
    function = llvm.declare(b.module, f"llvm.x86.{name}", VOID, types)
    b.call(function, arguments)


def _register(number: int) -> Value:
    return ir.Constant(I8, number)


def _number(value: int) -> Value:
    return ir.Constant(I64, value)


def _moved(b: Builder, pointer: Value, distance: Value) -> Value:
    return b.gep(pointer, [distance], source_etype=I8)
