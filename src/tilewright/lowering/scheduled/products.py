"""``nv_tileas.dot`` by ``mma.sync``, on fragments that are in registers, or come from shared memory by
``ldmatrix``."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import builtin as b
from xdsl.ir import SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileas.ops import DotOp, atom_of
from tilewright.dialects.nv_tileas.storage import base_of
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.dialects.nvgpu.ops.matrix import LdMatrixOp, MmaSyncOp
from tilewright.layouts.layout import axis_bits
from tilewright.lowering.nvgpu.fragments import instruction_for
from tilewright.lowering.nvgpu.types import I32, I64, vector_like
from tilewright.lowering.nvgpu.vectors import reshaped
from tilewright.lowering.scheduled.conversions import SharedTile, storage_tile
from tilewright.lowering.scheduled.state import ScheduledKernel, converted_sums
from tilewright.lowering.scheduled.table import lowers
from tilewright.lowering.scheduled.warpgroups import warpgroup_dot
from tilewright.passes.tileas.products import FRAGMENTS, Plan


@lowers("nv_tileas.dot")
def dot(low: ScheduledKernel, op: DotOp) -> None:
    if atom_of(op) == "wgmma":
        warpgroup_dot(low, op)
        return
    product = _Product(low, op)
    c = low.value(op.c)
    shape = product.instruction.c_shape
    given = low.cut(c, prod(shape))
    sums = b.VectorType(product.instruction.sums, [prod(shape)])
    is_integer = isinstance(product.instruction.sums, b.IntegerType)
    if is_integer:
        # The instruction saturates, and sums wrap: it adds up from zero, which cannot overflow.
        start = [low.constant(0, sums) for _ in given]
    else:
        start = [converted_sums(low, value, sums) for value in given]
    found = product.add_to([reshaped(low, value, shape) for value in start])
    found = [reshaped(low, value, [prod(shape)]) for value in found]
    if is_integer:
        found = [low.plus(one, other) for one, other in zip(found, given, strict=True)]
    wanted = vector_like(sums, c.type.element_type)  # pyright: ignore[reportAttributeAccessIssue]
    low.bind(op.result, low.joined([converted_sums(low, value, wanted) for value in found]))


class _Product:
    """One product while it is written."""

    def __init__(self, low: ScheduledKernel, op: DotOp):
        self.low = low
        a_dims, b_dims, dims = (_dims(value) for value in (op.a, op.b, op.c))
        name = T.element_name(op.a.type.element_type)  # pyright: ignore[reportAttributeAccessIssue]
        instruction = instruction_for(name, dims[-2], dims[-1], a_dims[-1])
        assert instruction is not None, "the pass chose a product that there is"
        self.name, self.instruction = name, instruction
        fragment = next(
            fragment
            for fragment in FRAGMENTS[name]
            if (fragment.m, fragment.n, fragment.k) == (instruction.m, instruction.n, instruction.k)
        )
        down, across = int_list(op.properties["warps"])
        self.plan = Plan(name, fragment, (down, across), a_dims, b_dims, dims)
        self.batches = prod(dims[:-2])
        self.rows = max(dims[-2] // fragment.m // down, 1)
        self.columns = max(dims[-1] // fragment.n // across, 1)
        self.depth = a_dims[-1] // fragment.k
        self.a = self._operand(op.a, instruction.a_shape)
        self.b = self._operand(op.b, instruction.b_shape)

    def _operand(self, value: SSAValue, shape: tuple[int, int]) -> SharedTile | list[SSAValue]:
        """An operand in shared memory, or its fragments."""
        low = self.low
        if isinstance(value.type, TiledViewType):
            low.before_storage(base_of(value), writes=False)
            return storage_tile(low, value)
        return [reshaped(low, cut, shape) for cut in low.cut(low.value(value), prod(shape))]

    def add_to(self, sums: Sequence[SSAValue]) -> list[SSAValue]:
        """The sums with the product added, in the order of fragments."""
        sums = list(sums)
        for k in range(self.depth):
            left = iter(range(len(sums)))
            for batch in range(self.batches):
                lefts = [self._left(batch, row, k) for row in range(self.rows)]
                rights = self._rights(batch, k)
                for a in lefts:
                    for other in rights:
                        number = next(left)
                        sums[number] = self._multiply(a, other, sums[number])
        return sums

    def _multiply(self, a: SSAValue, other: SSAValue, total: SSAValue) -> SSAValue:
        shape = (self.instruction.m, self.instruction.n, self.instruction.k)
        properties = {
            "mmaShape": b.ArrayAttr([b.IntegerAttr(extent, I64) for extent in shape]),
            "tf32Enabled": b.UnitAttr() if self.name == "tf32" else None,
        }
        return self.low.one(MmaSyncOp, (a, other, total), total.type, properties)

    # Fragments of A.

    def _left(self, batch: int, row: int, k: int) -> SSAValue:
        if isinstance(self.a, list):
            return self.a[(batch * self.rows + row) * self.depth + k]
        *_, rows, along = axis_bits(self.plan.a_dims)
        inst, tile = self.instruction, self.a
        group = inst.group.bit_length() - 1
        number = (
            (row * inst.m << rows.start) | (k * inst.k << along.start) | self._batch(batch, "a")
        )
        turned = _steps(tile, rows) < _steps(tile, along)
        if turned:
            lanes = [1 << along.start + bit for bit in range(3)] + [8 << rows.start]
        else:
            lanes = [1 << rows.start + bit for bit in range(4)]
        pieces = inst.a_shape[0]
        lanes.append(1 << along.start + group if pieces == 4 else 0)
        return self._ldmatrix(tile, lanes, self.plan.a.warp, number, pieces, turned)

    # Fragments of B.

    def _rights(self, batch: int, k: int) -> list[SSAValue]:
        if isinstance(self.b, list):
            return [
                self.b[(batch * self.columns + column) * self.depth + k]
                for column in range(self.columns)
            ]
        *_, along, columns = axis_bits(self.plan.b_dims)
        inst, tile = self.instruction, self.b
        group = inst.group.bit_length() - 1
        turned = _steps(tile, columns) < _steps(tile, along)
        if turned:
            lanes = [1 << along.start + bit for bit in range(3)]
        else:
            lanes = [1 << columns.start + bit for bit in range(3)]
        pieces = inst.b_shape[0]
        if pieces == 2:
            lanes.append(1 << along.start + group)
        at_once = min(self.columns, 4 // pieces)
        for bit in range(at_once.bit_length() - 1):
            lanes.append(inst.n << bit << columns.start)
        lanes += [0] * (5 - len(lanes))
        found: list[SSAValue] = []
        for column in range(0, self.columns, at_once):
            number = (column * inst.n << columns.start) | (k * inst.k << along.start)
            number |= self._batch(batch, "b")
            loaded = self._ldmatrix(tile, lanes, self.plan.b.warp, number, pieces * at_once, turned)
            flat = reshaped(self.low, loaded, [pieces * at_once * inst.per_register])
            cut = self.low.cut(flat, prod(inst.b_shape))
            found += [reshaped(self.low, value, inst.b_shape) for value in cut]
        return found

    def _batch(self, batch: int, which: str) -> int:
        """The number of the first element of a matrix of a batch."""
        dims = self.plan.a_dims if which == "a" else self.plan.b_dims
        return batch * dims[-1] * dims[-2]

    def _ldmatrix(
        self,
        tile: SharedTile,
        lanes: Sequence[int],
        warps: Sequence[int],
        number: int,
        pieces: int,
        transpose: bool,
    ) -> SSAValue:
        """Matrices of 8 rows of 16 bytes: each lane names the row that begins with the element that
        the XOR of ``lanes`` over its bits, of ``warps``, and ``number`` is."""
        targets = [tile.layout.place(basis) for basis in (*lanes, *warps)]
        place = tile.index(targets, tile.layout.place(number))
        ty = b.VectorType(self.instruction.element, [pieces, self.instruction.per_register])
        properties = {
            "transpose": b.IntegerAttr(int(transpose), b.IntegerType(1)),
            "numTiles": b.IntegerAttr(pieces, I32),
        }
        return self.low.one(LdMatrixOp, (tile.memory, place), ty, properties)


def _steps(tile: SharedTile, bits: range) -> int:
    """How far neighbours along an axis are apart in shared memory."""
    return tile.layout.place(1 << bits.start)


def _dims(value: SSAValue) -> tuple[int, ...]:
    ty = value.type
    assert isinstance(ty, T.TileType | TiledViewType)
    return ty.dims
