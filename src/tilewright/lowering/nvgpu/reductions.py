"""Operations with a region per element; reductions and scans, as trees in shared memory.

Extents are powers of two. Each step of a reduction combines the two halves of what is left; each step of a scan
combines an element with the one at a distance that doubles. Both take logarithmically many steps. The reference machine
calls this order a tree. Identities take no part. A tile too large for shared memory is first reduced in registers, as
far as a thread holds both elements of a pair, then some rows at a time. A scan of such a tile scans both halves, and
combines the total of the first with the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp, ReduceOrScan, ScanOp
from tilewright.dialects.nv_tileaa.ops.shapes import GenerateOp
from tilewright.lowering.nvgpu.pieces import (
    cut,
    dealt,
    fits,
    halves,
    rearranged,
    together,
)
from tilewright.lowering.nvgpu.shared_conversion import Buffer, SharedConversion, held_bytes
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import scalar_of


def run_body(
    low: ThreadLowering,
    body: Block,
    arguments: Sequence[SSAValue],
    known: Mapping[Operation, bool] | None = None,
) -> list[SSAValue]:
    """Lower the body of an element-wise region on vectors of elements; returns what it yields.

    ``known`` are comparisons in it whose result is known.
    """
    outer = low.lanes
    low.lanes = arguments[0].type.get_shape()[0]  # pyright: ignore[reportAttributeAccessIssue]
    for argument, value in zip(body.args, arguments, strict=True):
        low.bind(argument, value)
    *operations, end = body.ops
    for inner in operations:
        if known and inner in known:
            answers = [int(known[inner])] * (low.lanes or 1)
            low.bind(inner.results[0], low.constant_vector(answers, b.i1))
        else:
            low.lower(inner)
    found = low.values(end.operands)
    low.lanes = outer
    return found


def combine(
    low: ThreadLowering,
    op: ReduceOrScan,
    elements: Sequence[SSAValue],
    accumulated: Sequence[SSAValue],
    known: Mapping[Operation, bool] | None = None,
) -> list[SSAValue]:
    """Lower the body of a reduction or scan on vectors of elements. ``known`` as for ``run_body``."""
    pairs = [value for pair in zip(accumulated, elements, strict=True) for value in pair]
    return run_body(low, op.regions[0].blocks[0], pairs, known)


Shape = tuple[int, int, int]
"""The rows of a reduction or scan, its extent, and the stride of a step along it, in elements."""


def _shape(op: ReduceOrScan) -> Shape:
    dims, axis = T.dims_of(op.operands[0].type), int_property(op, "axis")
    return prod(dims[:axis]), dims[axis], prod(dims[axis + 1 :])


def _start(
    low: ThreadLowering, values: Sequence[SSAValue], size: int
) -> tuple[SharedConversion, list[Buffer]]:
    """Put the operands into shared memory."""
    shared_conversion = SharedConversion(low)
    buffers = [shared_conversion.buffer(scalar_of(value.type), size) for value in values]
    for buffer, value in zip(buffers, values, strict=True):
        shared_conversion.put(buffer, value)
    shared_conversion.meet()
    return shared_conversion, buffers


@lowers("reduce")
def reduce(low: ThreadLowering, op: ReduceOp) -> None:
    """Reduces along an axis as a tree: in shared memory at once where the values fit, else in pieces.

    Elements are therefore not combined in their order.
    """
    values, shape = low.values(op.operands), _shape(op)
    wanted = T.dims_of(op.results[0].type)
    if fits(low, values, prod(shape)):
        dims, axis = T.dims_of(op.operands[0].type), int_property(op, "axis")
        shared_conversion, buffers = _start(low, values, prod(dims))
        _halve(low, op, shared_conversion, buffers, dims, axis)
        found = _first_row(low, shared_conversion, buffers, dims, axis)
    else:
        found = _reduced(low, op, values, shape)
    for result, value in zip(op.results, found, strict=True):
        low.bind(result, value if wanted else low.first(value))


def _halve(
    low: ThreadLowering,
    op: ReduceOrScan,
    shared_conversion: SharedConversion,
    buffers: Sequence[Buffer],
    dims: tuple[int, ...],
    axis: int,
) -> None:
    """Reduce buffers along an axis, into the first element along it."""
    half = dims[axis]
    while half > 1:
        half //= 2
        shape = (*dims[:axis], half, *dims[axis + 1 :])
        places = list(low.coordinates(shape))
        mine = low.owned(prod(shape))
        first = low.linear(places, dims)
        places[axis] = low.plus(places[axis], half)
        second = low.linear(places, dims)
        # Only owners read: copies would read what owners write.
        elements = [shared_conversion.take(buffer, second, mine) for buffer in buffers]
        accumulated = [shared_conversion.take(buffer, first, mine) for buffer in buffers]
        for buffer, value in zip(buffers, combine(low, op, elements, accumulated), strict=True):
            shared_conversion.put(buffer, value, first, mine)
        shared_conversion.meet()


def _first_row(
    low: ThreadLowering,
    shared_conversion: SharedConversion,
    buffers: Sequence[Buffer],
    dims: tuple[int, ...],
    axis: int,
) -> list[SSAValue]:
    """The result of a reduction in buffers: the tile without the axis."""
    wanted = (*dims[:axis], *dims[axis + 1 :])
    places = list(low.coordinates(wanted or (1,)))
    if wanted:
        places.insert(axis, low.constant(0, places[0].type))
    at = low.linear(places, dims)
    return [shared_conversion.take(buffer, at) for buffer in buffers]


def _reduced(
    low: ThreadLowering, op: ReduceOrScan, values: Sequence[SSAValue], shape: Shape
) -> list[SSAValue]:
    """Reduce tiles that do not fit into shared memory together, in the same order."""
    rows, extent, inner = shape
    while extent > 1 and extent // 2 * inner >= dealt(low):
        # Each thread holds both elements of every pair.
        pairs = [halves(low, value, extent // 2 * inner) for value in values]
        values = combine(low, op, [p[1] for p in pairs], [p[0] for p in pairs])
        extent //= 2
    if extent == 1:
        return list(values)
    size, results = rows * extent * inner, rows * inner
    if fits(low, values, size):
        shared_conversion, buffers = _start(low, values, size)
        _halve(low, op, shared_conversion, buffers, (rows, extent, inner), 1)
        return _first_row(low, shared_conversion, buffers, (rows, extent, inner), 1)
    if rows > 1 and results >= 2 * dealt(low):
        parts = zip(*(cut(low, value, 2) for value in values), strict=True)
        found = [_reduced(low, op, part, (rows // 2, extent, inner)) for part in parts]
        return [together(low, both) for both in zip(*found, strict=True)]
    return _reduced_by_rows(low, op, values, (rows, extent, inner))


def _reduced_by_rows(
    low: ThreadLowering, op: ReduceOrScan, values: Sequence[SSAValue], shape: Shape
) -> list[SSAValue]:
    """Reduce some rows at a time; the results, which are few, have a buffer of their own."""
    rows, extent, inner = shape
    results, count = rows * inner, 1
    kept = sum(held_bytes(scalar_of(value.type), results) for value in values)
    while (
        count < rows
        and prod(shape) // count > dealt(low)
        and not fits(low, values, prod(shape) // count, beside=kept)
    ):
        count *= 2
    shared_conversion = SharedConversion(low)
    outs = [shared_conversion.buffer(scalar_of(value.type), results) for value in values]
    works = [
        shared_conversion.buffer(scalar_of(value.type), prod(shape) // count) for value in values
    ]
    part = (rows // count, extent, inner)
    for number, piece in enumerate(zip(*(cut(low, v, count) for v in values), strict=True)):
        for work, value in zip(works, piece, strict=True):
            shared_conversion.put(work, value)
        shared_conversion.meet()
        _halve(low, op, shared_conversion, works, part, 1)
        found = _first_row(low, shared_conversion, works, part, 1)
        places = low.plus(low.ids(results // count), number * (results // count))
        mine = low.owned(results // count)
        for out, value in zip(outs, found, strict=True):
            shared_conversion.put(out, value, places, mine)
        shared_conversion.meet()
    return [shared_conversion.take(out, low.ids(results)) for out in outs]


@lowers("scan")
def scan(low: ThreadLowering, op: ScanOp) -> None:
    """Prefix results along an axis, in the order of the elements, through shared memory.

    Combines as a tree, so float results may differ from those of one element after the other.
    """
    found = _scanned(low, op, low.values(op.operands), _shape(op))
    for result, value in zip(op.results, found, strict=True):
        low.bind(result, value)


def _scanned(
    low: ThreadLowering, op: ScanOp, values: Sequence[SSAValue], shape: Shape
) -> list[SSAValue]:
    """Scan tiles; those that do not fit into shared memory are scanned in two halves."""
    rows, extent, inner = shape
    size = prod(shape)
    if fits(low, values, size) or size < 2 * dealt(low):
        return _scanned_together(low, op, values, shape)
    parts = list(zip(*(cut(low, value, 2) for value in values), strict=True))
    if rows > 1:
        found = [_scanned(low, op, part, (rows // 2, extent, inner)) for part in parts]
        return [together(low, both) for both in zip(*found, strict=True)]
    backwards = is_set(op, "reverse")
    half = (1, extent // 2, inner)
    found = [_scanned(low, op, part, half) for part in parts]
    earlier, later = reversed(found) if backwards else found
    last = 0 if backwards else extent // 2 - 1

    def row(places: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return [places[0], low.constant(last, places[1].type), places[2]]

    carried = [rearranged(low, value, half, half, row) for value in earlier]
    later = combine(low, op, later, carried)
    ordered = (later, earlier) if backwards else (earlier, later)
    return [together(low, both) for both in zip(*ordered, strict=True)]


def _scanned_together(
    low: ThreadLowering, op: ScanOp, values: Sequence[SSAValue], dims: Shape
) -> list[SSAValue]:
    shared_conversion, buffers = _start(low, values, prod(dims))
    backwards = is_set(op, "reverse")
    distance = 1
    while distance < dims[1]:
        places = list(low.coordinates(dims))
        along = places[1]
        if backwards:
            follows = low.compare("ult", along, dims[1] - distance)
            places[1] = low.plus(along, distance)
        else:
            follows = low.compare("uge", along, distance)
            places[1] = low.binary(A.SubiOp, along, distance)
        at = low.linear(places, dims)
        earlier = [shared_conversion.take(buffer, at, follows) for buffer in buffers]
        later = combine(low, op, values, earlier)
        values = [low.select(follows, new, old) for new, old in zip(later, values, strict=True)]
        distance *= 2
        if distance < dims[1]:
            shared_conversion.meet()
            for buffer, value in zip(buffers, values, strict=True):
                shared_conversion.put(buffer, value)
            shared_conversion.meet()
    return list(values)


@lowers("generate")
def generate(low: ThreadLowering, op: GenerateOp) -> None:
    """Lowers the body on the coordinates of each element, as indices."""
    places = [low.widen(at) for at in low.places(op.result.type)]
    (found,) = run_body(low, op.body.blocks[0], places)
    low.bind(op.result, found)
