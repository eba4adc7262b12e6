"""The state of lowering one kernel to per-thread code."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects import builtin as b
from xdsl.dialects import scf, vector
from xdsl.dialects.arith import AddiOp, AndIOp, ConstantOp, MuliOp, ShRUIOp
from xdsl.dialects.gpu import DimensionAttr, DimensionEnum
from xdsl.dialects.ub import PoisonAttr, PoisonOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.analysis.tileaa import Facts
from tilewright.analysis.tileaa.geometry import HeldMemref, HeldView
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.source_map import location_of
from tilewright.dialects.upstream.arith import vectors as arith_vectors
from tilewright.dialects.upstream.gpu import ops as gpu_ops
from tilewright.layouts import Layout as Distribution
from tilewright.layouts.layout import coordinates_of
from tilewright.lowering.block_builder import BlockBuilder, Properties
from tilewright.lowering.nvgpu.fragments import Fragments
from tilewright.lowering.nvgpu.layouts import Layout
from tilewright.lowering.nvgpu.options import NOT_LOWERED, NvgpuOptions
from tilewright.lowering.nvgpu.types import (
    I8,
    I32,
    I64,
    INDEX,
    SHARED_SPACE,
    element_type,
    scalar_of,
    vector_like,
)

#: A kernel of more operations is refused: tiles are unrolled by the elements of a thread, and products by those of both
#: operands, so that building the code of a giant tile takes hours and all memory. So many take minutes.
MOST_OPERATIONS = 1 << 20
#: The type of the exchange buffer until its size is known.
SCRATCH_PLACEHOLDER = b.MemRefType(I8, [1], memory_space=SHARED_SPACE)

if TYPE_CHECKING:
    from tilewright.lowering.nvgpu.hidden_memory import GivenMemory


class Memref(HeldMemref[Attribute, SSAValue, SSAValue]):
    """A buffer in global memory: its address, extents and strides are i64."""

    __slots__ = ()


class View(HeldView[Memref, int, str]):
    """A memref cut into tiles."""

    __slots__ = ()


Held: TypeAlias = SSAValue | Memref | View | Fragments | None
"""What a value is bound to in per-thread code. None is for tokens, which have no run-time value."""


@dataclass(slots=True)
class Sync:
    """The memory accesses since the last barrier, on which later accesses of other threads may depend."""

    shared: bool = False
    """The exchange buffer has been read."""
    reads: bool = False
    writes: bool = False
    """Global memory has been read, or written."""

    def clear(self) -> None:
        """Forget all accesses: a barrier has ordered them."""
        self.shared = self.reads = self.writes = False

    def expect_all(self) -> None:
        """Assume every kind of access, as at the start of a loop body."""
        self.shared = self.reads = self.writes = True


class ThreadLowering(BlockBuilder[Operation]):
    """Builds the per-thread code of a kernel.

    ``op`` is the operation being lowered; new operations inherit its location. ``block`` is the insertion point, at its
    end. What does not depend on control flow goes to ``prologue`` and is built once. ``origins`` maps each new
    operation to the one it was lowered from. In the body of an element-wise region ``lanes`` is the number of elements
    per thread, and scalars of the body become vectors of that many. In a divergent branch ``chosen`` is the mask of the
    lanes that take it.
    """

    def __init__(self, options: NvgpuOptions, threads: int):
        super().__init__()
        self.options, self.threads = options, threads
        self.prologue = Block()
        self.block = Block()
        self.lanes: int | None = None
        self.chosen: SSAValue | None = None
        self.sync = Sync()
        self.scratch_bytes = 0
        #: Byte offset of the exchange buffer in shared memory: the end of the program's own allocations.
        self.conversion_start = 0
        self.constant_tables: list[Operation] = []
        self.held: dict[SSAValue, Held] = {}
        self._constants: dict[tuple[Attribute, Any], SSAValue] = {}
        self._coordinates: dict[tuple[int, ...], tuple[SSAValue, ...]] = {}
        self._ids: dict[int, SSAValue] = {}
        self._scratch: SSAValue | None = None

    # Defined by the lowering of a kernel (driver).

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """The results of the analyses of the kernel."""

    @abstractmethod
    def lower(self, op: Operation) -> None:
        """Lower one operation and append the result to ``block``."""

    def block_body(self, block: Block) -> None:
        """Lower the operations of a block and append the result to ``self.block``."""
        for op in block.ops:
            self.lower(op)

    def distribution(self, ty: Attribute) -> Distribution:
        """The layout of a tile of this type: which elements each thread holds."""
        return Distribution.dealt(prod(T.dims_of(ty)), self.threads)

    @property
    @abstractmethod
    def given(self) -> GivenMemory:
        """The memory that the launch passes beside the arguments."""

    @abstractmethod
    def given_address(self, name: str) -> SSAValue:
        """The address of a global, an i64."""

    @abstractmethod
    def global_type(self, name: str) -> T.MemrefType:
        """The declared type of a global."""

    @abstractmethod
    def scratch_of_block(self) -> SSAValue:
        """The address of the scratch memory of this block, an i64."""

    @abstractmethod
    def table_name(self) -> str:
        """A symbol name for the next constant table."""

    def either(
        self,
        condition: SSAValue | None,
        make: Callable[[], Sequence[SSAValue]],
        otherwise: Callable[[], Sequence[SSAValue]] = tuple,
    ) -> Sequence[SSAValue]:
        """Build ``scf.if``: the results of ``make`` where the condition holds, else those of ``otherwise``.

        Without a condition ``make`` is built in line. The branches may contain barriers only if the condition is
        uniform across the block.
        """
        if condition is None:
            return make()
        blocks = [Block(), Block()]
        types: list[Attribute] = []
        for block, work in zip(blocks, (make, otherwise), strict=True):
            with self.building(block):
                found = work()
                types = [value.type for value in found]
                self.emit(scf.YieldOp, found)
        return self.emit(scf.IfOp, (condition,), types, regions=[Region(block) for block in blocks])

    # Values.

    def value(self, old: SSAValue) -> SSAValue:
        """The per-thread value of a scalar or tile; a scalar is broadcast to ``lanes`` where they are set."""
        found = self.held[old]
        assert isinstance(found, SSAValue), old
        if self.lanes is not None and not isinstance(found.type, b.VectorType):
            return self.splat(found, self.lanes)
        return found

    def values(self, old: Iterable[SSAValue]) -> list[SSAValue]:
        """The per-thread value of each of the values."""
        return [self.value(value) for value in old]

    def operand(self, old: SSAValue, like: Attribute) -> SSAValue:
        """The per-thread value, broadcast to the length of ``like`` if that is a vector."""
        found = self.value(old)
        if isinstance(like, b.VectorType) and not isinstance(found.type, b.VectorType):
            return self.splat(found, like.get_shape()[0])
        return found

    def memref(self, old: SSAValue) -> Memref:
        """The bound memref of a value."""
        found = self.held[old]
        assert isinstance(found, Memref)
        return found

    def view(self, old: SSAValue) -> View:
        """The bound tiled view of a value."""
        found = self.held[old]
        assert isinstance(found, View)
        return found

    def bind(self, old: SSAValue, new: Held) -> None:
        """Bind a value to its per-thread counterpart, which inherits its name unless it has one."""
        self.held[old] = new
        if isinstance(new, SSAValue) and new.name_hint is None and old.name_hint is not None:
            new.name_hint = old.name_hint

    def type_of(self, ty: Attribute) -> Attribute:
        """The per-thread type of a scalar or tile: an element, or a vector of the thread's elements.

        Raises ``TileIRError`` (``not-lowered-to-threads``) for other types.
        """
        element = element_type(T.element_of(ty))
        if element is None:
            raise self.refuse(f"per-thread code has no values of type '{ty}'")
        if isinstance(ty, T.TileType):
            return b.VectorType(element, [self.count(ty)])
        return element if self.lanes is None else b.VectorType(element, [self.lanes])

    def refuse(self, why: str, help: str = "") -> TileIRError:
        """Returns the error ``not-lowered-to-threads`` for the current operation, to be raised."""
        return TileIRError.single(
            NOT_LOWERED,
            f"'{self.op.name}' cannot be lowered to per-thread code: {why}",
            location_of(self.op),
            help=help,
        )

    # Operations.

    def add(self, op: Operation, block: Block | None = None) -> Operation:
        """Append a new operation to ``block``, with the location of the current operation. Raises ``not-lowered-to-threads``
        if the kernel has too many."""
        if len(self.origins) >= MOST_OPERATIONS:
            raise self.refuse(
                f"the code of the kernel for one thread exceeds {MOST_OPERATIONS:,} operations here",
                help="use smaller tiles, and a loop over them",
            )
        self.place(op, self.op)
        (self.block if block is None else block).add_op(op)
        return op

    def one(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        result: Attribute,
        properties: Properties | None = None,
    ) -> SSAValue:
        """Build an operation and return its only result."""
        return self.emit(kind, operands, (result,), properties)[0]

    # Numbers.

    def constant(self, number: float, ty: Attribute) -> SSAValue:
        """A scalar or splat constant, built once in the prologue."""
        key = (ty, (type(number), str(number)))
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self._make_constant(_attribute(number, ty), ty)
        return found

    def constant_vector(self, numbers: Sequence[int], element: Attribute) -> SSAValue:
        """A vector constant of these integers, built once in the prologue."""
        ty = b.VectorType(element, [len(numbers)])
        key = (ty, tuple(numbers))
        found = self._constants.get(key)
        if found is None:
            value = b.DenseIntOrFPElementsAttr.from_list(ty, list(numbers))  # pyright: ignore[reportCallIssue, reportArgumentType]
            found = self._constants[key] = self._make_constant(value, ty)
        return found

    def _make_constant(self, value: Attribute, ty: Attribute) -> SSAValue:
        op = ConstantOp.create(result_types=(ty,), properties={"value": value})
        return self.add(op, self.prologue).results[0]

    def splat(self, scalar: SSAValue, count: int) -> SSAValue:
        """Broadcast a scalar to a vector of ``count`` elements."""
        return self.one(vector.BroadcastOp, (scalar,), b.VectorType(scalar.type, [count]))

    def first(self, vector_value: SSAValue) -> SSAValue:
        """The first element of a vector."""
        op = vector.ExtractOp(vector_value, [0], scalar_of(vector_value.type))
        return self.add(op).results[0]

    def binary(self, kind: type[Operation], left: SSAValue, right: SSAValue | int) -> SSAValue:
        """A binary operation on operands of one type; an ``int`` stands for a constant of that type."""
        if isinstance(right, int):
            right = self.constant(right, left.type)
        return self.one(kind, (left, right), left.type)

    def plus(self, left: SSAValue, right: SSAValue | int) -> SSAValue:
        """The sum; adding a literal 0 builds nothing."""
        return left if right == 0 else self.binary(AddiOp, left, right)

    def times(self, left: SSAValue, right: SSAValue | int) -> SSAValue:
        """The product; multiplying by a literal 1 builds nothing."""
        return left if right == 1 else self.binary(MuliOp, left, right)

    def both(self, left: SSAValue | None, right: SSAValue | None) -> SSAValue | None:
        """The conjunction of two conditions, where None is true.

        A scalar condition is broadcast if the other is a vector.
        """
        if left is None or right is None:
            return left if right is None else right
        if isinstance(left.type, b.VectorType) and not isinstance(right.type, b.VectorType):
            right = self.splat(right, left.type.get_shape()[0])
        elif isinstance(right.type, b.VectorType) and not isinstance(left.type, b.VectorType):
            left = self.splat(left, right.type.get_shape()[0])
        return self.binary(AndIOp, left, right)

    def compare(self, predicate: str, left: SSAValue, right: SSAValue | int) -> SSAValue:
        """An integer comparison by a predicate of ``arith.cmpi``, such as ``ult``; the result is i1, or a vector of
        it.
        """
        if isinstance(right, int):
            right = self.constant(right, left.type)
        number = arith_vectors.INTEGER_PREDICATES.index(predicate)
        properties = {"predicate": b.IntegerAttr(number, I64)}
        ty = arith_vectors.i1_like(left.type)
        return self.one(arith_vectors.CmpiOp, (left, right), ty, properties)

    def select(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        """``yes`` where the condition holds, else ``no``; the type is that of ``yes``."""
        return self.one(arith_vectors.SelectOp, (condition, yes, no), yes.type)

    def widen(self, value: SSAValue) -> SSAValue:
        """Zero-extend a scalar or vector of i32 to i64; i64 is returned as is."""
        if scalar_of(value.type) == I64:
            return value
        ty = vector_like(value.type, I64)
        return self.one(arith_vectors.ExtUIOp, (value,), ty)

    def as_index(self, value: SSAValue) -> SSAValue:
        """Cast an i64 to ``index``."""
        return self.one(arith_vectors.IndexCastOp, (value,), INDEX)

    # Thread numbers, and the elements that a thread holds.

    def layout(self, dims: Sequence[int]) -> Layout:
        """The layout of a tile of these extents."""
        return Layout(prod(dims), self.threads)

    def count(self, ty: Attribute) -> int:
        """The number of elements of a tile of this type per thread."""
        return self.layout(T.dims_of(ty)).registers

    def numbers(self, ty: Attribute) -> SSAValue:
        """The row-major numbers of the thread's elements, a vector of i32."""
        return self.ids(prod(T.dims_of(ty)))

    def places(self, ty: Attribute) -> Sequence[SSAValue]:
        """The coordinates of the thread's elements along each axis, vectors of i32."""
        return self.coordinates(T.dims_of(ty))

    def enter_regions(self, op: Operation) -> None:
        """Assume unfinished accesses on entry to a region of ``op`` and on exit from it.

        They may stem from before the region, or from an earlier iteration of it.
        """
        self.sync.expect_all()

    def thread(self) -> SSAValue:
        """The number of the thread in its block, an i32."""
        with self.building(self.prologue):
            found = self._ids.get(0)
            if found is None:
                x = {"dimension": DimensionAttr(DimensionEnum.X)}
                index = self.one(gpu_ops.ThreadIdOp, (), INDEX, x)
                found = self._ids[0] = self.one(arith_vectors.IndexCastOp, (index,), I32)
                found.name_hint = "thread"
        return found

    def ids(self, size: int) -> SSAValue:
        """The row-major numbers of the thread's elements of a tile of ``size`` elements, a vector of i32."""
        found = self._ids.get(size)
        if found is None:
            layout, thread = Layout(size, self.threads), self.thread()
            with self.building(self.prologue):
                if layout.is_replicated:
                    found = self.splat(self.binary(AndIOp, thread, size - 1), 1)
                else:
                    first = self.times(thread, layout.chunk)
                    found = self.splat(first, layout.registers)
                    if layout.registers > 1:
                        steps = self.constant_vector(layout.offsets, I32)
                        found = self.binary(AddiOp, found, steps)
                self._ids[size] = found
        return found

    def coordinates(self, dims: tuple[int, ...]) -> tuple[SSAValue, ...]:
        """The coordinates of the thread's elements of a tile along each axis, vectors of i32."""
        found = self._coordinates.get(dims)
        if found is None:
            layout = self.layout(dims)
            places = [coordinates_of(offset, dims) for offset in layout.offsets]
            made: list[SSAValue] = []
            for axis, first in enumerate(self.first_coordinates(dims)):
                steps = [place[axis] for place in places]
                with self.building(self.prologue):
                    number = self.splat(first, layout.registers)
                    if any(steps):
                        number = self.binary(AddiOp, number, self.constant_vector(steps, I32))
                    made.append(number)
            found = self._coordinates[dims] = tuple(made)
        return found

    def first_coordinates(self, dims: Sequence[int]) -> list[SSAValue]:
        """The coordinates of the thread's first element of a tile along each axis, i32 scalars.

        The other elements are at these plus the coordinates of their ``Layout.offsets``.
        """
        layout, inner = self.layout(dims), prod(dims)
        made: list[SSAValue] = []
        thread = self.thread()
        with self.building(self.prologue):
            first = self.times(thread, layout.chunk)
            most = prod(dims) if layout.is_replicated else self.threads * layout.chunk
            for extent in dims:
                inner //= extent
                shift = inner.bit_length() - 1
                number = first if shift == 0 else self.binary(ShRUIOp, first, shift)
                made.append(self.binary(AndIOp, number, min(extent, max(most // inner, 1)) - 1))
        return made

    def owned(self, size: int) -> SSAValue | None:
        """Whether the thread owns its element, that is, is the first of those that hold it.

        None for tiles that are not replicated, where every thread is an owner.
        """
        if size >= self.threads:
            return None
        return self.compare("ult", self.thread(), size)

    def linear(self, coordinates: Sequence[SSAValue], dims: Sequence[int]) -> SSAValue:
        """The row-major numbers of elements, from their coordinates."""
        total = coordinates[0]
        for place, extent in zip(coordinates[1:], dims[1:], strict=True):
            total = self.binary(AddiOp, self.times(total, extent), place)
        return total

    # Shared memory and barriers.

    def scratch(self) -> SSAValue:
        """The exchange buffer in shared memory. Its size, and so its type, is set when the kernel is complete."""
        if self._scratch is None:
            with self.building(self.prologue):
                poison = {"value": PoisonAttr()}
                self._scratch = self.one(PoisonOp, (), SCRATCH_PLACEHOLDER, poison)
        return self._scratch

    def offset_for_conversion(self, needs: int | None) -> int:
        """The byte offset in scratch memory of the buffer of a layout conversion.

        ``needs``: its bytes, if a pass has placed it. Adds a barrier if threads may still read it.
        """
        if self.sync.shared:
            self.barrier()
        return self.conversion_start

    def barrier(self) -> None:
        """Add a barrier of the block, which orders all accesses so far."""
        self.emit(gpu_ops.BarrierOp)
        self.sync.clear()

    def before_read(self) -> None:
        """Add a barrier before a read of global memory if threads may have written to it."""
        if self.sync.writes:
            self.barrier()
        self.sync.reads = True

    def before_write(self) -> None:
        """Add a barrier before a write to global memory if threads may have read or written it."""
        if self.sync.writes or self.sync.reads:
            self.barrier()
        self.sync.writes = True


def _attribute(number: float, ty: Attribute) -> Attribute:
    """The value attribute of a constant of a scalar or vector type."""
    if isinstance(ty, b.VectorType):
        return b.DenseIntOrFPElementsAttr.from_list(ty, [number])
    if isinstance(ty, b.IntegerType | b.IndexType):
        return b.IntegerAttr(int(number), ty)
    assert isinstance(ty, b.AnyFloat)
    return b.FloatAttr(float(number), ty)
