"""``nv_tileas.dot`` by ordinary arithmetic: slabs of both operands come from shared memory, a few k at a time, and each
thread accumulates its rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.dialects.arith import AndIOp, ShLIOp, ShRUIOp, XOrIOp
from xdsl.ir import Block, Region, SSAValue

from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileas.ops import DotOp
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.layouts.conversions import WIDEST, ordered_for
from tilewright.layouts.layout import axis_bits
from tilewright.lowering.nvgpu.contraction import add_product, as_factor, from_sum, sum_type, to_sum
from tilewright.lowering.nvgpu.memory import element_name
from tilewright.lowering.nvgpu.types import I32, element_bytes, element_type, vector_like
from tilewright.lowering.nvgpu.vectors import as_index, moved
from tilewright.lowering.nvgpu.whole_vectors import load_whole
from tilewright.lowering.scheduled.conversions import storage_tile
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.passes.tileas.thread_products import ThreadPlan, slab_depth

#: Products of a thread beyond so many are made in a loop over slabs.
_UNROLLED = 768


def thread_dot(low: ScheduledKernel, op: DotOp) -> None:
    """Add a product to sums, in ascending order of k."""
    types = [value.type for value in (op.a, op.b)]
    assert all(isinstance(ty, TiledViewType) for ty in types), "the pass put them there"
    (a_dims, a_size), (_, b_size) = (
        (ty.dims, element_bytes(element_type(ty.element_type)))  # pyright: ignore
        for ty in types
    )
    dims, depth = op.c.type.dims, a_dims[-1]  # pyright: ignore[reportAttributeAccessIssue]
    plan = ThreadPlan(dims, depth, (a_size, b_size), low.threads)
    c = low.value(op.c)
    sums = sum_type(c.type)
    total = to_sum(low, c, element_name(op.c), sums)
    each = slab_depth(depth, plan.sizes)
    sides = [_Side(low, op, plan, side, each) for side in (0, 1)]

    def add(number: SSAValue | int, total: SSAValue) -> SSAValue:
        slabs = [side.read(number, total) for side in sides]
        for k in range(each):
            a, other = (side.factors(slab, k) for side, slab in zip(sides, slabs, strict=True))
            total = add_product(low, a, other, total)
        return total

    count = depth // each
    if plan.accumulator.registers * depth <= _UNROLLED or count == 1:
        for number in range(count):
            total = add(number, total)
    else:
        zero, one, end = (low.constant(n, I32) for n in (0, 1, count))
        body = Block(arg_types=[I32, sums])
        with low.building(body):
            low.emit(scf.YieldOp, (add(*body.args),))
        (total,) = low.emit(scf.ForOp, (zero, end, one, total), (sums,), regions=[Region(body)])
    low.bind(op.result, from_sum(low, total, element_name(op.c), c.type))


class _Side:
    """What a thread reads of one operand: slabs of ``depth`` along k."""

    def __init__(self, low: ScheduledKernel, op: DotOp, plan: ThreadPlan, side: int, depth: int):
        self.low, self.side, self.depth = low, side, depth
        value = (op.a, op.b)[side]
        self.tile = storage_tile(low, value)
        self.name = T.element_name(value.type.element_type)  # pyright: ignore[reportAttributeAccessIssue]
        self.signedness = enum_property(op, f"signedness_{'ab'[side]}")
        element = element_type(value.type.element_type)  # pyright: ignore[reportAttributeAccessIssue]
        assert element is not None
        self.element, size = element, plan.sizes[side]
        self.layout, _ = ordered_for(plan.reader(side), self.tile.layout, size)
        self.width = self.tile.layout.vector(self.layout, WIDEST // size)
        slabs = plan.depth // depth
        self.count = self.layout.registers // slabs
        #: For each bit of a slab's number the place of the element that it stands for.
        self.steps = [
            self.tile.layout.place(basis)
            for basis in self.layout.register[self.count.bit_length() - 1 :]
        ]
        self.threads = [self.tile.layout.place(basis) for basis in self.layout.thread]
        self.registers = _registers(self, plan)

    def read(self, number: SSAValue | int, sums: SSAValue) -> SSAValue:
        """The thread's elements of a slab, in the type of the sums."""
        parts = [self._vector(number, first) for first in range(0, self.count, self.width)]
        found = self.low.joined(parts)
        ty = vector_like(found.type, sums.type.element_type)  # pyright: ignore[reportAttributeAccessIssue]
        return as_factor(self.low, found, self.name, self.signedness, ty)

    def factors(self, slab: SSAValue, k: int) -> SSAValue:
        """For each sum of the thread its factor of this side, at a place of the slab along k."""
        return self.low.picked(slab, self.registers[k])

    def _vector(self, number: SSAValue | int, first: int) -> SSAValue:
        low, tile = self.low, self.tile
        place = tile.layout.place(self.layout.offsets[first])
        if isinstance(number, int):
            for bit, step in enumerate(self.steps):
                place ^= step * (number >> bit & 1)
            index = tile.index(self.threads, place)
        else:
            index = self._index(number, place)
        return load_whole(low, tile.memory, index, b.VectorType(self.element, [self.width]))

    def _index(self, number: SSAValue, place: int) -> SSAValue:
        """The place of a vector in the slab with a number that running tells."""
        low = self.low
        start = low.binary(XOrIOp, low.thread_part(self.threads), self._step(number))
        mask = 0
        for basis in (*self.threads, *self.steps):
            mask |= basis
        if place & mask:
            start = low.binary(XOrIOp, start, place & mask)
        found = as_index(low, start)
        if self.tile.start is not None:
            found = low.plus(found, self.tile.start)
        return moved(low, found, place & ~mask)

    def _step(self, number: SSAValue) -> SSAValue:
        """The XOR of those steps whose bit is set in a slab's number."""
        low = self.low
        moves: dict[int, int] = {}
        for source, target in enumerate(self.steps):
            for bit in range(target.bit_length()):
                if target >> bit & 1:
                    moves[bit - source] = moves.get(bit - source, 0) | 1 << source
        total: SSAValue | None = None
        for shift, mask in sorted(moves.items()):
            part = number
            if mask != (1 << len(self.steps)) - 1:
                part = low.binary(AndIOp, part, mask)
            if shift:
                part = low.binary(ShLIOp if shift > 0 else ShRUIOp, part, abs(shift))
            total = part if total is None else low.binary(XOrIOp, total, part)
        assert total is not None, "a loop has two slabs or more"
        return total


def _registers(side: _Side, plan: ThreadPlan) -> list[Sequence[int]]:
    """For each place of a slab along k, and each sum of a thread, the register that holds its factor."""
    number = {side.layout.offsets[register]: register for register in range(side.count)}
    *_, rows, columns = axis_bits(plan.dims)
    matrix = 1 << rows.stop
    found: list[Sequence[int]] = []
    for k in range(side.depth):
        elements: list[int] = []
        for offset in plan.accumulator.offsets:
            batch = offset // matrix
            row, column = offset % matrix >> rows.start, offset % (1 << columns.stop)
            if side.side == 0:
                elements.append((batch << len(rows) | row) * plan.depth + k)
            else:
                elements.append((batch * plan.depth + k << len(columns)) | column)
        found.append([number[element] for element in elements])
    assert len(number) == side.count and prod(plan.dims) == plan.accumulator.size
    return found
