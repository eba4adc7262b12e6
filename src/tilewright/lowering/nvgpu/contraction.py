"""``dot``: by the tensor cores where they support the types (``mma``), else through shared memory, each thread
computing the elements it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import builtin as b
from xdsl.dialects import math as M
from xdsl.dialects import scf
from xdsl.dialects.arith import MulfOp, ShRUIOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.layouts.layout import coordinates_of
from tilewright.lowering.nvgpu.elementwise import float_cast
from tilewright.lowering.nvgpu.matrices import matrix, padding
from tilewright.lowering.nvgpu.memory import element_name
from tilewright.lowering.nvgpu.mma import plan_for, product
from tilewright.lowering.nvgpu.pieces import cut, dealt, together
from tilewright.lowering.nvgpu.shared_conversion import Buffer, SharedConversion, held_bytes
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import I32, scalar_of, vector_like, width_of
from tilewright.lowering.nvgpu.vectors import as_index, repeated, reshaped


@lowers("dot")
def dot(low: ThreadLowering, op: DotOp) -> None:
    """A matrix product on tensor cores where ``plan_for`` finds a plan, else per thread, from operands in shared
    memory.
    """
    plan = plan_for(low, op) if op.sfa is None else None
    if plan is not None:
        low.bind(op.result, product(low, op, plan))
        return
    if _shares_columns(low, op):
        _by_chunks(low, op)
        return
    a, other, c = low.values((op.a, op.b, op.c))
    sums = sum_type(c.type)
    start = to_sum(low, c, element_name(op.c), sums)
    found = _added_up(low, op, a, other, start, T.dims_of(op.c.type))
    low.bind(op.result, from_sum(low, found, element_name(op.c), c.type))


def _added_up(
    low: ThreadLowering,
    op: DotOp,
    a: SSAValue,
    other: SSAValue,
    sums: SSAValue,
    dims: tuple[int, ...],
) -> SSAValue:
    """The accumulator, a tile of ``dims``, plus the product of ``a`` and ``other``.

    Operands that do not fit into shared memory are staged in pieces. The leading axis is halved where each thread holds
    whole halves; else A and B are cut into pieces, in ascending order of k.
    """
    *batch, rows, columns = dims
    depth = T.dims_of(op.a.type)[-1]
    a_size, b_size = prod(batch) * rows * depth, prod(batch) * depth * columns
    sizes, values, counts = (a_size, b_size), (a, other), [1, 1]

    def held(number: int) -> int:
        return held_bytes(scalar_of(values[number].type), sizes[number] // counts[number])

    room = _room(low, op)
    lead = next((at for at, extent in enumerate(dims[:-1]) if extent > 1), None)
    shared = [a_size, prod(dims), *([b_size] if lead is not None and lead < len(batch) else [])]
    if held(0) + held(1) > room and op.sfa is None and lead is not None:
        least = min(held(1), room // 2) if lead >= len(batch) else 0
        if held(0) + least > room and min(shared) >= 2 * dealt(low):
            half = (*dims[:lead], dims[lead] // 2, *dims[lead + 1 :])
            lefts, totals = cut(low, a, 2), cut(low, sums, 2)
            rights = cut(low, other, 2) if lead < len(batch) else [other, other]
            parts = zip(lefts, rights, totals, strict=True)
            return together(low, [_added_up(low, op, *part, half) for part in parts])
    while held(0) + held(1) > room:
        larger = max((0, 1), key=held)
        if sizes[larger] // counts[larger] < 2 * dealt(low):
            break
        counts[larger] *= 2
    for left in enumerate(cut(low, a, counts[0]) if counts[0] > 1 else [a]):
        for right in enumerate(cut(low, other, counts[1]) if counts[1] > 1 else [other]):
            sums = _add_pieces(low, op, (left, right), (sizes, counts), sums, dims)
    return sums


def _add_pieces(
    low: ThreadLowering,
    op: DotOp,
    pieces: tuple[tuple[int, SSAValue], tuple[int, SSAValue]],
    cuts: tuple[tuple[int, int], Sequence[int]],
    start: SSAValue,
    dims: tuple[int, ...],
) -> SSAValue:
    """Accumulate the product of a piece of A and a piece of B.

    ``pieces`` has the number and the elements of each; ``cuts`` the element counts of both operands, and how many
    pieces each is cut into.
    """
    *batch_dims, _, columns = dims
    depth = T.dims_of(op.a.type)[-1]
    each = [size // count for size, count in zip(*cuts, strict=True)]
    shared_conversion = SharedConversion(low)
    buffers = [
        shared_conversion.buffer(scalar_of(value.type), size)
        for (_, value), size in zip(pieces, each, strict=True)
    ]
    for buffer, (_, value) in zip(buffers, pieces, strict=True):
        shared_conversion.put(buffer, value)
    scales = _scales(low, op, shared_conversion)
    shared_conversion.meet()
    *batch, row, column = low.coordinates(dims)
    count = low.layout(dims).registers
    a_start = low.times(low.linear([*batch, row], dims[:-1]), depth)
    b_start = column
    if batch:
        matrices = low.linear(batch, batch_dims)
        b_start = low.plus(low.times(matrices, depth * columns), column)
    lower, upper = 0, depth
    if prod(batch_dims) == 1 and cuts[1][1] <= depth:
        # A piece of B is a range of its rows.
        lower, upper = (depth * (pieces[1][0] + n) // cuts[1][1] for n in (0, 1))
    zero, one, end = (low.constant(n, I32) for n in (lower, 1, upper))
    body = Block(arg_types=[I32, start.type])
    with low.building(body):
        k = low.splat(body.args[0], count)
        places = [low.plus(a_start, k), low.plus(b_start, low.times(k, columns))]
        here: SSAValue | None = None
        for number, (piece, _) in enumerate(pieces):
            if cuts[1][number] > 1:
                places[number] = low.plus(places[number], -piece * each[number])
                here = low.both(here, low.compare("ult", places[number], each[number]))
        taken = [
            shared_conversion.take(buffer, place, here)
            for buffer, place in zip(buffers, places, strict=True)
        ]
        factors = [
            as_factor(
                low,
                value,
                element_name(origin),
                enum_property(op, f"signedness_{name}"),
                start.type,
            )
            for value, origin, name in zip(taken, (op.a, op.b), "ab", strict=True)
        ]
        if scales is not None:
            factors = scales.applied(low, op, factors, (row, column), k)
        total = add_product(low, factors[0], factors[1], body.args[1])
        if here is not None:
            total = low.select(here, total, body.args[1])
        low.emit(scf.YieldOp, (total,))
    (found,) = low.emit(scf.ForOp, (zero, end, one, start), (start.type,), regions=[Region(body)])
    return found


def _room(low: ThreadLowering, op: DotOp) -> int:
    """The shared memory that both operands may take together, in bytes."""
    scales = [value for value in (op.sfa, op.sfb) if value is not None]
    taken = sum(
        held_bytes(scalar_of(low.value(value).type), prod(T.dims_of(value.type)))
        for value in scales
    )
    return low.options.shared_bytes - low.conversion_start - taken


def _shares_columns(low: ThreadLowering, op: DotOp) -> bool:
    """Whether all chunks of a thread are in the same columns of the same matrix, so that a row of B is loaded once for
    all of them.
    """
    dims, layout = T.dims_of(op.c.type), low.layout(T.dims_of(op.c.type))
    width = min(layout.chunk, dims[-1])
    places = [coordinates_of(offset, dims) for offset in layout.offsets[::width]]
    a_dims, b_dims = T.dims_of(op.a.type), T.dims_of(op.b.type)
    element, other = (scalar_of(low.value(value).type) for value in (op.a, op.b))
    gap = padding(a_dims[-1], width_of(element))
    taken = held_bytes(element, prod(a_dims[:-1]) * (a_dims[-1] + gap))
    taken += held_bytes(other, prod(b_dims))
    return (
        op.sfa is None
        and taken <= _room(low, op)
        and width > 1
        and all(not any((*place[:-2], place[-1])) for place in places)
        and all(width_of(low.value(value).type) >= 8 for value in (op.a, op.b))
    )


def _by_chunks(low: ThreadLowering, op: DotOp) -> None:
    """Accumulate by chunks: in each iteration over k a thread loads one element of A per chunk, and one row of B for
    all chunks.
    """
    a_dims, b_dims, dims = (T.dims_of(value.type) for value in (op.a, op.b, op.c))
    depth, columns, shape = a_dims[-1], dims[-1], (prod(dims[:-1]), dims[-1])
    layout = low.layout(dims)
    width = min(layout.chunk, columns)
    a, other, c = low.values((op.a, op.b, op.c))
    shared_conversion = SharedConversion(low)
    element = scalar_of(a.type)
    rows = matrix(
        shared_conversion, low, element, (shape[0], depth), padding(depth, width_of(element))
    )
    lines = matrix(shared_conversion, low, scalar_of(other.type), (prod(b_dims[:-1]), columns), 0)
    rows.put(a)
    lines.put(other)
    shared_conversion.meet()
    sums = sum_type(c.type)
    start = to_sum(low, c, element_name(op.c), sums)
    with low.building(low.prologue):
        row, column = low.first_coordinates(shape)
        steps = [coordinates_of(at, shape)[0] * rows.stride for at in layout.offsets[::width]]
        first = low.splat(low.times(row, rows.stride), len(steps))
        places = low.plus(first, low.constant_vector(steps, I32))
        across = as_index(low, column)
        matrix_number = low.first_coordinates((shape[0] // dims[-2], dims[-2] * columns))[0]
        line = low.times(matrix_number, depth)
    zero, one, end = (low.constant(n, I32) for n in (0, 1, depth))
    body = Block(arg_types=[I32, sums])
    with low.building(body):
        k = body.args[0]
        left = shared_conversion.take(rows.buffer, low.plus(places, low.splat(k, len(steps))))
        right = lines.read((as_index(low, low.plus(line, k)), across), width)
        factors = [
            as_factor(
                low,
                value,
                element_name(origin),
                enum_property(op, f"signedness_{name}"),
                vector_like(value.type, scalar_of(sums)),
            )
            for value, origin, name in ((left, op.a, "a"), (right, op.b, "b"))
        ]
        factors[0] = reshaped(low, factors[0], (len(steps), 1))
        stretched = [repeated(low, factor, (len(steps), width)) for factor in factors]
        total = add_product(low, stretched[0], stretched[1], body.args[1])
        low.emit(scf.YieldOp, (total,))
    (found,) = low.emit(scf.ForOp, (zero, end, one, start), (sums,), regions=[Region(body)])
    low.bind(op.result, from_sum(low, found, element_name(op.c), c.type))


@dataclass(frozen=True, slots=True)
class _Scales:
    """The scale factors of both operands in shared memory, one for each ``block`` elements along k."""

    buffers: tuple[Buffer, Buffer]
    shared_conversion: SharedConversion
    block: int

    def applied(
        self,
        low: ThreadLowering,
        op: DotOp,
        factors: Sequence[SSAValue],
        place: tuple[SSAValue, SSAValue],
        k: SSAValue,
    ) -> list[SSAValue]:
        """The factors times their scales, at ``place`` (row and column) of the result and at ``k``."""
        assert op.sfa is not None and op.sfb is not None
        row, column = place
        number = low.binary(ShRUIOp, k, self.block.bit_length() - 1)
        dims = [T.dims_of(value.type) for value in (op.sfa, op.sfb)]
        places = (
            low.plus(low.times(row, dims[0][-1]), number),
            low.plus(low.times(number, dims[1][-1]), column),
        )
        found: list[SSAValue] = []
        for factor, buffer, at, origin in zip(
            factors, self.buffers, places, (op.sfa, op.sfb), strict=True
        ):
            taken = self.shared_conversion.take(buffer, at)
            scale = float_cast(low, taken, factor.type, element_name(origin), "f32")
            found.append(low.binary(MulfOp, factor, scale))
        return found


def _scales(low: ThreadLowering, op: DotOp, shared_conversion: SharedConversion) -> _Scales | None:
    if op.sfa is None or op.sfb is None:
        return None
    made: list[Buffer] = []
    for origin in (op.sfa, op.sfb):
        value = low.value(origin)
        buffer = shared_conversion.buffer(scalar_of(value.type), prod(T.dims_of(origin.type)))
        shared_conversion.put(buffer, value)
        made.append(buffer)
    depth, count = T.dims_of(op.a.type)[-1], T.dims_of(op.sfa.type)[-1]
    return _Scales((made[0], made[1]), shared_conversion, depth // count)


def sum_type(ty: Attribute) -> Attribute:
    """The type of the accumulator: f32 for f16, else the type of the elements."""
    if isinstance(scalar_of(ty), b.Float16Type):
        return vector_like(ty, b.Float32Type())
    return ty


def to_sum(low: ThreadLowering, value: SSAValue, name: str, ty: Attribute) -> SSAValue:
    """Convert elements of type ``name`` to the accumulator type ``ty``."""
    if value.type == ty:
        return value
    return float_cast(low, value, ty, name, "f32")


def from_sum(low: ThreadLowering, value: SSAValue, name: str, ty: Attribute) -> SSAValue:
    """Round an accumulator to elements of type ``name``, whose per-thread type is ``ty``."""
    if value.type == ty:
        return value
    return float_cast(low, value, ty, "f32", name)


def as_factor(
    low: ThreadLowering, value: SSAValue, name: str, signedness: str, sums: Attribute
) -> SSAValue:
    """Convert an operand to the accumulator type."""
    if name[0] == "i":
        kind = V.ExtUIOp if signedness == "unsigned" else V.ExtSIOp
        return low.one(kind, (value,), sums)
    if name == "f64":
        return value
    return float_cast(low, value, sums, name, "f32")


def add_product(low: ThreadLowering, a: SSAValue, c: SSAValue, total: SSAValue) -> SSAValue:
    """``a * c + total``; integers wrap, floats are rounded once (fma)."""
    if isinstance(scalar_of(total.type), b.IntegerType):
        return low.plus(total, low.times(a, c))
    return low.one(M.FmaOp, (a, c, total), total.type)
