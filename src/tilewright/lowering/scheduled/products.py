"""``nv_tileas.dot`` by ``mma.sync``, with operands in registers or loaded by ``ldmatrix``."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import builtin as b
from xdsl.dialects import vector
from xdsl.dialects.arith import ExtFOp
from xdsl.ir import SSAValue

from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileas.ops import DotOp, atom_of
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.dialects.nvgpu.ops.matrix import LdMatrixOp, MmaSyncOp
from tilewright.dialects.upstream.vector.shapes import ExtractStridedSliceOp
from tilewright.layouts.layout import axis_bits
from tilewright.lowering.nvgpu.fragments import Instruction, instruction_for
from tilewright.lowering.nvgpu.types import I32, I64, vector_like
from tilewright.lowering.nvgpu.vectors import reshaped
from tilewright.lowering.scheduled.byte_matrices import is_transposed, transposed_words
from tilewright.lowering.scheduled.conversions import SharedTile, storage_tile
from tilewright.lowering.scheduled.state import ScheduledKernel, converted_sums
from tilewright.lowering.scheduled.table import lowers
from tilewright.lowering.scheduled.thread_products import thread_dot
from tilewright.lowering.scheduled.warpgroups import warpgroup_dot
from tilewright.passes.tileas.products import FRAGMENTS, TURNED_EXTENT, WIDENED, Plan
from tilewright.passes.tileas.thread_products import FMA


@lowers("nv_tileas.dot")
def dot(low: ScheduledKernel, op: DotOp) -> None:
    """Instructions of a warp for each block that the layout gives it, or of a warpgroup; sums stay in registers."""
    if atom_of(op) == "wgmma":
        warpgroup_dot(low, op)
        return
    if atom_of(op) == FMA:
        thread_dot(low, op)
        return
    product = _Product(low, op)
    c = low.value(op.c)
    shape = product.instruction.c_shape
    given = low.cut(c, prod(shape))
    sums = b.VectorType(product.instruction.sums, [prod(shape)])
    start = [converted_sums(low, value, sums) for value in given]
    found = product.add_to([reshaped(low, value, shape) for value in start])
    found = [reshaped(low, value, [prod(shape)]) for value in found]
    wanted = vector_like(sums, c.type.element_type)  # pyright: ignore[reportAttributeAccessIssue]
    low.bind(op.result, low.joined([converted_sums(low, value, wanted) for value in found]))


class _Product:
    """One product while it is written."""

    def __init__(self, low: ScheduledKernel, op: DotOp):
        self.low = low
        a_dims, b_dims, dims = (_dims(value) for value in (op.a, op.b, op.c))
        names = [T.element_name(value.type.element_type) for value in (op.a, op.b)]  # pyright: ignore[reportAttributeAccessIssue]
        instruction, right = (
            instruction_for(name, dims[-2], dims[-1], a_dims[-1]) for name in names
        )
        assert instruction is not None and right is not None, "the pass chose what there is"
        self.name, self.instruction, self.right = names[0], instruction, right
        fragment = next(
            fragment
            for fragment in FRAGMENTS[names[0]]
            if (fragment.m, fragment.n, fragment.k) == (instruction.m, instruction.n, instruction.k)
        )
        down, across = int_list(op.properties["warps"])
        self.is_widened = atom_of(op) == WIDENED
        self.unsigned = [enum_property(op, f"signedness_{side}") == "unsigned" for side in "ab"]
        self.batches, self.storages = prod(dims[:-2]), (op.a, op.b)
        self.a = self._operand(op.a, instruction.a_shape)
        self.b = self._operand(op.b, instruction.b_shape)
        turned = is_transposed(op.a, rows=-2, along=-1), is_transposed(op.b, rows=-1, along=-2)
        self.plan = Plan(names[0], fragment, (down, across), a_dims, b_dims, dims, turned=turned)
        self.rows = max(dims[-2] // fragment.m // down, 1)
        self.columns = max(dims[-1] // fragment.n // across, 1)
        self.depth = a_dims[-1] // fragment.k

    def _operand(self, value: SSAValue, shape: tuple[int, int]) -> SharedTile | list[SSAValue]:
        """An operand in shared memory, or its fragments."""
        low = self.low
        if isinstance(value.type, TiledViewType):
            return storage_tile(low, value)
        return [reshaped(low, cut, shape) for cut in low.cut(low.value(value), prod(shape))]

    def add_to(self, sums: Sequence[SSAValue]) -> list[SSAValue]:
        """The sums with the product added, in the order of fragments."""
        sums = list(sums)
        for k in range(self.depth):
            left = iter(range(len(sums)))
            for batch in range(self.batches):
                lefts = [self._parts(self._left(batch, row, k)) for row in range(self.rows)]
                rights = [self._parts(other) for other in self._rights(batch, k)]
                for a in lefts:
                    for other in rights:
                        number = next(left)
                        for pair in zip(a, other, strict=True):
                            sums[number] = self._multiply(*pair, sums[number])
        return sums

    def _parts(self, fragment: SSAValue) -> list[SSAValue]:
        """A fragment as instructions take it: where it is widened, those of two instructions. Of four neighbours
        along k one has the first two, the other the others, of both operands."""
        if not self.is_widened:
            return [fragment]
        low, ty = self.low, fragment.type
        assert isinstance(ty, b.VectorType)
        registers, count = ty.get_shape()
        found: list[SSAValue] = []
        for start in (0, count // 2):
            half = _slice(low, fragment, (0, start), (registers, count // 2))
            found.append(low.one(ExtFOp, (half,), vector_like(half.type, b.f16)))
        return found

    def _multiply(self, a: SSAValue, other: SSAValue, total: SSAValue) -> SSAValue:
        inst = self.instruction
        shape = (inst.m, inst.n, inst.k // 2 if self.is_widened else inst.k)
        is_integer = isinstance(inst.sums, b.IntegerType)
        properties = {
            "mmaShape": b.ArrayAttr([b.IntegerAttr(extent, I64) for extent in shape]),
            "tf32Enabled": b.UnitAttr() if self.name == "tf32" else None,
            "wraps": b.UnitAttr() if is_integer else None,
            "unsignedA": b.UnitAttr() if self.unsigned[0] else None,
            "unsignedB": b.UnitAttr() if self.unsigned[1] else None,
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
        if self.plan.turned[0]:
            even, odd = transposed_words(
                self.low, self.storages[0], along, self.plan.a.warp, number
            )
            words = self.low.picked(self.low.joined([even, odd]), (0, 2, 1, 3))
            return self._from_words(words, inst)
        turned = _steps(tile, rows) < _steps(tile, along)
        if turned:
            lanes = [1 << along.start + bit for bit in range(3)] + [8 << rows.start]
        else:
            lanes = [1 << rows.start + bit for bit in range(4)]
        pieces = inst.a_shape[0]
        lanes.append(1 << along.start + group if pieces == 4 else 0)
        return self._ldmatrix(tile, lanes, self.plan.a.warp, number, pieces, turned)

    def _from_words(self, words: SSAValue, inst: Instruction) -> SSAValue:
        """A fragment whose registers of 32 bits these are."""
        count = words.type.get_shape()[0]  # pyright: ignore[reportAttributeAccessIssue]
        ty = b.VectorType(inst.element, [count, inst.per_register])
        return self.low.one(vector.BitcastOp, (reshaped(self.low, words, [count, 1]),), ty)

    # Fragments of B.

    def _rights(self, batch: int, k: int) -> list[SSAValue]:
        if isinstance(self.b, list):
            return [
                self.b[(batch * self.columns + column) * self.depth + k]
                for column in range(self.columns)
            ]
        *_, along, columns = axis_bits(self.plan.b_dims)
        inst, tile = self.right, self.b
        if self.plan.turned[1]:
            return self._turned_rights(batch, k)
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
            found += [
                _slice(self.low, loaded, (pieces * place, 0), inst.b_shape)
                for place in range(at_once)
            ]
        return found

    def _turned_rights(self, batch: int, k: int) -> list[SSAValue]:
        """Fragments of even and odd columns of 16, in turns."""
        *_, along, columns = axis_bits(self.plan.b_dims)
        found: list[SSAValue] = []
        for pair in range(self.columns // 2):
            number = (pair * TURNED_EXTENT << columns.start) | (k * self.right.k << along.start)
            number |= self._batch(batch, "b")
            words = transposed_words(self.low, self.storages[1], along, self.plan.b.warp, number)
            found += [self._from_words(word, self.right) for word in words]
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
        memory = tile.memory.type
        assert isinstance(memory, b.MemRefType)
        ty = b.VectorType(memory.element_type, [pieces, self.instruction.per_register])
        properties = {
            "transpose": b.IntegerAttr(int(transpose), b.IntegerType(1)),
            "numTiles": b.IntegerAttr(pieces, I32),
        }
        return self.low.one(LdMatrixOp, (tile.memory, place), ty, properties)


def _slice(
    low: ScheduledKernel, value: SSAValue, start: tuple[int, int], shape: tuple[int, int]
) -> SSAValue:
    """A part of a vector of two dimensions."""
    ty = value.type
    assert isinstance(ty, b.VectorType)
    if tuple(ty.get_shape()) == tuple(shape):
        return value
    properties = {
        name: b.ArrayAttr([b.IntegerAttr(number, I64) for number in numbers])
        for name, numbers in (("offsets", start), ("sizes", shape), ("strides", (1, 1)))
    }
    result = b.VectorType(ty.element_type, shape)
    return low.one(ExtractStridedSliceOp, (value,), result, properties)


def _steps(tile: SharedTile, bits: range) -> int:
    """How far neighbours along an axis are apart in shared memory."""
    return tile.layout.place(1 << bits.start)


def _dims(value: SSAValue) -> tuple[int, ...]:
    ty = value.type
    assert isinstance(ty, T.TileType | TiledViewType)
    return ty.dims
