"""Memory besides the arguments: globals, scratch memory of a block, and constants in tables.

Globals persist across launches, so the launch provides their memory: one pointer parameter each, after those of the
kernel. Scratch memory is one more pointer, with a part per block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import builtin as b
from xdsl.dialects import memref
from xdsl.dialects.gpu import DimensionAttr, DimensionEnum
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects.arith.constants import ConstantOp, bits_of_value
from tilewright.dialects.cuda_tile.types import DYNAMIC
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.extensions import AllocaOp
from tilewright.dialects.nv_tileaa.ops.memory import GetGlobalOp
from tilewright.dialects.nv_tileaa.ops.symbols import reference
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.dialects.upstream.gpu import ops as gpu_ops
from tilewright.dialects.upstream.memref.ops import GlobalOp
from tilewright.dialects.upstream.vector.indexed import GatherOp
from tilewright.lowering.nvgpu.elementwise import (
    bits_constant,
    cast_bits,
    held_bits,
    pointee_bytes,
)
from tilewright.lowering.nvgpu.state import Memref, ThreadLowering
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import I1, I8, I64, INDEX, element_bytes, scalar_of, width_of
from tilewright.numerics.element_types import FORMATS, signed

#: The alignment of the scratch memory of each block, in bytes.
SCRATCH_ALIGNMENT = 256


@dataclass(slots=True)
class GivenMemory:
    """The memory that a launch has to pass beside the arguments of a kernel.

    ``globals`` by name, one pointer each; ``scratch_bytes`` per block, 0 for none; ``offsets`` of the allocations in
    it.
    """

    globals: tuple[str, ...] = ()
    scratch_bytes: int = 0
    offsets: dict[Operation, int] = field(default_factory=dict)

    @classmethod
    def of(cls, operations: Iterable[Operation]) -> GivenMemory:
        """The memory that these operations need."""
        found = cls()
        names: dict[str, None] = {}
        for op in operations:
            if isinstance(op, GetGlobalOp):
                names[reference(op, "symbol")] = None
            elif isinstance(op, AllocaOp):
                found._add(op)
        found.globals = tuple(names)
        return found

    def _add(self, op: AllocaOp) -> None:
        pointer = op.results[0].type
        assert isinstance(pointer, T.PtrType)
        fmt = FORMATS[T.element_name(pointer.pointee)]
        alignment = max(int_property(op, "alignment"), 1)
        start = -(-self.scratch_bytes // alignment) * alignment
        self.offsets[op] = start
        size = max(fmt.bytes_for(int_property(op, "num_elem")), 1)
        whole = -(-(start + size) // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
        self.scratch_bytes = whole

    @property
    def pointers(self) -> int:
        """The number of pointer parameters that pass it."""
        return len(self.globals) + bool(self.scratch_bytes)


@lowers("get_global")
def get_global(low: ThreadLowering, op: GetGlobalOp) -> None:
    """The address of a global, passed by the launch, or a memref at it with static extents; strides count elements."""
    result = op.result
    address = low.given_address(reference(op, "symbol"))
    if isinstance(result.type, T.PtrType):
        low.bind(result, address)
        return
    actual = low.global_type(reference(op, "symbol"))
    seen = actual if DYNAMIC in result.type.dims else result.type  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(seen, T.MemrefType)
    strides = T.strides_of(actual if seen.dims == actual.dims else seen)
    sizes, steps = (
        tuple(low.constant(number, I64) for number in numbers) for numbers in (seen.dims, strides)
    )
    low.bind(result, Memref(seen.element_type, address, sizes, steps))


@lowers("ext.alloca")
def alloca(low: ThreadLowering, op: AllocaOp) -> None:
    """An address in the scratch memory of the block."""
    pointee_bytes(low, op.results[0].type)  # pyright: ignore[reportArgumentType]
    base, offset = low.scratch_of_block(), low.given.offsets[op]
    low.bind(op.results[0], low.plus(base, offset))


def block_number(low: ThreadLowering) -> SSAValue:
    """The number of the block in the grid, an i64; x varies fastest."""

    def along(kind: type[Operation], axis: DimensionEnum) -> SSAValue:
        index = low.one(kind, (), INDEX, {"dimension": DimensionAttr(axis)})
        return low.one(V.IndexCastOp, (index,), I64)

    x, y, z = (along(gpu_ops.BlockIdOp, axis) for axis in DimensionEnum)
    columns, rows = (along(gpu_ops.GridDimOp, a) for a in (DimensionEnum.X, DimensionEnum.Y))
    return low.plus(low.times(low.plus(low.times(z, rows), y), columns), x)


@lowers("arith.constant")
def constant(low: ThreadLowering, op: ConstantOp) -> None:
    """A scalar or splat constant; a tile whose elements differ is loaded from a constant table."""
    ty, bits = op.results[0].type, bits_of_value(op.properties["value"])
    element = T.element_of(ty)
    name = "i64" if isinstance(element, b.IndexType) else T.element_name(element)
    if len(set(bits)) > 1:
        held = [held_bits(pattern, name) for pattern in bits]
        low.bind(op.results[0], _from_table(low, op, held))
        return
    low.bind(op.results[0], bits_constant(low, bits[0], name, low.type_of(ty)))


def _from_table(low: ThreadLowering, op: Operation, bits: Sequence[int]) -> SSAValue:
    """The thread's elements of a constant tile with these bits, loaded from a table in memory."""
    ty = low.type_of(op.results[0].type)
    element = scalar_of(ty)
    word = b.IntegerType(8 * element_bytes(element))
    shape = [len(bits)]
    numbers = [signed(number, word.width.data) for number in bits]
    memory = b.MemRefType(word, shape)
    values = b.DenseIntOrFPElementsAttr.from_list(b.TensorType(word, shape), numbers)
    symbol = low.table_name()
    table = GlobalOp.create(
        properties={
            "sym_name": b.StringAttr(symbol),
            "sym_visibility": b.StringAttr("private"),
            "type": memory,
            "initial_value": values,
            "constant": b.UnitAttr(),
        }
    )
    low.constant_tables.append(table)
    base = low.one(memref.GetGlobalOp, (), memory, {"name": b.SymbolRefAttr(symbol)})
    count = low.count(op.results[0].type)
    words: Attribute = b.VectorType(word, [count])
    found = low.one(
        GatherOp,
        (
            base,
            low.constant(0, INDEX),
            low.numbers(op.results[0].type),
            low.constant(1, b.VectorType(I1, [count])),
            low.constant(0, words),
        ),
        words,
    )
    if element == I1:
        return low.compare("ne", found, low.constant(0, b.VectorType(I8, [count])))
    if (width := width_of(ty)) < word.width.data:
        found = low.one(V.TruncIOp, (found,), b.VectorType(b.IntegerType(width), [count]))
    return cast_bits(low, found, ty)
