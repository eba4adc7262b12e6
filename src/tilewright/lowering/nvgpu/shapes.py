"""Shape operations: reshapes are free, everything else that moves elements goes through shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.arith import AndIOp, OrIOp, ShLIOp, ShRUIOp, SubiOp
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp, int_list
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.lowering.nvgpu.elementwise import cast_bits
from tilewright.lowering.nvgpu.pieces import (
    dealt,
    fits,
    gathered,
    in_two,
    rearranged,
    together,
)
from tilewright.lowering.nvgpu.shared_conversion import Buffer, SharedConversion, narrowed
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import I8, I32, scalar_of, vector_like, width_of


@lowers("splat")
def splat(low: ThreadLowering, op: TileAAOp) -> None:
    """The scalar, broadcast to the thread's vector."""
    source = low.value(op.operands[0])
    low.bind(op.results[0], low.splat(source, low.count(op.results[0].type)))


@lowers("expand_dims", "view")
def reshape(low: ThreadLowering, op: TileAAOp) -> None:
    """Binds the same value: the row-major order of elements is unchanged. Raises ``not-lowered-to-threads`` for
    memrefs.
    """
    source, result = op.operands[0], op.results[0]
    if not T.is_scalar_or_tile(source.type):
        raise low.refuse("it changes the shape of a memref")
    given, wanted = T.dims_of(source.type), T.dims_of(result.type)
    value = low.value(source)
    if not given and wanted:
        value = low.splat(value, low.count(result.type))
    elif given and not wanted:
        value = low.first(value)
    low.bind(result, value)


@lowers("broadcast")
def broadcast(low: ThreadLowering, op: TileAAOp) -> None:
    """Repeats element 0 along axes of extent 1, through shared memory unless no axis grows."""
    source, result = op.operands[0], op.results[0]
    given, wanted = T.dims_of(source.type), T.dims_of(result.type)

    def place(coordinates: Sequence[SSAValue]) -> list[SSAValue]:
        return [
            low.constant(0, at.type) if extent == 1 else at
            for at, extent in zip(coordinates, given, strict=True)
        ]

    value = low.value(source)
    if prod(given) == prod(wanted):
        low.bind(result, value)
        return
    low.bind(result, rearranged(low, value, given, wanted, place))


@lowers("permute")
def permute(low: ThreadLowering, op: TileAAOp) -> None:
    """Permutes axes through shared memory; free if only axes of extent 1 move."""
    source, result = op.operands[0], op.results[0]
    given, wanted = T.dims_of(source.type), T.dims_of(result.type)
    order = int_list(op.properties["permutation"])

    def place(coordinates: Sequence[SSAValue]) -> list[SSAValue]:
        found = list(coordinates)
        for axis, origin in enumerate(order):
            found[origin] = coordinates[axis]
        return found

    value = low.value(source)
    moving = [axis for axis in order if given[axis] > 1]
    if moving == sorted(moving):
        low.bind(result, value)
        return
    low.bind(result, rearranged(low, value, given, wanted, place))


@lowers("extract")
def extract(low: ThreadLowering, op: TileAAOp) -> None:
    """The subtile at the leading indices."""
    source, result = op.operands[0], op.results[0]
    given, wanted = T.dims_of(source.type), T.dims_of(result.type)
    indices = [_number(low, value) for value in op.operands[1:]]
    if not wanted and prod(given) == 1:
        low.bind(result, low.first(low.value(source)))
        return
    shape = wanted or (1,)
    count = low.layout(shape).registers

    def place(coordinates: Sequence[SSAValue]) -> list[SSAValue]:
        inner = list(coordinates) if wanted else []
        return [*(low.splat(index, count) for index in indices), *inner]

    found = rearranged(low, low.value(source), given, shape, place)
    low.bind(result, found if wanted else low.first(found))


def _number(low: ThreadLowering, value: SSAValue) -> SSAValue:
    """An index into a tile, as i32."""
    found = low.value(value)
    if scalar_of(found.type) == I32:
        return found
    assert isinstance(found.type, IntegerType)
    kind = V.TruncIOp if found.type.width.data > 32 else V.ExtUIOp
    return low.one(kind, (found,), I32)


def _starts(
    low: ThreadLowering, op: TileAAOp, indices: Sequence[SSAValue], count: int
) -> list[SSAValue]:
    """The offset of a slice along each axis: vectors of i32."""
    if "offsets" in op.properties:
        ty = VectorType(I32, [count])
        return [low.constant(number, ty) for number in int_list(op.properties["offsets"])]
    return [low.splat(_number(low, value), count) for value in indices]


@lowers("extract_slice")
def extract_slice(low: ThreadLowering, op: TileAAOp) -> None:
    """The slice at the offsets, in elements along each axis, through shared memory."""
    source, result = op.operands[0], op.results[0]
    given, wanted = T.dims_of(source.type), T.dims_of(result.type)
    starts = _starts(low, op, op.operands[1:], low.layout(wanted).registers)

    def place(coordinates: Sequence[SSAValue]) -> list[SSAValue]:
        return [low.plus(at, start) for at, start in zip(coordinates, starts, strict=True)]

    low.bind(result, rearranged(low, low.value(source), given, wanted, place))


@lowers("ext.insert_slice")
def insert_slice(low: ThreadLowering, op: TileAAOp) -> None:
    """The destination, with the elements of the source where the slice covers it."""
    destination, source, *indices = op.operands
    result = op.results[0]
    given, wanted = T.dims_of(source.type), T.dims_of(result.type)
    starts = _starts(low, op, indices, low.layout(wanted).registers)
    inside: SSAValue | None = None
    places: list[SSAValue] = []
    for at, start, extent in zip(low.coordinates(wanted), starts, given, strict=True):
        moved = low.binary(SubiOp, at, start)
        fits = low.compare("ult", moved, extent)
        inside = low.both(inside, fits)
        places.append(low.select(fits, moved, low.constant(0, moved.type)))
    assert inside is not None
    found = gathered(low, low.value(source), prod(given), low.linear(places, given), inside)
    low.bind(result, low.select(inside, found, low.value(destination)))


@lowers("cat")
def cat(low: ThreadLowering, op: TileAAOp) -> None:
    """Concatenates through one buffer that has both tiles; through one after the other if they do not fit together."""
    lhs, rhs = (T.dims_of(value.type) for value in op.operands)
    result, axis = op.results[0], int_property(op, "axis")
    values = low.values(op.operands)
    sizes = [prod(dims) for dims in (lhs, rhs)]
    if not fits(low, values[:1], sum(sizes)):
        low.bind(result, _cat_apart(low, values, (lhs, rhs), T.dims_of(result.type), axis))
        return
    shared_conversion = SharedConversion(low)
    element = scalar_of(values[0].type)
    buffer = shared_conversion.buffer(element, sum(sizes))
    shared_conversion.put(buffer, values[0], low.ids(sizes[0]), low.owned(sizes[0]))
    behind = low.plus(low.ids(sizes[1]), sizes[0])
    shared_conversion.put(buffer, values[1], behind, low.owned(sizes[1]))
    shared_conversion.meet()
    coordinates = list(low.coordinates(T.dims_of(result.type)))
    along = coordinates[axis]
    is_first = low.compare("ult", along, lhs[axis])
    in_second = [*coordinates]
    in_second[axis] = low.binary(SubiOp, along, lhs[axis])
    first = low.linear(coordinates, lhs)
    second = low.plus(low.linear(in_second, rhs), sizes[0])
    low.bind(result, shared_conversion.take(buffer, low.select(is_first, first, second)))


def _cat_apart(
    low: ThreadLowering,
    values: Sequence[SSAValue],
    given: tuple[tuple[int, ...], tuple[int, ...]],
    wanted: tuple[int, ...],
    axis: int,
) -> SSAValue:
    places = list(low.coordinates(wanted))
    is_first = low.compare("ult", places[axis], given[0][axis])
    moved = [*places]
    moved[axis] = low.binary(SubiOp, places[axis], given[0][axis])
    is_second = low.compare("uge", places[axis], given[0][axis])
    found = [
        gathered(low, value, prod(dims), low.linear(at, dims), mask)
        for value, dims, at, mask in zip(
            values, given, (places, moved), (is_first, is_second), strict=True
        )
    ]
    return low.select(is_first, *found)


@lowers("make_range")
def make_range(low: ThreadLowering, op: TileAAOp) -> None:
    """``start`` plus the row-major numbers of the thread's elements, in the width of the result."""
    result = op.results[0]
    ty = low.type_of(result.type)
    ids = low.numbers(result.type)
    element = scalar_of(ty)
    assert isinstance(element, IntegerType)
    width = element.width.data
    if width != 32:
        ids = low.one(V.TruncIOp if width < 32 else V.ExtUIOp, (ids,), ty)
    if op.operands:
        start = low.operand(op.operands[0], ty)
        if start.type != ty:
            start = low.one(V.ExtSIOp if _bits(start) < width else V.TruncIOp, (start,), ty)
        low.bind(result, low.plus(ids, start))
        return
    low.bind(result, low.plus(ids, int_property(op, "start")))


def _bits(value: SSAValue) -> int:
    element = scalar_of(value.type)
    assert isinstance(element, IntegerType)
    return element.width.data


@lowers("bitcast")
def bitcast(low: ThreadLowering, op: TileAAOp) -> None:
    """Reinterprets elements; pointers are addresses whatever they point at.

    If widths differ the bytes of a row are regrouped: narrower elements are adjacent, the lowest bits first.
    """
    source, result = op.operands[0], op.results[0]
    value, ty = low.value(source), low.type_of(result.type)
    if width_of(value.type) == width_of(ty):
        low.bind(result, cast_bits(low, value, ty))
        return
    sizes = prod(T.dims_of(source.type)), prod(T.dims_of(result.type))
    low.bind(result, _recut(low, value, scalar_of(ty), *sizes))


def _recut(
    low: ThreadLowering, value: SSAValue, wanted: Attribute, size: int, new: int
) -> SSAValue:
    """Regroup the bytes of a tile of ``size`` elements into ``new`` elements of another width."""
    if new >= 2 * dealt(low) and (parts := in_two(low, value, size)) is not None:
        return together(low, [_recut(low, p, wanted, size // 2, new // 2) for p in parts])
    given, ids = scalar_of(value.type), low.ids(new)
    shared_conversion = SharedConversion(low)
    buffer = shared_conversion.buffer(given, size)
    shared_conversion.put(buffer, value)
    shared_conversion.meet()
    if width_of(given) < 8:
        return _joined(low, shared_conversion, buffer, ids, vector_like(ids.type, wanted))
    if width_of(wanted) < 8:
        octets = shared_conversion.reading(buffer, I8, size * width_of(given) // 8)
        return _parted(low, shared_conversion, octets, ids, vector_like(ids.type, wanted))
    return shared_conversion.take(shared_conversion.reading(buffer, wanted, new), ids)


def _joined(
    low: ThreadLowering,
    shared_conversion: SharedConversion,
    narrow: Buffer,
    ids: SSAValue,
    ty: Attribute,
) -> SSAValue:
    """Elements of ``ty``, each assembled from several of less than 8 bits, the first in the lowest bits."""
    width, step = width_of(ty), width_of(narrow.element)
    words = vector_like(ty, IntegerType(width))
    octets = Buffer(narrow.memory, I8, narrow.count)
    first = low.times(ids, width // step)
    total = low.constant(0, words)
    for place in range(width // step):
        part = shared_conversion.take(octets, low.plus(first, place))
        wide = part if part.type == words else low.one(V.ExtUIOp, (part,), words)
        total = low.binary(OrIOp, total, low.binary(ShLIOp, wide, place * step))
    return cast_bits(low, total, ty)


def _parted(
    low: ThreadLowering,
    shared_conversion: SharedConversion,
    octets: Buffer,
    ids: SSAValue,
    ty: Attribute,
) -> SSAValue:
    """Extract elements of less than 8 bits from the bytes that hold them."""
    each = 8 // width_of(ty)
    octet = shared_conversion.take(octets, low.binary(ShRUIOp, ids, each.bit_length() - 1))
    number = low.one(V.TruncIOp, (low.binary(AndIOp, ids, each - 1),), octet.type)
    place = low.times(number, width_of(ty))
    return narrowed(low, low.binary(ShRUIOp, octet, place), scalar_of(ty))


@lowers("assume", "optimization_barrier", "pragma")
def same(low: ThreadLowering, op: Operation) -> None:
    """Binds the same values: assumptions and hints change none."""
    for value, result in zip(op.operands, op.results, strict=True):
        low.bind(result, low.held[value])


@lowers("mark_for_reuse", "message", "create_mem_token", "join_mem_token", "ext.grid_dependency")
def nothing(low: ThreadLowering, op: Operation) -> None:
    """Builds nothing. Hints are dropped, barriers enforce memory order, and launches run one after the other."""
    for result in op.results:
        low.bind(result, None)
