"""``nv_tileas.dot`` by ``wgmma``: operands by shared-memory descriptors, optionally A in registers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import builtin as b
from xdsl.dialects.arith import AndIOp, OrIOp, ShRUIOp
from xdsl.dialects.memref import ExtractAlignedPointerAsIndexOp
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileas.asynchronous import AsyncDotOp, FutureWaitOp
from tilewright.dialects.nv_tileas.ops import DotOp
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.dialects.nvgpu.wgmma import (
    STEP_BYTES,
    SUMS,
    WgmmaProductOp,
    WgmmaSumsOp,
)
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.layouts.layout import axis_bits
from tilewright.layouts.shared import ROW_BYTES, SharedLayout
from tilewright.lowering.nvgpu.types import I32, I64, INDEX, element_type, vector_like
from tilewright.lowering.scheduled.conversions import SharedTile, storage_tile
from tilewright.lowering.scheduled.pipelines import check_start
from tilewright.lowering.scheduled.state import ScheduledKernel, converted_sums
from tilewright.lowering.scheduled.table import lowers
from tilewright.passes.tileas.warpgroup_products import ELEMENTS, ROWS, WARPS, WarpgroupPlan

#: Fields of a descriptor, from PTX: addresses and distances in units of 16 bytes.
_UNIT, _ADDRESS_MASK = 4, 0x3FFFF
_LEADING, _STRIDE, _SWIZZLE = 16, 32, 62
#: The number of a swizzle by the bytes of its rows, of which 8 are a pattern.
_SWIZZLES = {128: 1, 64: 2, 32: 3}
_PATTERN_ROWS = 8


def warpgroup_dot(low: ScheduledKernel, op: DotOp | AsyncDotOp) -> None:
    """The product; of ``nv_tileas.dot``, waited for."""
    low.bind(op.result, _product(low, op))


@lowers("nv_tileas.async.dot")
def async_dot(low: ScheduledKernel, op: AsyncDotOp) -> None:
    """Starts the product; ``future_wait`` gives its sums."""
    warpgroup_dot(low, op)


@lowers("nv_tileas.async.future_wait")
def future_wait(low: ScheduledKernel, op: FutureWaitOp) -> None:
    """Waits until all products have ended but ``pending``, none without it."""
    given = low.value(op.source)
    properties: dict[str, Attribute] = {}
    if op.pending is not None:
        properties["waitGroup"] = b.IntegerAttr(int_property(op, "pending"), I32)
    low.bind(op.result, low.one(WgmmaSumsOp, (given,), given.type, properties))


def _product(low: ScheduledKernel, op: DotOp | AsyncDotOp) -> SSAValue:
    a_dims, b_dims, dims = (value.type.dims for value in (op.a, op.b, op.c))  # pyright: ignore[reportAttributeAccessIssue]
    name = T.element_name(op.b.type.element_type)  # pyright: ignore[reportAttributeAccessIssue]
    down, across = int_list(op.properties["warps"])
    bits, _ = ELEMENTS[name]
    plan = WarpgroupPlan(name, bits, (down // WARPS, across), a_dims, b_dims, dims)
    element = element_type(op.b.type.element_type)  # pyright: ignore[reportAttributeAccessIssue]
    if name == "tf32":
        element = b.FloatTF32Type()
    assert element is not None
    steps = a_dims[-1] * bits // 8 // STEP_BYTES
    depth = a_dims[-1] // steps
    properties: dict[str, Attribute] = {
        "mmaShape": _array([plan.rows, plan.columns, a_dims[-1]]),
        "element": element,
    }
    if isinstance(op, DotOp):
        properties["waitGroup"] = b.IntegerAttr(0, I32)
    for side in "ab":
        if enum_property(op, f"signedness_{side}") == "unsigned":
            properties[f"unsigned{side.upper()}"] = b.UnitAttr()
    *_, rows, along = axis_bits(a_dims)
    if isinstance(op.a.type, TiledViewType):
        starts = [
            block * ROWS << rows.start | step * depth << along.start
            for block in range(plan.rows // ROWS)
            for step in range(steps)
        ]
        left = _Matrix(low, op.a, inner=along, outer=rows)
        properties["aOffsets"] = left.offsets(starts)
        if left.is_transposed:
            properties["transposeA"] = b.UnitAttr()
        a = left.descriptor(plan.a.warp)
    else:
        a = low.value(op.a)
    *_, along, columns = axis_bits(b_dims)
    right = _Matrix(low, op.b, inner=along, outer=columns)
    properties["bOffsets"] = right.offsets([step * depth << along.start for step in range(steps)])
    if right.is_transposed:
        properties["transposeB"] = b.UnitAttr()
    column_bits = [
        basis if basis in {1 << bit for bit in columns} else 0 for basis in plan.accumulator.warp
    ]
    descriptor = right.descriptor(column_bits)
    c = low.value(op.c)
    sums = b.VectorType(SUMS[element], [prod(plan.dims) // prod(plan.groups) // 128])
    start = converted_sums(low, c, sums)
    found = low.one(WgmmaProductOp, (a, descriptor, start), sums, properties)
    wanted = vector_like(sums, c.type.element_type)  # pyright: ignore[reportAttributeAccessIssue]
    return converted_sums(low, found, wanted)


def _array(numbers: Sequence[int]) -> b.ArrayAttr[b.IntegerAttr]:
    return b.ArrayAttr([b.IntegerAttr(number, I64) for number in numbers])


class _Matrix:
    """An operand in storage: ``inner`` are the bits of its coordinate along k, ``outer`` those of its
    rows or columns."""

    def __init__(self, low: ScheduledKernel, storage: SSAValue, inner: range, outer: range):
        self.low, self.storage, self.tile = low, storage, storage_tile(low, storage)
        ty = storage.type
        assert isinstance(ty, TiledViewType)
        self.size = ELEMENTS[T.element_name(ty.element_type)][0] // 8
        layout = self.tile.layout
        #: Whether neighbours lie along the rows or columns of the result, not along k.
        self.is_transposed = layout.place(1 << outer.start) < layout.place(1 << inner.start)
        fast = outer if self.is_transposed else inner
        self._check(ty, axis_bits(ty.dims).index(fast))
        row = min(len(fast), (ROW_BYTES // self.size).bit_length() - 1)
        self.row_bytes = self.size << row
        panels = fast[row:]
        self.leading = layout.place(1 << panels[0]) * self.size if len(panels) else 0

    def _check(self, ty: TiledViewType, axis: int) -> None:
        """Raises ``not-lowered-to-threads`` for storage that no descriptor describes: one says how long rows are, and
        hardware swizzles them."""
        if ty.shared != SharedLayout.swizzled(ty.dims, axis, self.size):
            raise self.low.refuse(
                "an operand of wgmma does not have the swizzle of its rows",
                help="give its type the #nv_tileas.shared of that swizzle, or use mma_sync",
            )
        check_start(self.low, self.storage, axis)

    def offsets(self, starts: Sequence[int]) -> b.ArrayAttr[b.IntegerAttr]:
        """How many bytes behind the matrix's begin these elements are."""
        return _array([self.tile.layout.place(start) * self.size for start in starts])

    def descriptor(self, warps: Sequence[int]) -> SSAValue:
        """The descriptor of the matrix that the thread's warpgroup takes; ``warps`` are the elements
        that bits of the warp's number stand for, of which those of the group count.

        Its address is in the low word, in which no sum carries into what lies above: the high word is a constant, and
        stages cost sums of 32 bits."""
        low, tile = self.low, self.tile
        targets = [0] * (5 + 2) + [tile.layout.place(basis) for basis in warps[2:]]
        near = self.leading >> _UNIT << _LEADING
        far = _PATTERN_ROWS * self.row_bytes >> _UNIT << _STRIDE
        far |= _SWIZZLES[self.row_bytes] << _SWIZZLE
        with low.building(low.prologue):
            base = low.one(ExtractAlignedPointerAsIndexOp, (tile.memory,), INDEX)
            place = SharedTile(low, tile.memory, tile.layout).index(targets, 0)
            address = _as_i32(low, low.plus(base, low.times(place, low.constant(self.size, INDEX))))
            start = low.binary(ShRUIOp, low.binary(AndIOp, address, _ADDRESS_MASK), _UNIT)
            word = low.plus(start, near)
        if tile.start is not None:
            shift = _UNIT - (self.size.bit_length() - 1)
            distance = low.binary(ShRUIOp, _as_i32(low, tile.start), shift)
            word = low.plus(word, distance)
        signed = far - (1 << 64) if far >> 63 else far
        return low.binary(OrIOp, low.one(V.ExtUIOp, (word,), I64), signed)


def _as_i32(low: ScheduledKernel, value: SSAValue) -> SSAValue:
    return low.one(V.IndexCastOp, (value,), I32)
