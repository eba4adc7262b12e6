"""Matrix products: brings operands into the form that a register-blocked microkernel reads.

An *accumulation kernel* says how numbers are multiplied: in which type, and how many neighbours along k one instruction
takes (``accumulation``). The right operand is packed into strips of columns; the left one is read in place if its rows
are dense and of the kernel's type, and copied otherwise (``microkernel``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from llvmlite import ir

from tilewright.cpu.codegen.elementwise.formats import narrow, to_double
from tilewright.cpu.codegen.elementwise.operations import is_poison
from tilewright.cpu.codegen.emitter.function import FunctionEmitter, vector_axis
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import F64, I1, I8, I32, I64, Element, element_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane, fixed, lanes_in
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.over_shapes import loops
from tilewright.cpu.codegen.loops.row_ends import Into
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Emit,
    Mapped,
    Strided,
    Tile,
    Uniform,
    by_slot,
    is_run,
    only_in_step,
    reads_any,
    store_at,
)
from tilewright.cpu.codegen.products import last_columns, tile_shapes
from tilewright.cpu.codegen.products.accumulation import (
    AccumulationKernel,
    accumulation_kernel_of,
    widening,
)
from tilewright.cpu.codegen.products.deferred import put_off, room_for
from tilewright.cpu.codegen.products.direct_operands import There, is_alone, matrix_there
from tilewright.cpu.codegen.products.extents import Ends, Parts, is_whole, numbers, up_to, work_of
from tilewright.cpu.codegen.products.factors import MOST_ROUNDS, Entry
from tilewright.cpu.codegen.products.microkernel import Shape, kernel_function, shape_of
from tilewright.cpu.codegen.products.packed_operands import is_shared, panel_of
from tilewright.cpu.codegen.products.running_sums import Target, destinations, is_fresh, target_of
from tilewright.cpu.codegen.products.state import Extents, Side
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.numerics.strides import row_major

#: Up to how many rows the right operand is read where it lies, instead of being packed.
_FEW_ROWS = 16
#: From so many rows on it is packed where several blocks read it.
_PACKED_FROM = 4
#: The same where no other tile block reads it; and how many of them the kernel for that makes at once.
_SOME_ROWS, _ROWS_IN_PLACE = 64, 6
#: So many products of a batch are made one by one.
_FEW_BATCHES = 2


@lowers("dot")
def dot(f: FunctionEmitter, op: DotOp) -> None:
    """A product, by the accumulation kernel for the target and the element types (docs/cpu.md); scale factors are applied first."""
    dims = T.dims_of(op.result.type)
    element = element_of(op.result.type)
    a, b, c = (f.tile(value) for value in (op.a, op.b, op.c))
    accumulation = accumulation_kernel_of(f.unit.target, op)
    if op.sfa is not None and op.sfb is not None:
        a, b = scaled(a, f.tile(op.sfa), -1), scaled(b, f.tile(op.sfb), -2)
    accumulator = accumulate_into(f, op, (a, b), c, accumulation)
    fresh = ir.Constant(I1, 1) if is_zero(c) else is_fresh(f, op)
    if not is_zero(c):
        convert = Elementwise(
            accumulation.accumulator, dims, (c,), widening(c.element, accumulation.accumulator)
        )
        f.fill([(accumulator, c if c.element == accumulation.accumulator else convert)])
    if (sum_ := f.sums.get(op)) is not None and sum_.loop is None:
        destinations(f, {op: sum_})
    _products(f, op, accumulation, (a, b), accumulator, fresh)
    if element == accumulation.accumulator:
        f.values[op.result] = accumulator
        return
    back = Elementwise(
        element, dims, (accumulator,), lambda b, x: accumulation.rounded(b, x, element)
    )
    # Where the product has written to its array, nothing is left to round.
    written = op in f.destinations
    f.values[op.result] = back if written else f.keep(back, f.plan.last_use(op.result))


def accumulate_into(
    f: FunctionEmitter,
    op: DotOp,
    factors: tuple[Tile, Tile],
    c: Tile,
    accumulation: AccumulationKernel,
) -> Strided:
    """The buffer of the accumulators: that of a tile that a loop hands on, if nothing else reads it, else a new one."""
    result = op.result
    if element_of(result.type) != accumulation.accumulator:
        last = f.plan.last_use(result) if op in f.sums else f.now
        return f.buffer(accumulation.accumulator, c.dims, last)
    target = f.targets.get(result)
    if isinstance(target, Strided):
        here = by_slot([target])
        if only_in_step(c, here) and not any(reads_any(tile, here) for tile in factors):
            return target
    return f.buffer(accumulation.accumulator, c.dims, f.plan.last_use(result))


def is_zero(tile: Tile) -> bool:
    """Whether a tile is known to be +0 everywhere."""
    if is_poison(tile):
        return True
    if not isinstance(tile, Uniform) or not isinstance(tile.value, ir.Constant):
        return False
    return tile.value.get_reference() in ("0x0000000000000000", "0xH0000", "0")


def narrowing(element: Element) -> Emit:
    """What rounds an accumulator to an element."""
    return lambda b, x: narrow(b, x, element)


def scaled(tile: Tile, scale: Tile, axis: int) -> Tile:
    """The tile in f64, times the factor of each block along an axis, which counts from the end."""
    extent = tile.dims[axis] // scale.dims[axis]
    place = len(tile.dims) + axis

    def block_of(nest: LoopNest, coords: Coords) -> Coords | None:
        if not coords[place].splits_bits:
            return None
        found = list(coords)
        found[place] = nest.high_bits(coords[place], extent)
        return tuple(found)

    spread = Mapped(scale.element, tile.dims, scale, block_of)

    def product(b: Builder, x: Value, y: Value) -> Value:
        return b.fmul(to_double(b, x, tile.element), to_double(b, y, scale.element))

    return Elementwise(F64, tile.dims, (tile, spread), product)


def _products(
    f: FunctionEmitter,
    op: DotOp,
    accumulation: AccumulationKernel,
    factors: tuple[Tile, Tile],
    accumulator: Strided,
    fresh: Value,
) -> None:
    """Add the products of all batches to the accumulator; many of them in a loop, so that code does not grow
    with their number."""
    count = prod(accumulator.dims[:-2])
    if count <= _FEW_BATCHES:
        for batch in range(count):
            _product(f, op, accumulation, factors, accumulator, batch, fresh)
        return
    f.flush()
    zero, end, one = (ir.Constant(I64, number) for number in (0, count, 1))

    def body(_: Builder, batch: Value) -> None:
        _product(f, op, accumulation, factors, accumulator, batch, fresh)

    llvm.count(f.builder, zero, end, one, body)


def _product(
    f: FunctionEmitter,
    op: DotOp,
    accumulation: AccumulationKernel,
    factors: tuple[Tile, Tile],
    accumulator: Strided,
    batch: Value | int,
    fresh: Value,
) -> None:
    """Add the product of one batch to the accumulator."""
    a, b = factors
    (m, k), n = a.dims[-2:], b.dims[-1]
    shape = shape_of(f.unit.target, accumulation, m, n, k)
    row_bytes = n * accumulation.accumulator.buffer_bytes
    left_matrix, right = _of_batch(a, batch), _of_batch(b, batch)
    work = Work(f, accumulation, shape, work_of(f, op, accumulation, left_matrix, right))
    if batch == 0 or not isinstance(batch, int):
        _tell(work, op)
    if op in f.gathered:
        _put_off(work, op, left_matrix, right, accumulator)
        return
    offset = _times(f.builder, batch, m * row_bytes)
    source = f.builder.gep(accumulator.pointer, [offset], source_etype=I8)
    there = None if shape.along_k else _in_place(work, op, right)
    few = m <= _FEW_ROWS
    target = Target(source, ir.Constant(I64, row_bytes))
    if len(a.dims) == 2:
        whole = None
        if few and there is not None:  # All rows and columns are written.
            whole = is_whole(f.builder, replace(work.extents, depth=None), shape.dims)
        target = target_of(f, op, accumulator, row_bytes, whole)
    rest = Results(source, target, fresh)
    padded = few and there is not None
    left = left_rows(work.without_extents if padded else work, op, left_matrix)

    def packed() -> None:
        panel = right_panel(work, op, right)
        whole = is_whole(f.builder, work.extents, shape.dims)
        _multiply(work, [left.pointer, left.step, panel], rest, whole)

    if there is None:
        packed()
        return
    f.flush()
    _read_there(work, op, right, there, [left.pointer, left.step], rest, packed)


def _read_there(
    work: Work,
    op: DotOp,
    right: Tile,
    there: There,
    left: list[Value],
    rest: Results,
    packed: Callable[[], None],
) -> None:
    """Multiply by a right operand where it lies, all of it or what there is of it; ``packed`` does it in another way where
    that is not possible."""
    f, accumulation, shape = work.f, work.accumulation, work.shape
    few = shape.m <= _FEW_ROWS
    # With more rows LLVM loads elements long before their turn, to have addresses out of its registers.
    low = shape if few else replace(shape, rows=min(shape.rows, _ROWS_IN_PLACE))
    factors = [*left, there.pointer, there.step]

    def whole() -> None:
        rest.call(
            f, lambda to: kernel_function(f.unit, accumulation, low, there.element, to=to), factors
        )

    if there.inside is None:
        whole()
        return
    with f.builder.if_else(there.inside) as (inside, edge):
        with inside:
            whole()
        with edge:
            enough = None if few else _has_enough(work, op, right)
            if enough is None:
                packed()
                return
            with f.builder.if_else(enough) as (lies, others):
                with lies:
                    rest.call(
                        f,
                        lambda to: kernel_function(
                            f.unit, accumulation, low, there.element, part=True, to=to
                        ),
                        factors,
                        numbers(work.extents, shape.dims),
                    )
                with others:
                    packed()


def _in_place(work: Work, op: DotOp, right: Tile) -> There | None:
    """Where the right operand lies, if it is better read there than packed: for few rows, and for more of them if no
    other block reads it, rows are near one another, and all of the product is computed."""
    f, accumulation, shape = work.f, work.accumulation, work.shape
    if accumulation.group > 1 or accumulation.convert_right is not None:
        return None
    if shape.m <= _FEW_ROWS:
        there = matrix_there(f, right)
        if there is None or shape.m < _PACKED_FROM or (op, Side.RIGHT) not in f.packed_panels:
            return there
        f.unit.remarks.add(
            "product", "the right operand is packed where several blocks read it", op
        )
        conditions = [is_alone(f, op), *([] if there.inside is None else [there.inside])]
        return replace(there, inside=llvm.all_of(f.builder, conditions))
    moving, alike = f.unit.right_axes.get(op), right.element.name == accumulation.panel.name
    if shape.m > _SOME_ROWS or not alike or not moving:
        return None
    there = matrix_there(f, right)
    if there is None:
        return None
    f.unit.remarks.add(
        "product", "the right operand is read in place where no other block reads it", op
    )
    b = f.builder
    whole = is_whole(b, work.extents, shape.dims)
    conditions = [each for each in (there.inside, whole) if each is not None]
    return replace(there, inside=llvm.all_of(b, [*_is_near(work, op, there), *conditions]))


def _is_near(work: Work, op: DotOp, there: There) -> list[Value]:
    """Conditions under which no other block reads a right operand, and its rows are near one another."""
    near = ir.Constant(I64, 2 * work.shape.n * there.element.buffer_bytes)
    return [work.f.builder.icmp_unsigned("<=", there.step, near), is_alone(work.f, op)]


def _has_enough(work: Work, op: DotOp, right: Tile) -> Value | None:
    """Whether a right operand that ends inside its tile is better read where it lies, since it has all rows and columns
    that are to be multiplied; None where that is not known."""
    ends, b, there = work.parts.right, work.f.builder, matrix_there(work.f, right)
    if ends is None or not ends.dense or there is None:
        return None
    found = _is_near(work, op, there)
    if ends.others is not None:
        found.append(ends.others)
    _, columns, depth = numbers(work.extents, work.shape.dims)
    for limit, needed in ((ends.rows, depth), (ends.columns, columns)):
        if limit is not None:
            found.append(b.icmp_unsigned(">=", limit, needed))
    return llvm.all_of(b, found)


def _tell(work: Work, op: DotOp) -> None:
    """What is decided on a product, as a remark."""
    shape, extents = work.shape, work.extents
    kind = "registers with two axes" if shape.two_axes else "vectors"
    if shape.along_k:
        kind = "vectors of terms"
    text = f"multiplied as {work.accumulation.name} by blocks of {shape.rows} x {shape.columns} in {kind}"
    left_out = [
        name
        for name, known in (
            ("rows", extents.rows),
            ("columns", extents.columns),
            ("terms of zeros", extents.depth),
        )
        if known is not None
    ]
    if left_out:
        text += f"; behind the ends of arrays no {', '.join(left_out)} are computed"
    if extents.columns is not None and _adds_last_columns_up(work, op):
        text += f"; up to {last_columns.MOST} columns behind whole strips are added up along k"
    if (place := work.f.destinations.get(op)) is not None:
        text += "; results are written to their array at once"
        if place.element.name != work.accumulation.accumulator.name:
            text += f", rounded to {place.element.name}"
    work.f.unit.remarks.add("product", text, op)


def _adds_last_columns_up(work: Work, op: DotOp) -> bool:
    """Whether the lanes of vectors are terms for the last few columns of a product that ends inside its tile."""
    accumulation, shape = work.accumulation, work.shape
    if shape.along_k or shape.two_axes or shape.columns == 1:
        return False
    rounds = MOST_ROUNDS if op in work.f.gathered else 1
    lanes = work.f.unit.target.vector_bits // accumulation.accumulator_bits
    return last_columns.fits(accumulation, rounds, shape.dims, lanes)


def _multiply(
    work: Work,
    factors: list[Value],
    rest: Results,
    whole: Value | None,
    *,
    rounds: bool = False,
) -> None:
    """Call the kernel; where not all of the product is to be computed, that which is told how much is."""
    f, accumulation, shape = work.f, work.accumulation, work.shape
    f.flush()

    def kernel(part: bool) -> Callable[[Element | None], ir.Function]:
        return lambda to: kernel_function(
            f.unit, accumulation, shape, rounds=rounds, part=part, to=to
        )

    if whole is None:
        rest.call(f, kernel(False), factors)
        return
    rows, columns, depth = numbers(work.extents, shape.dims)
    with f.builder.if_else(whole) as (everything, some):
        with everything:
            rest.call(f, kernel(False), factors)
        with some:
            rest.call(f, kernel(True), factors, [rows, columns, *([] if rounds else [depth])])


def _put_off(work: Work, op: DotOp, left: Tile, right: Tile, accumulator: Strided) -> None:
    """Add the product of this round to the accumulator, now or in a later round."""
    f, accumulation, shape = work.f, work.accumulation, work.shape
    deferred, gathered = f.deferred[op], f.gathered[op]
    f.flush()
    copy = room_for(f, gathered.left, gathered, deferred.left_bytes)
    rows = left_rows(work, op, left, copy)
    now: Value = ir.Constant(I1, 0)
    if (op, Side.LEFT) in f.packed_panels:
        now = is_shared(f, (op, Side.LEFT))
    if gathered.right is not None:
        panel = room_for(f, gathered.right, gathered, deferred.right_bytes)
        _pack(work, right, panel)
    elif (kept := packed_panel(work, op, right)) is not None:
        panel, now = kept, f.builder.or_(now, is_shared(f, (op, Side.RIGHT)))
    else:
        panel, now = pack(work, right), ir.Constant(I1, 1)
    b, all_terms = f.builder, ir.Constant(I64, shape.k)
    depth, cut = work.extents.depth, None
    if depth is not None:
        cut = b.icmp_unsigned("<", depth, all_terms)

    def multiply(table: Value, count: Value, first: Value, cut: Value | None) -> None:
        running = f.sums.get(op)
        fresh = first if running is not None and running.fresh else ir.Constant(I1, 0)
        row_bytes = shape.n * accumulation.accumulator.buffer_bytes
        target = target_of(f, op, accumulator, row_bytes)
        rest = Results(accumulator.pointer, target, fresh)
        deep = [] if cut is None else [b.not_(cut)]
        inside = is_whole(b, replace(work.extents, depth=None), shape.dims)
        whole = llvm.all_of(b, [*([] if inside is None else [inside]), *deep])
        _multiply(work, [table, count], rest, whole, rounds=True)

    entry = Entry(rows.pointer, rows.step, panel, all_terms if depth is None else depth)
    put_off(f, op, entry, cut, now, multiply)


def _times(b: Builder, batch: Value | int, size: int) -> Value:
    """What lies before a batch, where each has that size."""
    size_value = ir.Constant(I64, size)
    return ir.Constant(I64, batch * size) if isinstance(batch, int) else b.mul(batch, size_value)


def _of_batch(tile: Tile, batch: Value | int) -> Tile:
    """One matrix of a batch; a matrix is its own."""
    if len(tile.dims) == 2:
        return tile
    index = fixed(batch) if isinstance(batch, int) else Index(Lane(batch), None, 1)
    return Mapped(tile.element, tile.dims[1:], tile, lambda nest, coords: (index, *coords))


@dataclass(frozen=True, slots=True)
class Results:
    """What a product adds its sums to unless ``fresh``, and where it writes them."""

    sums: Value
    target: Target
    fresh: Value

    def call(
        self,
        f: FunctionEmitter,
        kernel: Callable[[Element | None], ir.Function],
        factors: Sequence[Value],
        numbers: Sequence[Value] = (),
    ) -> None:
        """Call a kernel, given by what it rounds to, with factors in front and numbers behind."""
        b, target = f.builder, self.target

        def to(element: Element | None, pointer: Value, step: Value) -> None:
            b.call(kernel(element), [*factors, self.sums, pointer, step, self.fresh, *numbers])

        if (place := target.rounded) is None or target.there is None:
            to(None, target.pointer, target.step)
            return
        with b.if_else(target.there) as (there, here):
            with there:
                to(place.element, place.pointer, place.step)
            with here:
                to(None, target.pointer, target.step)


@dataclass(frozen=True, slots=True)
class Rows:
    """A matrix whose rows are dense: the address of the first one, and the bytes from row to row."""

    pointer: Value
    step: Value


@dataclass(frozen=True, slots=True)
class Work:
    """A product that code is made for: how it is multiplied, and how much of it."""

    f: FunctionEmitter
    accumulation: AccumulationKernel
    shape: Shape
    parts: Parts = field(default_factory=Parts)

    @property
    def extents(self) -> Extents:
        """How much of the product is to be computed."""
        return self.parts.extents

    @property
    def without_extents(self) -> Work:
        """The same with all rows, columns and terms."""
        return replace(self, parts=Parts())

    @property
    def unit(self) -> tuple[int, int]:
        """Of how many rows and terms the kernel reads whole multiples of the left operand."""
        if self.shape.two_axes:
            return tile_shapes.ROWS, tile_shapes.depth_of(self.accumulation.panel, self.shape.k)
        if self.shape.along_k:
            return 1, 1
        return 1, self.accumulation.group

    @property
    def left_limits(self) -> tuple[Value | None, Value | None]:
        """How many rows and columns of the left operand the kernel reads."""
        (rows, terms), b, shape = self.unit, self.f.builder, self.shape
        extents = self.extents
        return up_to(b, extents.rows, rows, shape.m), up_to(b, extents.depth, terms, shape.k)

    @property
    def right_limits(self) -> tuple[Value | None, Value | None]:
        """How many rows of groups and columns of the right operand the kernel reads."""
        b, shape, extents = self.f.builder, self.shape, self.extents
        if shape.along_k:
            return extents.depth, extents.columns
        terms = up_to(b, extents.depth, self.unit[1], shape.k)
        groups = None
        if terms is not None:
            groups = b.udiv(terms, ir.Constant(I64, self.accumulation.group))
        return groups, up_to(b, extents.columns, shape.lanes, shape.n)


def left_rows(work: Work, op: DotOp, matrix: Tile, room: Value | None = None) -> Rows:
    """The left operand as the kernel reads it; ``room``: where a copy goes that is not kept for other blocks, else it is
    needed only by the operation at hand."""
    f, accumulation = work.f, work.accumulation
    lies = accumulation.convert_left is None and matrix.element.name == accumulation.panel.name
    there = matrix_there(f, matrix) if lies else None
    if there is None:
        return _copied(work, op, matrix, room)
    rows = Rows(there.pointer, there.step)
    if there.inside is None:
        return rows
    inside = there.inside
    if work.parts.left is not None and (enough := _has(work, work.parts.left)) is not None:
        inside = f.builder.or_(inside, enough)
    return _either(f, inside, rows, lambda: _copied(work, op, matrix, room, masked=True))


def _has(work: Work, ends: Ends) -> Value | None:
    """Whether an operand that ends inside its tile has all that the kernel reads; None if it has where the tile is
    inside."""
    b, found = work.f.builder, [] if ends.others is None else [ends.others]
    if not ends.dense:
        return None
    for limit, needed, extent in zip(
        (ends.rows, ends.columns), work.left_limits, (work.shape.m, work.shape.k), strict=True
    ):
        if limit is not None:
            least = ir.Constant(I64, extent) if needed is None else needed
            found.append(b.icmp_unsigned(">=", limit, least))
    return llvm.all_of(b, found)


def _either(
    f: FunctionEmitter, condition: Value, rows: Rows, otherwise: Callable[[], Rows]
) -> Rows:
    """Those rows if a condition holds, else others that are made then."""
    f.flush()
    b = f.builder
    here, make, ready = b.block, b.append_basic_block("copy"), b.append_basic_block("ready")
    b.cbranch(condition, ready, make)
    b.position_at_end(make)
    made = otherwise()
    found = [([rows.pointer, rows.step], here), ([made.pointer, made.step], b.block)]
    b.branch(ready)
    b.position_at_end(ready)
    return Rows(*llvm.merge(b, found))


def _copied(work: Work, op: DotOp, a: Tile, room: Value | None, *, masked: bool = False) -> Rows:
    """The left operand in a buffer; ``masked``: it is known that not all of it is in bounds."""
    f, panel = work.f, work.accumulation.panel
    convert = work.accumulation.convert_left or widening(a.element, panel)
    forms = [Elementwise(panel, a.dims, (a,), convert)]
    if (turn := work.accumulation.turn_left) is not None:
        forms.append(Elementwise(panel, a.dims, (a,), turn))
    limits = [limit for limit in work.left_limits if limit is not None]
    (m, k), row_bytes = a.dims, work.accumulation.left_bytes(a.dims[1])
    strides = (row_bytes // panel.buffer_bytes, 1)

    def fill(pointer: Value) -> None:
        copies: list[tuple[Strided, Tile]] = []
        for number, form in enumerate(forms):
            behind = ir.Constant(I64, number * k * panel.buffer_bytes)
            at = f.builder.gep(pointer, [behind], source_etype=I8)
            copies.append((Strided(panel, a.dims, at, strides), form))
        if not masked:
            f.fill(copies, limits=work.left_limits)
            return
        for copy, form in copies:
            _fill_masked(f, copy, form, work.left_limits)

    pointer = panel_of(f, (op, Side.LEFT), a, limits, fill)
    if pointer is None:
        pointer = f.pointer_to(f.scratch(m * row_bytes)) if room is None else room
        fill(pointer)
    return Rows(pointer, ir.Constant(I64, row_bytes))


def _fill_masked(
    f: FunctionEmitter, panel: Strided, source: Tile, limits: Sequence[Value | None]
) -> None:
    nest = LoopNest(f.builder, masked=True)

    def body(nest: LoopNest, coords: Coords) -> None:
        value = nest.vector(source, coords)
        store_at(nest, panel.pointer, panel.element, panel.offset(nest, coords), value)

    axis = vector_axis(source.dims)
    loops(nest, source.dims, axis, f.lanes([source], source.dims[axis]), 1, body, limits)
    nest.close_all()


def right_panel(work: Work, op: DotOp, b: Tile) -> Value:
    """The right operand in strips, packed now or still there from a tile block before."""
    kept = packed_panel(work, op, b)
    return pack(work, b) if kept is None else kept


def packed_panel(work: Work, op: DotOp, b: Tile) -> Value | None:
    """The right operand in strips, in a place where it stays; None where it has none."""
    limits = [limit for limit in work.right_limits if limit is not None]
    return panel_of(work.f, (op, Side.RIGHT), b, limits, lambda pointer: _pack(work, b, pointer))


def pack(work: Work, b: Tile) -> Value:
    """The right operand in strips, packed now."""
    size = work.shape.k * work.shape.n * work.accumulation.panel.buffer_bytes
    pointer = work.f.pointer_to(work.f.scratch(size))
    _pack(work, b, pointer)
    return pointer


def _pack(work: Work, b: Tile, pointer: Value) -> None:
    """Write the right operand to memory, in strips."""
    f, accumulation, shape = work.f, work.accumulation, work.shape
    convert = accumulation.convert_right or widening(b.element, accumulation.panel)
    source: Tile = Elementwise(accumulation.panel, b.dims, (b,), convert)
    if shape.along_k:
        _fill_columns(f, source, pointer, work.right_limits)
        return
    rows, columns = shape.k // accumulation.group, shape.columns
    if accumulation.group > 1:
        kind = GroupedAlong if source.lies_along == 0 else Grouped
        source = kind(accumulation.unit, (rows, shape.n), source, accumulation.group)
    strides = row_major((shape.n // columns, rows, columns))
    # As the matrix that it was, so that rows are read as they lie.
    strips = _Strips(accumulation.unit, source.dims, pointer, strides, None, columns)
    f.fill([(strips, source)], limits=work.right_limits)


def _fill_columns(
    f: FunctionEmitter, source: Tile, pointer: Value, limits: Sequence[Value | None] = ()
) -> None:
    """Write a matrix column by column."""
    columns = Strided(source.element, source.dims, pointer, (1, source.dims[0]))

    def body(nest: LoopNest, coords: Coords) -> None:
        value = nest.vector(source, coords)
        store_at(nest, pointer, source.element, columns.offset(nest, coords), value)

    f.nest(source.dims, [source], body, axis=0, into=Into(None, limits))


@dataclass(frozen=True, slots=True, eq=False)
class Grouped(Tile):
    """Groups of neighbours along the rows of a matrix, each as one i32, the first in the low bits."""

    source: Tile
    group: int

    @property
    def sources(self) -> tuple[Tile, ...]:
        return (self.source,)

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        row, column = coords
        first = nest.times(row, self.group)
        parts = [
            nest.eval(self.source, (nest.shift(first, by), column)) for by in range(self.group)
        ]
        lanes = lanes_in(coords)
        return nest.emit([nest.widened(part, lanes) for part in parts], joined)


@dataclass(frozen=True, slots=True, eq=False)
class GroupedAlong(Grouped):
    """The same of a matrix whose columns lie densely, in which neighbours are side by side already."""

    @property
    def lies_along(self) -> int | None:
        return 0

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        row, column = coords
        offsets, group = row.offsets, self.group
        if offsets is None or not is_run(offsets):
            return Grouped.at(self, nest, coords)
        first = nest.times(Index(row.base, None, row.align), group)
        begin, count = offsets[0] * group, len(offsets) * group
        terms = Index(first.base, tuple(range(begin, begin + count)), first.align)
        found = nest.widened(nest.eval(self.source, (terms, column)), count)
        words = ir.VectorType(I32, len(offsets))
        return nest.emit([found], lambda b, value: b.bitcast(value, words))


def joined(b: Builder, *values: Value) -> Value:
    """Neighbours, of which each vector has one, as the bytes of an i32 for each lane; there are at least as
    many lanes as neighbours, since targets with groups of four have vectors of 256 bits."""
    lanes = llvm.lanes_of(values[0].type)
    parts = list(values)
    while len(parts) > 1:
        both = range(2 * llvm.lanes_of(parts[0].type))
        parts = [llvm.shuffle(b, *parts[n : n + 2], both) for n in range(0, len(parts), 2)]
    # First all words that begin with the same columns side by side, then elements within those.
    words = b.bitcast(parts[0], ir.VectorType(I32, lanes))
    group = len(values)
    of_row = lanes // group
    moved = [row * of_row + word for word in range(of_row) for row in range(group)]
    near = b.bitcast(llvm.shuffle(b, words, words, moved), parts[0].type)
    order = [
        word * group * group + row * group + place
        for word in range(of_row)
        for place in range(group)
        for row in range(group)
    ]
    return b.bitcast(llvm.shuffle(b, near, near, order), words.type)


@dataclass(frozen=True, slots=True, eq=False)
class _Strips(Strided):
    """A panel seen as the matrix that it was packed from."""

    columns: int = 1

    def offset(self, nest: LoopNest, coords: Coords) -> Index:
        """Where the element at a row and column lies."""
        row, column = coords
        strip, place = nest.high_bits(column, self.columns), nest.low_bits(column, self.columns)
        parts = zip((strip, row, place), self.strides, strict=True)
        return nest.sum([nest.times(index, stride) for index, stride in parts])
