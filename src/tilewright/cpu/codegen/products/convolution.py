"""Convolutions of tiles, as one matrix product of activation windows with the filter.

The activation is copied to memory with its border, channels innermost. There the elements of all windows lie at fixed distances, so
a block of windows is copied to the rows of a panel and multiplied by the packed filter (``microkernel``), one block of
rows after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import lowers, refuse
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I8, I64, Element, bits_constant, element_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane, lanes_in
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Mapped,
    Strided,
    Tile,
    Uniform,
    buffer_tile,
    load_at,
    permuted,
    reshaped,
    store_at,
)
from tilewright.cpu.codegen.products.accumulation import (
    AccumulationKernel,
    accumulation_kernel_for,
    widening,
)
from tilewright.cpu.codegen.products.contraction import Work, is_zero, narrowing, pack
from tilewright.cpu.codegen.products.microkernel import kernel_function, shape_of
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import ConvParamsAttr
from tilewright.dialects.nv_tileaa.ops.contraction import ConvDotOp
from tilewright.numerics.floats import padding_bits
from tilewright.numerics.strides import row_major

#: How many bytes the windows that are multiplied at once may take.
_PANEL_BYTES = 1 << 18
_FEWEST_ROWS = 16


@dataclass(frozen=True, slots=True)
class Geometry:
    """Extents of a convolution, one for each spatial axis: of the activation, of the filter, and how
    often this fits; stride, dilation, and what is added in front and behind."""

    extents: tuple[int, ...]
    taps: tuple[int, ...]
    positions: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    batch: int
    channels: int

    @property
    def bordered(self) -> tuple[int, ...]:
        """The extents of the activation with its border: batch, spatial axes, channels."""
        sides = zip(self.low, self.extents, self.high, strict=True)
        return (self.batch, *map(sum, sides), self.channels)

    @property
    def steps(self) -> tuple[int, ...]:
        """How far apart neighbours lie along these axes, in elements."""
        return row_major(self.bordered)

    @property
    def windows(self) -> tuple[tuple[int, int], ...]:
        """Extent and distance along each axis that numbers windows, outermost first."""
        moves = (n * s for n, s in zip(self.stride, self.steps[1:-1], strict=True))
        return ((self.batch, self.steps[0]), *zip(self.positions, moves, strict=True))

    @property
    def inner(self) -> tuple[tuple[int, int], ...]:
        """The same for the axes within a window."""
        moves = (n * s for n, s in zip(self.dilation, self.steps[1:-1], strict=True))
        return (*zip(self.taps, moves, strict=True), (self.channels, 1))


def channels_last(layout: str) -> tuple[int, ...]:
    """The axes of a layout in the order batch, spatial axes, channels."""
    axes = range(len(layout))
    return tuple(axes) if layout.endswith("c") else (0, *axes[2:], 1)


def geometry_of(op: ConvDotOp, order: Sequence[int]) -> Geometry:
    """What is multiplied with what; refuses convolutions that are not determined."""
    params = op.properties["conv_params"]
    assert isinstance(params, ConvParamsAttr)
    names = ("stride", "dilation", "padding_low", "padding_high")
    stride, dilation, low, high = (params.integers(name) for name in names)
    activation, weights, acc = (
        tuple(T.dims_of(value.type)[axis] for axis in order)
        for value in (op.activation, op.filter, op.acc)
    )
    taps = weights[1:-1]
    positions = tuple(
        (extent + before + after - far * (count - 1) - 1) // step + 1
        for extent, before, after, far, count, step in zip(
            activation[1:-1], low, high, dilation, params.integers("filter"), stride, strict=True
        )
    )
    if not element_of(op.activation.type).is_float:
        raise refuse(op, "the signedness of its integers is unspecified")
    if any(extent < 0 for extent in (*low, *high)):
        raise refuse(op, "its padding is negative")
    if taps != params.integers("filter") or weights[-1] != activation[-1]:
        raise refuse(
            op,
            f"expected a filter of taps {list(params.integers('filter'))} and {activation[-1]} "
            f"channels, got {list(taps)} and {weights[-1]}",
        )
    if acc != (activation[0], *positions, weights[0]):
        raise refuse(
            op,
            f"the filter fits {list(positions)} times, into {weights[0]} channels, but the "
            f"accumulator has {list(acc[1:-1])} and {acc[-1]}",
        )
    return Geometry(
        activation[1:-1],
        taps,
        positions,
        stride,
        dilation,
        low,
        high,
        activation[0],
        activation[-1],
    )


@lowers("conv_dot")
def conv_dot(f: FunctionEmitter, op: ConvDotOp) -> None:
    """A convolution as a product whose left operand is read from the activation in place."""
    order = channels_last(enum_property(op, "activation_layout"))
    geometry = geometry_of(op, order)
    activation, weights, acc = (
        moved(f.tile(value), order) for value in (op.activation, op.filter, op.acc)
    )
    m, n, k = prod(acc.dims[:-1]), acc.dims[-1], prod(weights.dims[1:])
    accumulation = accumulation_kernel_for(
        f.unit.target, activation.element, weights.element, (m, n, k), (True, True)
    )
    element, accumulator = acc.element, accumulation.accumulator
    exact = element == accumulator
    sums = f.buffer(accumulator, (m, n), f.plan.last_use(op.result) if exact else f.now)
    if not is_zero(acc):
        wide = Elementwise(accumulator, acc.dims, (acc,), widening(element, accumulator))
        f.fill([(sums, as_matrix(acc if exact else wide, (m, n)))])
    padding = padding_bits(enum_property(op, "padding_value") or "zero", activation.element.format)
    border = bits_constant(activation.element, padding)
    windows = bordered(f, accumulation, activation, geometry, border)
    _multiply(f, accumulation, geometry, windows, as_columns(weights), sums, fresh=is_zero(acc))
    found = Strided(accumulator, acc.dims, sums.pointer, row_major(acc.dims), sums.slot)
    back = tuple(order.index(axis) for axis in range(len(order)))
    result = moved(found, back)
    if not exact:
        result = Elementwise(element, result.dims, (result,), narrowing(element))
        result = f.keep(result, f.plan.last_use(op.result))
    f.values[op.result] = result


# -- the operands as matrices ----------------------------------------------------------------------


def moved(tile: Tile, order: Sequence[int]) -> Tile:
    """A tile with its axes in another order."""
    dims = tuple(tile.dims[axis] for axis in order)
    if tuple(order) == tuple(range(len(order))):
        return tile
    if isinstance(tile, Uniform):
        return Uniform(tile.element, dims, tile.value)
    if isinstance(tile, Strided):
        strides = tuple(tile.strides[axis] for axis in order)
        return Strided(tile.element, dims, tile.pointer, strides, tile.slot)
    along = tile.lies_along
    position = None if along is None else list(order).index(along)
    return Mapped(tile.element, dims, tile, permuted(order), position)


def as_matrix(tile: Tile, dims: tuple[int, int]) -> Tile:
    """A tile as the matrix of its leading and its trailing axes."""
    if isinstance(tile, Uniform):
        return Uniform(tile.element, dims, tile.value)
    rank, along = len(tile.dims), tile.lies_along
    # Its neighbours stay neighbours where the axis is the last one of a group.
    last_of_columns = along == rank - 1
    last_of_rows = along == rank - 2 and tile.dims[-1] == dims[1]
    position = 1 if last_of_columns else 0 if last_of_rows else None
    return Mapped(tile.element, dims, tile, reshaped(tile.dims, dims), position)


def as_columns(weights: Tile) -> Tile:
    """A filter with a column for each output channel, a row for each tap and channel."""
    rows = as_matrix(weights, (weights.dims[0], prod(weights.dims[1:])))
    return moved(rows, (1, 0))


# -- windows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Windows(Tile):
    """Rows ``first``, ``first + 1``, ... of the matrix that has a window of an activation in each row.

    The activation lies at ``pointer`` with its border around it.
    """

    pointer: Value
    geometry: Geometry
    first: Value

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        row, column = coords
        row = nest.plus(row, Lane(self.first), self.dims[0])
        if not (row.splits_bits and column.splits_bits):
            return nest.lane_by_lane(self, coords)
        parts = [
            *_distances(nest, row, self.geometry.windows),
            *_distances(nest, column, self.geometry.inner),
        ]
        return load_at(nest, self.pointer, self.element, nest.sum(parts), lanes_in(coords))


def _distances(nest: LoopNest, number: Index, axes: Sequence[tuple[int, int]]) -> list[Index]:
    """What each axis adds to the place of the element of a number in row-major order."""
    found: list[Index] = []
    for extent, distance in reversed(axes):
        found.append(nest.times(nest.low_bits(number, extent), distance))
        number = nest.high_bits(number, extent)
    return found


def bordered(
    f: FunctionEmitter,
    accumulation: AccumulationKernel,
    activation: Tile,
    geometry: Geometry,
    border: Value,
) -> Value:
    """The address of a copy of the activation with its border around it, as panels have it."""
    element, convert = accumulation.panel, widening(activation.element, accumulation.panel)
    lanes = f.unit.target.vector_bits // (8 * element.buffer_bytes)
    count = -(-prod(geometry.bordered) // lanes) * lanes
    slot = f.scratch(count * element.buffer_bytes)
    pointer = f.pointer_to(slot)
    if any((*geometry.low, *geometry.high)):
        f.flush()
        _spread(f.builder, pointer, element, convert(f.builder, border), count, lanes)
    source = activation
    if activation.element != element:
        source = Elementwise(element, activation.dims, (activation,), convert)
    inside = sum(n * s for n, s in zip((0, *geometry.low), geometry.steps, strict=False))
    first = f.builder.gep(pointer, [_number(inside)], source_etype=element.buffer)

    def put(nest: LoopNest, coords: Coords, value: Value) -> None:
        pairs = zip(coords, geometry.steps, strict=True)
        store_at(nest, first, element, nest.sum([nest.times(i, s) for i, s in pairs]), value)

    axis = len(source.dims) - 1
    if source.dims[axis] == 1 or not f.transposes(source, axis, put):
        f.nest(source.dims, [source], lambda nest, at: put(nest, at, nest.vector(source, at)))
    return pointer


def _spread(
    b: Builder, pointer: Value, element: Element, value: Value, count: int, lanes: int
) -> None:
    """Fill memory with a number."""
    vector = llvm.splat(b, value, lanes)

    def store(inner: Builder, at: Value) -> None:
        where = inner.gep(pointer, [at], source_etype=element.buffer)
        inner.store(vector, where, align=element.buffer_bytes)

    llvm.count(b, _number(0), _number(count), _number(lanes), store)


def _number(value: int) -> Value:
    return ir.Constant(I64, value)


def _multiply(
    f: FunctionEmitter,
    accumulation: AccumulationKernel,
    geometry: Geometry,
    windows: Value,
    columns: Tile,
    sums: Strided,
    *,
    fresh: bool,
) -> None:
    """Add the product of windows and columns to the sums; overwrite them if ``fresh``."""
    (m, n), k = sums.dims, columns.dims[0]
    row_bytes = k * accumulation.panel.buffer_bytes
    rows = min(m, max(_FEWEST_ROWS, 1 << (_PANEL_BYTES // row_bytes).bit_length() - 1))
    shape = shape_of(f.unit.target, accumulation, rows, n, k)
    right = pack(Work(f, accumulation, shape), columns)
    slot = f.scratch(rows * row_bytes)
    panel = buffer_tile(accumulation.panel, (rows, k), f.pointer_to(slot), slot.offset)
    kernel = kernel_function(f.unit, accumulation, shape)
    sum_bytes = n * accumulation.accumulator.buffer_bytes

    def block(b: Builder, first: Value) -> None:
        f.fill([(panel, Windows(accumulation.panel, panel.dims, windows, geometry, first))])
        target = b.gep(sums.pointer, [b.mul(first, _number(sum_bytes))], source_etype=I8)
        arguments = [panel.pointer, _number(row_bytes), right, target, target, _number(sum_bytes)]
        b.call(kernel, [*arguments, ir.Constant(I1, int(fresh))])

    f.flush()
    llvm.count(f.builder, _number(0), _number(m), _number(rows), block)
