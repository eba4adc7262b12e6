"""The state of lowering one kernel to the code of its threads."""

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
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.source_map import location_of
from tilewright.dialects.upstream.arith import vectors as arith_vectors
from tilewright.dialects.upstream.gpu import ops as gpu_ops
from tilewright.layouts import Layout as Distribution
from tilewright.lowering.block_builder import BlockBuilder, Properties
from tilewright.lowering.nvgpu.fragments import Fragments
from tilewright.lowering.nvgpu.layouts import Layout, coordinates_of
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

#: Stands for the exchange buffer until its size is known.
SCRATCH_PLACEHOLDER = b.MemRefType(I8, [1], memory_space=SHARED_SPACE)

if TYPE_CHECKING:
    from tilewright.lowering.nvgpu.hidden_memory import GivenMemory


@dataclass(frozen=True, slots=True)
class Memref:
    """Global memory behind an address: extents and strides, in elements, as numbers of 64 bits."""

    element: Attribute
    address: SSAValue
    sizes: tuple[SSAValue, ...]
    strides: tuple[SSAValue, ...]


@dataclass(frozen=True, slots=True)
class View:
    """Tiles cut out of a memref: tile axis i lies along axis ``axes[i]`` of it, and tile number k
    starts at element ``k * steps[i]``. ``sparse`` is the axis of the tile with an index for each
    row."""

    memref: Memref
    dims: tuple[int, ...]
    axes: tuple[int, ...]
    steps: tuple[int, ...]
    padding: str
    sparse: int | None


Held: TypeAlias = SSAValue | Memref | View | Fragments | None
"""What stands for a value: tokens have no run-time value."""


@dataclass(slots=True)
class Sync:
    """What threads have done since they last met, that others must not overtake."""

    shared: bool = False
    """Elements of the exchange buffer have been read."""
    reads: bool = False
    writes: bool = False
    """Global memory has been read, or written."""

    def clear(self) -> None:
        """Threads have met: nothing is left that others must not overtake."""
        self.shared = self.reads = self.writes = False

    def expect_all(self) -> None:
        """Anything may have happened before, as at the front of a loop."""
        self.shared = self.reads = self.writes = True


class ThreadLowering(BlockBuilder[Operation]):
    """Builds the per-thread code of a kernel.

    ``op`` is the operation being lowered, whose place new operations inherit. ``block`` is where
    they go; what is the same all along goes to the ``prologue``, once. ``origins`` tells for each
    new operation which one it stands for. ``lanes`` is set in bodies of folds, which stand for so
    many elements of each thread: scalars are vectors there. ``chosen`` tells, in a branch that not all of
    them take, which do.
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
        #: Where the exchange buffer begins: behind the storage that the program has allocated.
        self.conversion_start = 0
        self.constant_tables: list[Operation] = []
        self.held: dict[SSAValue, Held] = {}
        self._constants: dict[tuple[Attribute, Any], SSAValue] = {}
        self._coordinates: dict[tuple[int, ...], tuple[SSAValue, ...]] = {}
        self._ids: dict[int, SSAValue] = {}
        self._scratch: SSAValue | None = None

    # What the lowering of a kernel defines (driver).

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """What is known of the kernel."""

    @abstractmethod
    def lower(self, op: Operation) -> None:
        """Lower an operation, at the end of the block."""

    def block_body(self, block: Block) -> None:
        """Lower the operations of a block, at the end of the block."""
        for op in block.ops:
            self.lower(op)

    def distribution(self, ty: Attribute) -> Distribution:
        """Which elements of a tile of a type each thread holds."""
        return Distribution.dealt(prod(T.dims_of(ty)), self.threads)

    @property
    @abstractmethod
    def given(self) -> GivenMemory:
        """The memory that the launch gives beside the arguments."""

    @abstractmethod
    def given_address(self, name: str) -> SSAValue:
        """The address of a global, of 64 bits."""

    @abstractmethod
    def global_type(self, name: str) -> T.MemrefType:
        """The type that the program gives a global."""

    @abstractmethod
    def scratch_of_block(self) -> SSAValue:
        """The address of the scratch memory that the block has."""

    @abstractmethod
    def table_name(self) -> str:
        """A name for one more constant table."""

    def either(
        self,
        condition: SSAValue | None,
        make: Callable[[], Sequence[SSAValue]],
        otherwise: Callable[[], Sequence[SSAValue]] = tuple,
    ) -> Sequence[SSAValue]:
        """What ``make`` gives where the condition holds, and what ``otherwise`` gives where it does
        not. No condition always holds.

        Barriers may stand in there only if all threads share the condition.
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
        """What stands for a scalar or tile."""
        found = self.held[old]
        assert isinstance(found, SSAValue), old
        if self.lanes is not None and not isinstance(found.type, b.VectorType):
            return self.splat(found, self.lanes)
        return found

    def values(self, old: Iterable[SSAValue]) -> list[SSAValue]:
        """What threads hold of each value."""
        return [self.value(value) for value in old]

    def operand(self, old: SSAValue, like: Attribute) -> SSAValue:
        """The same, where ``like`` is a vector as a vector: scalars hold for all elements."""
        found = self.value(old)
        if isinstance(like, b.VectorType) and not isinstance(found.type, b.VectorType):
            return self.splat(found, like.get_shape()[0])
        return found

    def memref(self, old: SSAValue) -> Memref:
        """What stands for a memref: its address, extents and strides."""
        found = self.held[old]
        assert isinstance(found, Memref)
        return found

    def view(self, old: SSAValue) -> View:
        """What stands for a tiled view: its memref, and how tiles lie in it."""
        found = self.held[old]
        assert isinstance(found, View)
        return found

    def bind(self, old: SSAValue, new: Held) -> None:
        """Let a value be stood for by ``new``, which takes its name."""
        self.held[old] = new
        if isinstance(new, SSAValue) and new.name_hint is None and old.name_hint is not None:
            new.name_hint = old.name_hint

    def type_of(self, ty: Attribute) -> Attribute:
        """What a thread holds of a scalar or tile type; refuses others."""
        element = element_type(T.element_of(ty))
        if element is None:
            raise self.refuse(f"threads hold no values of type '{ty}'")
        if isinstance(ty, T.TileType):
            return b.VectorType(element, [self.count(ty)])
        return element if self.lanes is None else b.VectorType(element, [self.lanes])

    def refuse(self, why: str, help: str = "") -> TileIRError:
        """The error that the operation at hand is not lowered."""
        return TileIRError.single(
            NOT_LOWERED,
            f"'{self.op.name}' is not lowered to threads: {why}",
            location_of(self.op),
            help=help,
        )

    # Operations.

    def add(self, op: Operation, block: Block | None = None) -> Operation:
        """Put a new operation at the end of the block, at the place of the one being lowered."""
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
        """The one result of a new operation."""
        return self.emit(kind, operands, (result,), properties)[0]

    # Numbers.

    def constant(self, number: float, ty: Attribute) -> SSAValue:
        """A number, or a vector of it, made once in the prologue."""
        key = (ty, (type(number), str(number)))
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self._make_constant(_attribute(number, ty), ty)
        return found

    def constant_vector(self, numbers: Sequence[int], element: Attribute) -> SSAValue:
        """A vector of these integers, made once in the prologue."""
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
        """A vector with the scalar in every place."""
        return self.one(vector.BroadcastOp, (scalar,), b.VectorType(scalar.type, [count]))

    def first(self, vector_value: SSAValue) -> SSAValue:
        """The first element of a vector."""
        op = vector.ExtractOp(vector_value, [0], scalar_of(vector_value.type))
        return self.add(op).results[0]

    def binary(self, kind: type[Operation], left: SSAValue, right: SSAValue | int) -> SSAValue:
        """An operation on two values of one type; a number stands for the constant of it."""
        if isinstance(right, int):
            right = self.constant(right, left.type)
        return self.one(kind, (left, right), left.type)

    def plus(self, left: SSAValue, right: SSAValue | int) -> SSAValue:
        """The sum; nothing is added for a plain 0."""
        return left if right == 0 else self.binary(AddiOp, left, right)

    def times(self, left: SSAValue, right: SSAValue | int) -> SSAValue:
        """The product; nothing is multiplied for a plain 1."""
        return left if right == 1 else self.binary(MuliOp, left, right)

    def both(self, left: SSAValue | None, right: SSAValue | None) -> SSAValue | None:
        """Whether two conditions hold, of which None always does."""
        if left is None or right is None:
            return left if right is None else right
        if isinstance(left.type, b.VectorType) and not isinstance(right.type, b.VectorType):
            right = self.splat(right, left.type.get_shape()[0])
        elif isinstance(right.type, b.VectorType) and not isinstance(left.type, b.VectorType):
            left = self.splat(left, right.type.get_shape()[0])
        return self.binary(AndIOp, left, right)

    def compare(self, predicate: str, left: SSAValue, right: SSAValue | int) -> SSAValue:
        """A comparison of integers."""
        if isinstance(right, int):
            right = self.constant(right, left.type)
        number = arith_vectors.INTEGER_PREDICATES.index(predicate)
        properties = {"predicate": b.IntegerAttr(number, I64)}
        ty = arith_vectors.i1_like(left.type)
        return self.one(arith_vectors.CmpiOp, (left, right), ty, properties)

    def select(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        """``yes`` where the condition holds, else ``no``; of the type of ``yes``."""
        return self.one(arith_vectors.SelectOp, (condition, yes, no), yes.type)

    def widen(self, value: SSAValue) -> SSAValue:
        """A number, or numbers, of 32 bits that are not negative, in 64 bits."""
        if scalar_of(value.type) == I64:
            return value
        ty = vector_like(value.type, I64)
        return self.one(arith_vectors.ExtUIOp, (value,), ty)

    def as_index(self, value: SSAValue) -> SSAValue:
        """A number of 64 bits as an index."""
        return self.one(arith_vectors.IndexCastOp, (value,), INDEX)

    # Where threads are, and which elements they hold.

    def layout(self, dims: Sequence[int]) -> Layout:
        """How the elements of a tile of these extents are spread over the threads."""
        return Layout(prod(dims), self.threads)

    def count(self, ty: Attribute) -> int:
        """How many elements of a tile of that type a thread holds."""
        return self.layout(T.dims_of(ty)).registers

    def numbers(self, ty: Attribute) -> SSAValue:
        """The row-major numbers of the thread's elements of a tile of that type: a vector of i32."""
        return self.ids(prod(T.dims_of(ty)))

    def places(self, ty: Attribute) -> Sequence[SSAValue]:
        """Their coordinates along each axis: vectors of i32."""
        return self.coordinates(T.dims_of(ty))

    def enter_regions(self, op: Operation) -> None:
        """What threads did before a region of ``op``, or in its turn before this one, may be
        unfinished in it, and what they did in it behind it."""
        self.sync.expect_all()

    def thread(self) -> SSAValue:
        """The number of the thread in its block, of 32 bits."""
        with self.building(self.prologue):
            found = self._ids.get(0)
            if found is None:
                x = {"dimension": DimensionAttr(DimensionEnum.X)}
                index = self.one(gpu_ops.ThreadIdOp, (), INDEX, x)
                found = self._ids[0] = self.one(arith_vectors.IndexCastOp, (index,), I32)
                found.name_hint = "thread"
        return found

    def ids(self, size: int) -> SSAValue:
        """The numbers of the thread's elements of a tile of that size: a vector of i32."""
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
        """The place of each of the thread's elements of a tile along each axis: vectors of i32."""
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
        """The place of the thread's first element of a tile along each axis: numbers of i32.

        Those of its other elements are these plus the coordinates of their ``Layout.offsets``.
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
        """Whether the thread is the first that holds its element of a tile of that size; None
        where each holds its own."""
        if size >= self.threads:
            return None
        return self.compare("ult", self.thread(), size)

    def linear(self, coordinates: Sequence[SSAValue], dims: Sequence[int]) -> SSAValue:
        """The numbers of elements at places, in row-major order."""
        total = coordinates[0]
        for place, extent in zip(coordinates[1:], dims[1:], strict=True):
            total = self.binary(AddiOp, self.times(total, extent), place)
        return total

    # Shared memory, and meeting.

    def scratch(self) -> SSAValue:
        """The exchange buffer; its type is known at the end."""
        if self._scratch is None:
            with self.building(self.prologue):
                poison = {"value": PoisonAttr()}
                self._scratch = self.one(PoisonOp, (), SCRATCH_PLACEHOLDER, poison)
        return self._scratch

    def offset_for_conversion(self, needs: int | None) -> int:
        """Where an exchange may begin to write; all threads have read what was there."""
        if self.sync.shared:
            self.barrier()
        return self.conversion_start

    def barrier(self) -> None:
        """All threads of the block wait for one another here."""
        self.emit(gpu_ops.BarrierOp)
        self.sync.clear()

    def before_read(self) -> None:
        """What other threads have written to global memory is there for reads that follow."""
        if self.sync.writes:
            self.barrier()
        self.sync.reads = True

    def before_write(self) -> None:
        """Threads meet first where others have read or written global memory since they last did."""
        if self.sync.writes or self.sync.reads:
            self.barrier()
        self.sync.writes = True


def _attribute(number: float, ty: Attribute) -> Attribute:
    """The value of a constant of a number or vector type."""
    if isinstance(ty, b.VectorType):
        return b.DenseIntOrFPElementsAttr.from_list(ty, [number])
    if isinstance(ty, b.IntegerType | b.IndexType):
        return b.IntegerAttr(int(number), ty)
    assert isinstance(ty, b.AnyFloat)
    return b.FloatAttr(float(number), ty)
