"""Operations with a body for each element; reductions and scans, as trees in shared memory.

Extents are powers of two. A reduction combines the halves of what is left, a scan each element with
the one so many places before it, so that both take logarithmically many turns. This is the order that
the reference machine calls a tree. Identities take no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith as A
from xdsl.ir import Block, SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.contraction import Fold, ReduceOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.shapes import GenerateOp
from tilewright.lowering.nvgpu.exchange import Buffer, Exchange
from tilewright.lowering.nvgpu.state import Threads
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import scalar_of


def run_body(low: Threads, body: Block, arguments: Sequence[SSAValue]) -> list[SSAValue]:
    """What a body that computes elements yields, for vectors of elements."""
    outer = low.lanes
    low.lanes = arguments[0].type.get_shape()[0]  # pyright: ignore[reportAttributeAccessIssue]
    for argument, value in zip(body.args, arguments, strict=True):
        low.bind(argument, value)
    *operations, end = body.ops
    for inner in operations:
        low.lower(inner)
    found = low.values(end.operands)
    low.lanes = outer
    return found


def combine(
    low: Threads, op: Fold, elements: Sequence[SSAValue], accumulated: Sequence[SSAValue]
) -> list[SSAValue]:
    """The body of a fold on vectors of elements."""
    pairs = [value for pair in zip(elements, accumulated, strict=True) for value in pair]
    return run_body(low, op.regions[0].blocks[0], pairs)


def _start(low: Threads, op: Fold) -> tuple[Exchange, list[Buffer], tuple[int, ...]]:
    """The operands of a fold in shared memory."""
    dims = T.dims_of(op.operands[0].type)
    values = low.values(op.operands)
    exchange = Exchange(low)
    buffers = [exchange.buffer(scalar_of(value.type), prod(dims)) for value in values]
    for buffer, value in zip(buffers, values, strict=True):
        exchange.put(buffer, value)
    exchange.meet()
    return exchange, buffers, dims


@lowers("reduce")
def reduce(low: Threads, op: ReduceOp) -> None:
    exchange, buffers, dims = _start(low, op)
    axis = int_property(op, "axis")
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
        elements = [exchange.take(buffer, second, mine) for buffer in buffers]
        accumulated = [exchange.take(buffer, first, mine) for buffer in buffers]
        for buffer, value in zip(buffers, combine(low, op, elements, accumulated), strict=True):
            exchange.put(buffer, value, first, mine)
        exchange.meet()
    wanted = T.dims_of(op.results[0].type)
    shape = wanted or (1,)
    places = list(low.coordinates(shape))
    if wanted:
        places.insert(axis, low.constant(0, places[0].type))
    at = low.linear(places, dims)
    found = [exchange.take(buffer, at) for buffer in buffers]
    for result, value in zip(op.results, found, strict=True):
        low.bind(result, value if wanted else low.first(value))


@lowers("scan")
def scan(low: Threads, op: ScanOp) -> None:
    exchange, buffers, dims = _start(low, op)
    axis, backwards = int_property(op, "axis"), is_set(op, "reverse")
    values = low.values(op.operands)
    distance = 1
    while distance < dims[axis]:
        places = list(low.coordinates(dims))
        along = places[axis]
        if backwards:
            follows = low.compare("ult", along, dims[axis] - distance)
            places[axis] = low.plus(along, distance)
        else:
            follows = low.compare("uge", along, distance)
            places[axis] = low.binary(A.SubiOp, along, distance)
        at = low.linear(places, dims)
        earlier = [exchange.take(buffer, at, follows) for buffer in buffers]
        later = combine(low, op, values, earlier)
        values = [low.select(follows, new, old) for new, old in zip(later, values, strict=True)]
        distance *= 2
        if distance < dims[axis]:
            exchange.meet()
            for buffer, value in zip(buffers, values, strict=True):
                exchange.put(buffer, value)
            exchange.meet()
    for result, value in zip(op.results, values, strict=True):
        low.bind(result, value)


@lowers("generate")
def generate(low: Threads, op: GenerateOp) -> None:
    """The body gets the place of each element, as indices."""
    places = [low.widen(at) for at in low.coordinates(T.dims_of(op.result.type))]
    (found,) = run_body(low, op.body.blocks[0], places)
    low.bind(op.result, found)
