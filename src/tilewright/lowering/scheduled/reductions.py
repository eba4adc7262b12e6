"""Reductions: registers first, then lanes by shuffles, then warps through shared memory.

The order is the same in every run: registers are combined in halves, lanes at distances that grow, warps
one after the other. The tile is full, so that no identity takes part.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import builtin as b
from xdsl.dialects import vector
from xdsl.dialects.arith import AndIOp
from xdsl.ir import SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.dialects.nvgpu.support import gpu_attributes, gpu_ops
from tilewright.layouts import Layout
from tilewright.layouts.layout import axis_bits
from tilewright.lowering.nvgpu.exchange import Exchange
from tilewright.lowering.nvgpu.folds import combine
from tilewright.lowering.nvgpu.types import I1, I32, scalar_of
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers


@lowers("nv_tileaa.reduce")
def reduce(low: ScheduledKernel, op: ReduceOp) -> None:
    dims, axis = T.dims_of(op.operands[0].type), int_property(op, "axis")
    layout = low.layout_of(op.operands[0].type)
    bits = axis_bits(dims)[axis]
    mask = sum(1 << bit for bit in bits)
    if any(basis & mask and basis & ~mask for basis in layout.bases):
        raise low.refuse("its layout mixes the reduced axis with others")
    values = _in_registers(low, op, low.values(op.operands), layout, mask)
    lanes = [bit for bit, basis in enumerate(layout.lane) if basis & mask]
    for bit in lanes:
        others = [_from_lane(low, value, 1 << bit) for value in values]
        values = combine(low, op, others, values)
    values = _across_warps(low, op, values, layout, dims, axis, mask)
    for result, value in zip(op.results, values, strict=True):
        low.bind(result, value if T.dims_of(result.type) else low.first(value))


def _in_registers(
    low: ScheduledKernel, op: ReduceOp, values: list[SSAValue], layout: Layout, mask: int
) -> list[SSAValue]:
    """What each thread's elements come to, in the order of the registers that stay."""
    kept = [bit for bit, basis in enumerate(layout.register) if not basis & mask]
    gone = [bit for bit, basis in enumerate(layout.register) if basis & mask]
    order = [
        sum((number >> position & 1) << bit for position, bit in enumerate(kept + gone))
        for number in range(layout.registers)
    ]
    values = [low.picked(value, order) for value in values]
    count = layout.registers
    for _ in gone:
        count //= 2
        lower = [low.picked(value, range(count)) for value in values]
        upper = [low.picked(value, range(count, 2 * count)) for value in values]
        values = combine(low, op, upper, lower)
    return values


def _from_lane(low: ScheduledKernel, value: SSAValue, distance: int) -> SSAValue:
    """The vectors that the lanes have whose number differs in one bit."""
    element = scalar_of(value.type)
    assert isinstance(value.type, b.VectorType)
    count = value.type.get_shape()[0]
    mode = {"mode": gpu_attributes.ShuffleModeAttr(gpu_attributes.ShuffleMode.XOR)}
    offset, width = low.constant(distance, I32), low.constant(32, I32)
    made = value
    for number in range(count):
        taken = vector.ExtractOp(value, [number], element)  # pyright: ignore[reportArgumentType]
        low.add(taken)
        found, _ = low.emit(
            gpu_ops.ShuffleOp, (taken.results[0], offset, width), (element, I1), mode
        )
        insert = vector.InsertOp(found, made, [number])  # pyright: ignore[reportArgumentType]
        made = low.add(insert).results[0]
    return made


def _across_warps(
    low: ScheduledKernel,
    op: ReduceOp,
    values: list[SSAValue],
    layout: Layout,
    dims: Sequence[int],
    axis: int,
    mask: int,
) -> list[SSAValue]:
    """Each warp's first lanes write what they have; then every thread reads what all warps have."""
    warps = [bit for bit, basis in enumerate(layout.warp) if basis & mask]
    if not warps:
        return values
    rest = layout.sliced(dims, axis)
    size = prod(dims) // dims[axis]
    idle = sum(1 << bit for bit, basis in enumerate(layout.lane) if basis & mask)
    seen = rest.free_thread_bits & ~(sum(1 << bit for bit in warps) << 5) | idle
    numbers = [0] * len(layout.warp)
    for position, bit in enumerate(warps):
        numbers[bit] = size << position
    targets = [*rest.lane, *(one | other for one, other in zip(rest.warp, numbers, strict=True))]
    places = _spread(low, low.thread_part(targets), rest.offsets)
    exchange = Exchange(low)
    buffers = [exchange.buffer(scalar_of(value.type), size << len(warps)) for value in values]
    owner = None
    if seen:
        with low.filling(low.prologue):
            owner = low.compare("eq", low.binary(AndIOp, low.thread(), seen), 0)
    always = low.constant(1, I1) if owner is None else owner
    for buffer, value in zip(buffers, values, strict=True):
        exchange.put(buffer, value, places, low.splat(always, rest.registers))
    exchange.meet()
    mine = _spread(low, low.thread_part(rest.thread), rest.offsets)
    found: list[SSAValue] = []
    for number in range(1 << len(warps)):
        taken = [exchange.take(buffer, low.plus(mine, number * size)) for buffer in buffers]
        found = taken if number == 0 else combine(low, op, taken, found)
    return found


def _spread(low: ScheduledKernel, first: SSAValue, steps: Sequence[int]) -> SSAValue:
    """A number plus each of the steps: a vector of i32."""
    with low.filling(low.prologue):
        found = low.splat(first, len(steps))
        return low.plus(found, low.constant_vector(steps, I32)) if any(steps) else found
