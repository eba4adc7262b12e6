"""``dot`` by ``mma.sync``, on fragments that warps load from shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Block, Region, SSAValue

from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nvgpu.ops.matrix import LdMatrixOp, MmaSyncOp
from tilewright.dialects.upstream.vector.shapes import ExtractStridedSliceOp
from tilewright.lowering.nvgpu.accumulators import (
    lane,
    to_fragments,
    to_tile,
    warp_place,
)
from tilewright.lowering.nvgpu.elementwise import float_cast
from tilewright.lowering.nvgpu.fragments import (
    FragmentLayout,
    Fragments,
    Instruction,
    instruction_for,
    layout_for,
)
from tilewright.lowering.nvgpu.matrices import Index, Matrix, matrix, padding
from tilewright.lowering.nvgpu.memory import element_name
from tilewright.lowering.nvgpu.shared_conversion import SharedConversion
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.types import I32, I64, INDEX, vector_like
from tilewright.lowering.nvgpu.vectors import as_index, moved, stacked
from tilewright.passes.tileas.products import SUMS, WIDER

#: With more multiplications than this the k axis becomes a loop.
_UNROLLED = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """How a product uses the tensor cores. ``name`` is the operand type in shared memory, ``depth`` the extent of k."""

    name: str
    instruction: Instruction
    layout: FragmentLayout
    depth: int

    @property
    def a_stride(self) -> int:
        """The stride of the rows of A in shared memory, in elements."""
        return self.depth + padding(self.depth, self.instruction.bits)

    @property
    def b_shape(self) -> tuple[int, int]:
        """The extents of B in shared memory, transposed for 8-bit elements."""
        along_k, columns = self.layout.batches * self.depth, self.layout.columns
        return (columns, along_k) if self.b_is_turned else (along_k, columns)

    @property
    def b_is_turned(self) -> bool:
        """Whether B is stored by columns: ``ldmatrix`` only transposes 16-bit elements."""
        return self.instruction.bits == 8

    @property
    def b_padding(self) -> int:
        """The padding after each row of B, in elements, by which rows fall into different banks."""
        bits, columns = self.instruction.bits, self.b_shape[1]
        return (padding if bits <= 16 else _padding_by_element)(columns, bits)

    @property
    def shared_bytes(self) -> int:
        """The shared memory of both operands, in bytes."""
        rows, columns = self.b_shape
        count = self.layout.batches * self.layout.rows * self.a_stride
        return (count + rows * (columns + self.b_padding)) * self.instruction.bits // 8 + 16


def plan_for(low: ThreadLowering, op: DotOp) -> Plan | None:
    """The plan for a product on tensor cores, else None.

    There is none for f32, which they do not support, and for unsigned integers, which ``nvgpu`` does not.
    """
    names = [WIDER.get(name, name) for name in map(element_name, (op.a, op.b))]
    name, total = names[0], element_name(op.c)
    if names[1] != name or op.sfa is not None or total not in SUMS.get(name, ()):
        return None
    if name == "i8" and any(enum_property(op, f"signedness_{x}") == "unsigned" for x in "ab"):
        return None
    *batch, rows, columns = T.dims_of(op.c.type)
    depth = T.dims_of(op.a.type)[-1]
    instruction = instruction_for(name, rows, columns, depth)
    if instruction is None:
        return None
    element = T.element_of(op.c.type)
    layout = layout_for(instruction, prod(batch), rows, columns, low.threads // 32, element)
    found = Plan(name, instruction, layout, depth)
    return found if found.shared_bytes <= low.options.shared_bytes - low.conversion_start else None


def carried_layouts(low: ThreadLowering, op: scf.ForOp) -> dict[int, FragmentLayout]:
    """The layouts of loop-carried values, by number, that are only used as accumulators and so can stay in fragments
    throughout.
    """
    body = op.regions[0].blocks[0]
    found = {
        number: _carried_layout(low, argument, body, number)
        for number, argument in enumerate(body.args[1:])
    }
    return {number: layout for number, layout in found.items() if layout is not None}


def _carried_layout(
    low: ThreadLowering, value: SSAValue, body: Block, number: int
) -> FragmentLayout | None:
    layout: FragmentLayout | None = None
    while True:
        uses = list(value.uses)
        if len(uses) != 1:
            return None
        user = uses[0].operation
        if user is body.last_op:
            return layout if uses[0].index == number else None
        if not isinstance(user, DotOp) or user.parent is not body or user.c is not value:
            return None
        plan = plan_for(low, user)
        if plan is None or layout not in (None, plan.layout):
            return None
        layout, value = plan.layout, user.result


def product(low: ThreadLowering, op: DotOp, plan: Plan) -> SSAValue | Fragments:
    """The product plus ``c``, in fragments if ``c`` is."""
    held = low.held[op.c]
    given = held
    if not isinstance(given, Fragments):
        given = to_fragments(low, low.value(op.c), plan.layout)
    sums = b.VectorType(plan.instruction.sums, plan.layout.vector.get_shape())
    is_integer = plan.name == "i8"
    if is_integer:
        # The instruction saturates but ``dot`` wraps. It accumulates from zero, which cannot overflow, and ``c`` is
        # added after.
        start = [low.constant(0, sums) for _ in given.parts]
    else:
        start = [_converted(low, part, plan.layout.vector, sums) for part in given.parts]
    found = _Product(low, op, plan).add_to(start)
    if is_integer:
        parts = [low.plus(one, other) for one, other in zip(found, given.parts, strict=True)]
    else:
        parts = [_converted(low, part, sums, plan.layout.vector) for part in found]
    made = Fragments(plan.layout, tuple(parts))
    return made if isinstance(held, Fragments) else to_tile(low, made)


def _converted(
    low: ThreadLowering, value: SSAValue, given: b.VectorType, wanted: b.VectorType
) -> SSAValue:
    """Convert between f16 and the f32 in which its products are accumulated."""
    if given == wanted:
        return value
    kind = A.ExtFOp if isinstance(given.element_type, b.Float16Type) else A.TruncFOp
    return low.one(kind, (value,), wanted)


class _Product:
    """The code of one product."""

    def __init__(self, low: ThreadLowering, op: DotOp, plan: Plan):
        self.low, self.plan, self.instruction = low, plan, plan.instruction
        layout, depth = plan.layout, plan.depth
        values = [self._operand(value) for value in (op.a, op.b)]
        shared_conversion = SharedConversion(low)
        element = plan.instruction.element
        shape = (layout.batches * layout.rows, depth)
        self.a = matrix(shared_conversion, low, element, shape, plan.a_stride - depth)
        shape = (layout.batches * depth, layout.columns)
        self.b_turned = plan.b_is_turned
        self.b = matrix(
            shared_conversion, low, element, shape, plan.b_padding, is_transposed=self.b_turned
        )
        self.a.put(values[0])
        self.b.put(values[1])
        shared_conversion.meet()
        with low.building(low.prologue):
            self.a_place, self.b_place = self._a_start(), self._b_start()

    def _operand(self, value: SSAValue) -> SSAValue:
        held, name = self.low.value(value), element_name(value)
        return float_cast(
            self.low,
            held,
            vector_like(held.type, self.instruction.element),
            name,
            self.plan.name,
        )

    def add_to(self, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """The accumulator, by fragments, plus the product."""
        low, depth, k = self.low, self.plan.depth, self.instruction.k
        if depth // k * len(sums) <= _UNROLLED or depth == k:
            for step in range(0, depth, k):
                sums = self._step(sums, step, None)
            return sums
        types = [value.type for value in sums]
        body = Block(arg_types=[INDEX, *types])
        with low.building(body):
            low.emit(scf.YieldOp, self._step(body.args[1:], 0, body.args[0]))
        bounds = [low.constant(number, INDEX) for number in (0, depth, k)]
        return low.emit(scf.ForOp, (*bounds, *sums), types, regions=[Region(body)])

    def _step(self, sums: Sequence[SSAValue], k: int, more: SSAValue | None) -> list[SSAValue]:
        """Accumulate ``instruction.k`` elements along k, starting at ``k + more``."""
        batches, rows, columns = self.plan.layout.counts
        left = iter(sums)
        found: list[SSAValue] = []
        for batch in range(batches):
            lefts = [self._load_a(batch, row, k, more) for row in range(rows)]
            rights = self._load_b(batch, columns, k, more)
            found += [self._multiply(a, other, next(left)) for a in lefts for other in rights]
        return found

    def _multiply(self, a: SSAValue, other: SSAValue, total: SSAValue) -> SSAValue:
        shape = (self.instruction.m, self.instruction.n, self.instruction.k)
        properties = {
            "mmaShape": b.ArrayAttr([b.IntegerAttr(extent, I64) for extent in shape]),
            "tf32Enabled": b.UnitAttr() if self.plan.name == "tf32" else None,
        }
        return self.low.one(MmaSyncOp, (a, other, total), total.type, properties)

    # Fragments of A.

    def _a_start(self) -> Index:
        """The indices of the thread's first fragment: of its element, or of the row that it passes to ``ldmatrix``."""
        low, layout = self.low, self.plan.layout
        batch, down, _ = warp_place(low, layout)
        row = low.plus(low.times(batch, layout.rows), low.times(down, layout.m))
        within = lane(low)
        if self.instruction.bits == 64:
            row = low.plus(row, low.binary(A.ShRUIOp, within, 2))
            return as_index(low, row), as_index(low, low.binary(A.AndIOp, within, 3))
        # ``ldmatrix`` loads matrices of 8 rows of 16 bytes: upper and lower, then those to the right.
        row = low.plus(row, low.binary(A.AndIOp, within, 15))
        across = low.binary(A.ShRUIOp, within, 4)
        if self.instruction.a_shape[0] < 4:
            across = low.constant(0, I32)
        return as_index(low, row), as_index(low, low.times(across, self.instruction.group))

    def _load_a(self, batch: int, row: int, k: int, more: SSAValue | None) -> SSAValue:
        layout = self.plan.layout
        down = batch * layout.grid[0] * layout.rows + row * layout.grid[1] * layout.m
        place = self._moved(self.a_place, (down, k), 1, more)
        if self.instruction.bits == 64:
            return stacked(self.low, [self.a.read(place, 1)])
        return self._ldmatrix(self.a, place, self.instruction.a_shape[0], transpose=False)

    # Fragments of B.

    @property
    def _at_once(self) -> int:
        """How many fragments of B one instruction loads."""
        if self.instruction.bits > 16:
            return 1
        return min(self.plan.layout.counts[2], 4 // self.instruction.b_shape[0])

    def _b_start(self) -> Index:
        low, layout = self.low, self.plan.layout
        batch, _, across = warp_place(low, layout)
        along_k = low.times(batch, self.plan.depth)
        column = low.times(across, layout.n)
        within = lane(low)
        if self.instruction.bits > 16:
            along_k = low.plus(along_k, low.binary(A.AndIOp, within, 3))
            column = low.plus(column, low.binary(A.ShRUIOp, within, 2))
            return as_index(low, along_k), as_index(low, column)
        pieces = self.instruction.b_shape[0]
        number = low.binary(A.AndIOp, low.binary(A.ShRUIOp, within, 3), pieces * self._at_once - 1)
        piece = low.binary(A.AndIOp, number, pieces - 1)
        fragment = low.binary(A.ShRUIOp, number, pieces.bit_length() - 1) if pieces > 1 else number
        along_k = low.plus(along_k, low.times(piece, self.instruction.group))
        column = low.plus(column, low.times(fragment, layout.grid[2] * layout.n))
        row = low.binary(A.AndIOp, within, 7)
        if self.b_turned:
            return as_index(low, low.plus(column, row)), as_index(low, along_k)
        return as_index(low, low.plus(along_k, row)), as_index(low, column)

    def _load_b(self, batch: int, columns: int, k: int, more: SSAValue | None) -> list[SSAValue]:
        layout, shape = self.plan.layout, self.instruction.b_shape
        along_k = batch * layout.grid[0] * self.plan.depth + k
        found: list[SSAValue] = []
        for column in range(0, columns, self._at_once):
            across = column * layout.grid[2] * layout.n
            steps = (across, along_k) if self.b_turned else (along_k, across)
            place = self._moved(self.b_place, steps, int(self.b_turned), more)
            if self.instruction.bits > 16:
                found.append(self._read_b(place))
                continue
            loaded = self._ldmatrix(
                self.b, place, shape[0] * self._at_once, transpose=not self.b_turned
            )
            found += self._cut(loaded)
        return found

    def _read_b(self, place: Index) -> SSAValue:
        """Load a fragment element by element."""
        low = self.low
        rows = [
            self.b.read((moved(low, place[0], self.instruction.group * number), place[1]), 1)
            for number in range(self.instruction.b_shape[0])
        ]
        return stacked(low, rows)

    def _cut(self, loaded: SSAValue) -> list[SSAValue]:
        """Split fragments that were loaded by one instruction."""
        if self._at_once == 1:
            return [loaded]
        shape = self.instruction.b_shape
        ty = b.VectorType(self.instruction.element, shape)

        def numbers(*values: int) -> b.ArrayAttr:
            return b.ArrayAttr([b.IntegerAttr(value, I64) for value in values])

        return [
            self.low.one(
                ExtractStridedSliceOp,
                (loaded,),
                ty,
                {
                    "offsets": numbers(number * shape[0]),
                    "sizes": numbers(shape[0]),
                    "strides": numbers(1),
                },
            )
            for number in range(self._at_once)
        ]

    def _ldmatrix(self, source: Matrix, place: Index, count: int, *, transpose: bool) -> SSAValue:
        self.low.sync.shared = True
        ty = b.VectorType(source.element, [count, self.instruction.per_register])
        properties = {
            "transpose": b.IntegerAttr(int(transpose), b.IntegerType(1)),
            "numTiles": b.IntegerAttr(count, I32),
        }
        return self.low.one(LdMatrixOp, (source.memory, *place), ty, properties)

    def _moved(
        self, place: Index, steps: tuple[int, int], k_axis: int, more: SSAValue | None
    ) -> Index:
        """An index advanced by ``steps``, and by ``more`` along the k axis."""
        low = self.low
        with low.building(low.prologue):
            found = [moved(low, at, step) for at, step in zip(place, steps, strict=True)]
        if more is not None:
            found[k_axis] = low.plus(found[k_axis], more)
        return found[0], found[1]


def _padding_by_element(columns: int, bits: int) -> int:
    """The padding per row, in elements, where lanes load single elements of 32 or 64 bits: rows of B at the same column
    fall into different banks.
    """
    if bits == 64:
        return 4
    return 0 if columns == 8 else 8
