"""Operations with a body for each element; reductions and scans, as trees in shared memory.

Extents are powers of two. A reduction combines the halves of what is left, a scan each element with
the one so many places before it, so that both take logarithmically many turns. This is the order that
the reference machine calls a tree. Identities take no part. Tiles that are too large for shared memory
are reduced in registers as far as threads have both of a pair, then some rows at a time; a scan of them
is that of both halves, and what the first half gives combined with the second.
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
    """What a body that computes elements yields, for vectors of elements. ``known``: what comparisons in it give."""
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
    """The body of a fold on vectors of elements. ``known``: what comparisons in it give."""
    pairs = [value for pair in zip(elements, accumulated, strict=True) for value in pair]
    return run_body(low, op.regions[0].blocks[0], pairs, known)


Shape = tuple[int, int, int]
"""How many rows a fold has, the extent that it folds, and how many elements a step along it passes."""


def _shape(op: ReduceOrScan) -> Shape:
    dims, axis = T.dims_of(op.operands[0].type), int_property(op, "axis")
    return prod(dims[:axis]), dims[axis], prod(dims[axis + 1 :])


def _start(
    low: ThreadLowering, values: Sequence[SSAValue], size: int
) -> tuple[SharedConversion, list[Buffer]]:
    """The operands of a fold in shared memory."""
    shared_conversion = SharedConversion(low)
    buffers = [shared_conversion.buffer(scalar_of(value.type), size) for value in values]
    for buffer, value in zip(buffers, values, strict=True):
        shared_conversion.put(buffer, value)
    shared_conversion.meet()
    return shared_conversion, buffers


@lowers("reduce")
def reduce(low: ThreadLowering, op: ReduceOp) -> None:
    """Combines along an axis through shared memory, by halves where the values fit there at once, else in pieces.

    The order of sums is therefore not that of the elements.
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
    """Reduce what lies in buffers along an axis, into its first elements."""
    half = dims[axis]
    while half > 1:
        half //= 2
        shape = (*dims[:axis], half, *dims[axis + 1 :])
        places = list(low.coordinates(shape))
        mine = low.owned(prod(shape))
        first = low.linear(places, dims)
        places[axis] = low.plus(places[axis], half)
        second = low.linear(places, dims)
        # Only owners read: others would see what owners write.
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
    """What is left of a reduction in buffers: the tile without the axis."""
    wanted = (*dims[:axis], *dims[axis + 1 :])
    places = list(low.coordinates(wanted or (1,)))
    if wanted:
        places.insert(axis, low.constant(0, places[0].type))
    at = low.linear(places, dims)
    return [shared_conversion.take(buffer, at) for buffer in buffers]


def _reduced(
    low: ThreadLowering, op: ReduceOrScan, values: Sequence[SSAValue], shape: Shape
) -> list[SSAValue]:
    """A reduction of tiles that do not fit into shared memory together, in the same order."""
    rows, extent, inner = shape
    while extent > 1 and extent // 2 * inner >= dealt(low):
        # Each thread has both elements of every pair.
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
    """The same for few results, which get a buffer of their own: some rows at a time."""
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
    """Running results along an axis, in the order of the elements; through shared memory."""
    found = _scanned(low, op, low.values(op.operands), _shape(op))
    for result, value in zip(op.results, found, strict=True):
        low.bind(result, value)


def _scanned(
    low: ThreadLowering, op: ScanOp, values: Sequence[SSAValue], shape: Shape
) -> list[SSAValue]:
    """A scan; of tiles that do not fit into shared memory together in two parts."""
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
    """The body gets the place of each element, as indices."""
    places = [low.widen(at) for at in low.places(op.result.type)]
    (found,) = run_body(low, op.body.blocks[0], places)
    low.bind(op.result, found)
