"""Matrix products: operands packed into panels, multiplied by a register-blocked kernel.

The kernel is a function of its own for each shape and scheme. It takes the panels of one product
and the accumulator tile, and goes over blocks of ``rows`` x ``columns`` elements that stay in vector
registers while k runs. A *scheme* says how numbers are multiplied: in which type, and how many
neighbours along k one instruction takes at once (``schemes``).

The left panel is row-major, k padded by nothing; the right panel consists of strips of ``columns``
columns, in each of which k goes from top to bottom: ``[N / columns][K / group][columns]`` of
groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from llvmlite import ir

from tilewright.cpu.codegen import llvm
from tilewright.cpu.codegen.basics import is_poison
from tilewright.cpu.codegen.elements import I32, I64, PTR, VOID, Element, element_of
from tilewright.cpu.codegen.elementwise.formats import narrow, to_double, widen
from tilewright.cpu.codegen.function import FunctionEmitter
from tilewright.cpu.codegen.indices import Coords, Index, Lane, lanes_in, row_major
from tilewright.cpu.codegen.irtypes import Builder, Constant, Value
from tilewright.cpu.codegen.nests import Nest
from tilewright.cpu.codegen.schemes import FLOAT64, Scheme, scheme_for
from tilewright.cpu.codegen.table import lowers
from tilewright.cpu.codegen.tiles import (
    Elementwise,
    Emit,
    Mapped,
    Strided,
    Tile,
    Uniform,
    only_in_step,
    reads_any,
    store_at,
)
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp

#: Rounds of the loop over k that are written out.
_UNROLL = 4
_CACHE_LINE = 64


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


def shape_of(f: FunctionEmitter, scheme: Scheme, m: int, n: int, k: int) -> Shape:
    """The blocking of a product: as many accumulators as registers allow."""
    target = f.unit.target
    lanes = min(target.vector_bits // scheme.accumulator_bits, n)
    vectors = min(2, n // lanes)
    rows = 8 if target.vector_registers >= 32 else 4
    if vectors == 1:
        rows *= 2
    return Shape(m, n, k, min(rows, m), lanes, vectors)


@lowers("dot")
def dot(f: FunctionEmitter, op: DotOp) -> None:
    dims = T.dims_of(op.result.type)
    element = element_of(op.result.type)
    a, b, c = (f.tile(value) for value in (op.a, op.b, op.c))
    signs = tuple(
        enum_property(op, f"signedness_{side}") == "signed" if element.name == "i32" else True
        for side in "ab"
    )
    if op.sfa is not None and op.sfb is not None:
        scheme = FLOAT64
        a, b = scaled(f, a, f.tile(op.sfa), -1), scaled(f, b, f.tile(op.sfb), -2)
    else:
        scheme = scheme_for(f.unit.target, a.element, b.element, a.dims[-1], b.dims[-1], signs)
    accumulator = accumulate_into(f, op, (a, b), c, scheme)
    fresh = is_zero(c)
    if not fresh:
        convert = Elementwise(scheme.accumulator, dims, (c,), widening(c.element, scheme))
        f.fill([(accumulator, c if c.element == scheme.accumulator else convert)])
    for batch in range(prod(dims[:-2])):
        _product(f, scheme, a, b, accumulator, batch, fresh)
    if element == scheme.accumulator:
        f.values[op.result] = accumulator
        return
    back = Elementwise(element, dims, (accumulator,), narrowing(element))
    f.values[op.result] = f.keep(back, f.plan.last_use(op.result))


def accumulate_into(
    f: FunctionEmitter, op: DotOp, factors: tuple[Tile, Tile], c: Tile, scheme: Scheme
) -> Strided:
    """The buffer of the result: that of a tile that a loop hands on, if nothing else reads it."""
    result = op.result
    if element_of(result.type) != scheme.accumulator:
        return f.buffer(scheme.accumulator, c.dims, f.now)
    target = f.targets.get(result)
    if isinstance(target, Strided):
        here = [target]
        if only_in_step(c, here) and not any(reads_any(tile, here) for tile in factors):
            return target
    return f.buffer(scheme.accumulator, c.dims, f.plan.last_use(result))


def is_zero(tile: Tile) -> bool:
    """Whether a tile is known to be +0 everywhere."""
    if is_poison(tile):
        return True
    if not isinstance(tile, Uniform) or not isinstance(tile.value, ir.Constant):
        return False
    return tile.value.get_reference() in ("0x0000000000000000", "0xH0000", "0")


def widening(element: Element, scheme: Scheme) -> Emit:
    """From an element type to the accumulator's."""
    if element.name == scheme.accumulator.name:
        return lambda b, x: x
    wide = to_double if scheme is FLOAT64 else widen
    return lambda b, x: wide(b, x, element)


def narrowing(element: Element) -> Emit:
    return lambda b, x: narrow(b, x, element)


def scaled(f: FunctionEmitter, tile: Tile, scale: Tile, axis: int) -> Tile:
    """The tile in f64, times the factor of each block along an axis."""
    extent = tile.dims[axis] // scale.dims[axis]
    place = len(tile.dims) + axis

    def block_of(nest: Nest, coords: Coords) -> Coords | None:
        if not coords[place].splits_bits:
            return None
        found = list(coords)
        found[place] = nest.high_bits(coords[place], extent)
        return tuple(found)

    spread = Mapped(scale.element, tile.dims, scale, block_of)

    def product(b: Builder, x: Value, y: Value) -> Value:
        return b.fmul(to_double(b, x, tile.element), to_double(b, y, scale.element))

    return Elementwise(FLOAT64.accumulator, tile.dims, (tile, spread), product)


def _product(
    f: FunctionEmitter,
    scheme: Scheme,
    a: Tile,
    b: Tile,
    accumulator: Strided,
    batch: int,
    fresh: bool,
) -> None:
    """Add the product of one batch to the accumulator."""
    (m, k), n = a.dims[-2:], b.dims[-1]
    shape = shape_of(f, scheme, m, n, k)
    if len(a.dims) == 3:
        a, b = _of_batch(a, batch), _of_batch(b, batch)
    left = left_panel(f, scheme, a)
    right = right_panel(f, scheme, shape, b)
    builder = f.builder
    offset = ir.Constant(I64, batch * m * n)
    target = builder.gep(accumulator.pointer, [offset], source_etype=scheme.accumulator.register)
    kernel = kernel_function(f, scheme, shape, fresh)
    builder.call(kernel, [left, right, target])


def _of_batch(tile: Tile, batch: int) -> Tile:
    """One matrix of a batch."""
    dims = tile.dims[1:]
    return Mapped(
        tile.element,
        dims,
        tile,
        lambda nest, coords: (Index(batch, None, batch & -batch or 1 << 62), *coords),
    )


def left_panel(f: FunctionEmitter, scheme: Scheme, a: Tile) -> Value:
    """The left operand as the kernel reads it: row-major in the scheme's type."""
    if (
        isinstance(a, Strided)
        and a.strides == row_major(a.dims)
        and a.element.name == scheme.panel.name
        and not scheme.left_offset
    ):
        return a.pointer
    convert = scheme.convert_left or widening(a.element, scheme)
    panel = f.buffer(scheme.panel, a.dims, f.now)
    f.fill([(panel, Elementwise(scheme.panel, a.dims, (a,), convert))])
    return panel.pointer


def right_panel(f: FunctionEmitter, scheme: Scheme, shape: Shape, b: Tile) -> Value:
    """The right operand in strips."""
    convert = scheme.convert_right or widening(b.element, scheme)
    source: Tile = Elementwise(scheme.panel, b.dims, (b,), convert)
    rows, columns = shape.k // scheme.group, shape.columns
    if scheme.group > 1:
        if source.lies_along == 0:
            source = groups_as_they_lie(f, scheme, source)
        else:
            source = Grouped(scheme.unit, (rows, shape.n), source, scheme.group)
    panel = f.buffer(scheme.unit, (shape.n // columns, rows, columns), f.now)
    # As the matrix that it was, so that rows are read as they lie.
    strips = _Strips(scheme.unit, source.dims, panel.pointer, panel.strides, None, columns)
    f.fill([(strips, source)])
    return panel.pointer


def groups_as_they_lie(f: FunctionEmitter, scheme: Scheme, source: Tile) -> Tile:
    """The groups of a matrix whose columns lie densely: copied, they are side by side already."""
    k, n = source.dims
    slot = f.scratch(k * n * scheme.panel.buffer_bytes)
    pointer = f.pointer_to(slot)
    columns = Strided(scheme.panel, source.dims, pointer, (1, k))

    def body(nest: Nest, coords: Coords) -> None:
        value = nest.vector(source, coords)
        store_at(nest, pointer, scheme.panel, columns.offset(nest, coords), value)

    f.nest(source.dims, [source], body, axis=0)
    groups = k // scheme.group
    return Strided(scheme.unit, (groups, n), pointer, (1, groups))


@dataclass(frozen=True, slots=True, eq=False)
class Grouped(Tile):
    """Groups of neighbours along the rows of a matrix, each as one i32, the first in the low bits."""

    source: Tile
    group: int

    @property
    def sources(self) -> tuple[Tile, ...]:
        return (self.source,)

    def at(self, nest: Nest, coords: Coords) -> Lane:
        row, column = coords
        first = nest.times(row, self.group)
        parts = [
            nest.eval(self.source, (nest.shift(first, by), column)) for by in range(self.group)
        ]
        lanes, bits = lanes_in(coords), 32 // self.group

        def join(b: Builder, *values: Value) -> Value:
            ty = llvm.vector(I32, lanes)
            total = b.zext(values[0], ty)
            for place, value in enumerate(values[1:], 1):
                total = b.or_(total, b.shl(b.zext(value, ty), llvm.number(ty, place * bits)))
            return total

        return nest.emit([nest.widened(part, lanes) for part in parts], join)


@dataclass(frozen=True, slots=True, eq=False)
class _Strips(Strided):
    """A panel seen as the matrix that it was packed from."""

    columns: int = 1

    def offset(self, nest: Nest, coords: Coords) -> Index:
        """Where the element at a row and column lies."""
        row, column = coords
        strip, place = nest.high_bits(column, self.columns), nest.low_bits(column, self.columns)
        parts = zip((strip, row, place), self.strides, strict=True)
        return nest.sum([nest.times(index, stride) for index, stride in parts])


def kernel_function(f: FunctionEmitter, scheme: Scheme, shape: Shape, fresh: bool) -> ir.Function:
    """The kernel of a shape: ``accumulator (+)= left x right``."""
    name = f"tilewright.dot.{scheme.name}.{shape.m}x{shape.n}x{shape.k}{'.fresh' if fresh else ''}"
    module = f.unit.module
    found = module.globals.get(name)
    if isinstance(found, ir.Function):
        return found
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR, PTR]), name)
    function.linkage = "internal"
    f.unit.prepare(function)
    llvm.add_attribute(function, "noinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    for argument, attribute in zip(function.args, ("left", "right", "target"), strict=True):
        argument.name = attribute
        argument.add_attribute("noalias")
    _kernel_body(builder, scheme, shape, fresh, function.args)
    builder.ret_void()
    return function


def _kernel_body(
    builder: Builder,
    scheme: Scheme,
    shape: Shape,
    fresh: bool,
    arguments: Sequence[Value],
) -> None:
    left, right, target = arguments
    nest = Nest(builder)
    groups = shape.k // scheme.group
    row_terms = _row_terms(nest, scheme, shape, groups, left) if scheme.right_offset else None
    strip = nest.loop(shape.n, shape.columns)
    group_bytes = scheme.group * scheme.panel.buffer_bytes
    strip_at = _advance(nest.inner, right, _value(strip), groups * group_bytes)
    column_terms = (
        _column_terms(nest, scheme, shape, groups, strip_at) if scheme.left_offset else None
    )
    block = nest.loop(shape.m, shape.rows)
    b = nest.inner
    left_at = _advance(b, left, _value(block), groups * group_bytes)
    register = scheme.accumulator.register
    size = scheme.accumulator.buffer_bytes
    target_at = _advance(b, target, _value(block), shape.n * size)
    target_at = _advance(b, target_at, _value(strip), size)
    vector = llvm.vector(register, shape.lanes if shape.lanes > 1 else 0)
    places = [
        b.gep(target_at, [ir.Constant(I64, row * shape.n + v * shape.lanes)], source_etype=register)
        for row in range(shape.rows)
        for v in range(shape.vectors)
    ]
    if fresh:
        start: list[Value] = [llvm.number(vector, 0)] * len(places)
    else:
        start = [b.load(place, typ=vector, align=size) for place in places]
    if column_terms is not None:
        start = [b.sub(s, column_terms[i % shape.vectors]) for i, s in enumerate(start)]
    if row_terms is not None:
        at = b.gep(row_terms, [_value(block)], source_etype=I32)
        terms = [
            llvm.splat(
                b,
                b.load(b.gep(at, [ir.Constant(I64, row)], source_etype=I32), typ=I32, align=4),
                shape.lanes if shape.lanes > 1 else 0,
            )
            for row in range(shape.rows)
        ]
        start = [b.add(s, terms[i // shape.vectors]) for i, s in enumerate(start)]
    # What the next block of rows needs is on its way while this one is computed.
    next_target = _advance(b, places[0], ir.Constant(I64, shape.rows), shape.n * size)
    for row in range(shape.rows):
        line = _advance(b, next_target, ir.Constant(I64, row), shape.n * size)
        for offset in range(0, shape.columns * size, _CACHE_LINE):
            _fetch(b, line, offset)
    totals = _sum_over_k(nest, scheme, shape, groups, left_at, strip_at, start)
    b = nest.inner
    for place, total in zip(places, totals, strict=True):
        b.store(total, place, align=size)
    nest.close_all()


def _every_byte(value: int, lanes: int) -> Constant:
    return llvm.splat_constant(ir.Constant(I32, value * 0x01010101), lanes)


def _column_terms(
    nest: Nest, scheme: Scheme, shape: Shape, groups: int, right: Value
) -> list[Value]:
    """p times the sum of each column of a strip."""
    zero = llvm.number(llvm.vector(I32, shape.lanes), 0)
    depth = nest.depth
    step = nest.loop(groups)
    looped = nest.depth > depth
    totals: list[Any] = [nest.carried(zero) if looped else zero for _ in range(shape.vectors)]
    b = nest.inner
    at = _advance(b, right, _value(step), shape.columns * 4)
    factor = _every_byte(scheme.left_offset, shape.lanes)
    after = [
        scheme.multiply(b, total, factor, scheme.load_right(b, at, v * shape.lanes, shape.lanes))
        for v, total in enumerate(totals)
    ]
    if looped:
        nest.close(list(zip(totals, after, strict=True)))
    return after


def _row_terms(nest: Nest, scheme: Scheme, shape: Shape, groups: int, left: Value) -> Value:
    """For each row q times its sum, less K p q, in memory."""
    terms = llvm.stack(nest.inner, ir.ArrayType(I32, shape.m))
    zero = llvm.number(llvm.vector(I32, shape.lanes), 0)
    row = nest.loop(shape.m)
    depth = nest.depth
    step = nest.loop(groups)
    looped = nest.depth > depth
    total = nest.carried(zero) if looped else zero
    b = nest.inner
    at = _advance(b, _advance(b, left, _value(row), groups * 4), _value(step), 4)
    ones = _every_byte(1, shape.lanes)
    after = scheme.multiply(b, total, scheme.load_left(b, at, 0, shape.lanes), ones)
    if looped:
        nest.close([(total, after)])  # pyright: ignore[reportArgumentType]
    b = nest.inner
    first = b.extract_element(after, ir.Constant(I32, 0))
    raised = b.mul(first, ir.Constant(I32, scheme.right_offset))
    whole = shape.k * scheme.left_offset * scheme.right_offset
    place = b.gep(terms, [_value(row)], source_etype=I32)
    b.store(b.sub(raised, ir.Constant(I32, whole)), place, align=4)
    while nest.depth:
        nest.close()
    return terms


def _fetch(b: Builder, pointer: Value, offset: int) -> None:
    """Ask for the cache line some bytes behind a pointer."""
    llvm.prefetch(b, b.gep(pointer, [ir.Constant(I64, offset)], source_etype=ir.IntType(8)))


def _value(index: Index) -> Value:
    return ir.Constant(I64, index.base) if isinstance(index.base, int) else index.base.value


def _advance(b: Builder, pointer: Value, count: Value, unit: int) -> Value:
    """The pointer ``count`` times ``unit`` bytes further."""
    return b.gep(pointer, [count], source_etype=ir.ArrayType(ir.IntType(8), unit))


def _sum_over_k(
    nest: Nest,
    scheme: Scheme,
    shape: Shape,
    groups: int,
    left: Value,
    right: Value,
    start: list[Value],
) -> list[Value]:
    """The accumulators after all of k."""
    unroll = min(_UNROLL, groups)
    depth = nest.depth
    step = nest.loop(groups, unroll)
    looped = nest.depth > depth
    totals: list[Value] = [nest.carried(s) for s in start] if looped else list(start)
    phis = list(totals)
    b = nest.inner
    unit = scheme.group * scheme.panel.buffer_bytes
    block = left
    left = _advance(b, left, _value(step), unit)
    right = _advance(b, right, _value(step), shape.columns * unit)
    if looped:
        ahead = _advance(b, block, ir.Constant(I64, 1), shape.rows * groups * unit)
        ahead = _advance(b, ahead, _value(step), shape.rows * unit)
        for offset in range(0, shape.rows * unroll * unit, _CACHE_LINE):
            _fetch(b, ahead, offset)
    for k in range(unroll):
        columns = [
            scheme.load_right(b, right, (k * shape.columns + v * shape.lanes), shape.lanes)
            for v in range(shape.vectors)
        ]
        for row in range(shape.rows):
            factor = scheme.load_left(b, left, row * groups + k, shape.lanes)
            for v, column in enumerate(columns):
                at = row * shape.vectors + v
                totals[at] = scheme.multiply(b, totals[at], factor, column)
    if looped:
        nest.close(list(zip(phis, totals, strict=True)))  # pyright: ignore[reportArgumentType]
    return totals
