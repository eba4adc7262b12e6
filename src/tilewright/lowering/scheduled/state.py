"""The state of lowering a kernel whose tiles have layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects import builtin as b
from xdsl.dialects.arith import AddiOp, AndIOp, ShLIOp, ShRUIOp, XOrIOp
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.analysis.tileaa import is_effect, must_stay
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp, GlobalOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.asynchronous import AsyncTiledLoadOp
from tilewright.dialects.nv_tileas.types import TiledViewType, layout_of
from tilewright.dialects.nvgpu.support.vector_shapes import ShuffleOp
from tilewright.layouts import Layout
from tilewright.layouts.layout import axis_bits
from tilewright.lowering.nvgpu.driver import Kernel
from tilewright.lowering.nvgpu.options import NvgpuOptions
from tilewright.lowering.nvgpu.types import I32, I64, element_bytes, element_type, scalar_of
from tilewright.lowering.scheduled.table import RULES

#: What storage of the block begins at a multiple of: the period of the widest swizzle.
STORAGE_ALIGNMENT = 1024


class ScheduledKernel(Kernel):
    """One kernel while it is lowered: a tile is the vector of what its layout gives each thread."""

    def __init__(
        self,
        func: FuncOp,
        options: NvgpuOptions,
        functions: Mapping[str, FuncOp],
        globals_: Mapping[str, GlobalOp],
    ):
        super().__init__(func, options, functions, globals_)
        self._parts: dict[tuple[int, ...], SSAValue] = {}
        self._places: dict[tuple[Layout, tuple[int, ...]], tuple[SSAValue, ...]] = {}
        self._numbers: dict[Layout, SSAValue] = {}
        #: Accesses to global memory, and to storage, since all threads have last met.
        self._pending: list[Operation] = []
        self._storage_reads: set[SSAValue] = set()
        self._storage_writes: set[SSAValue] = set()
        self.storage: dict[SSAValue, int] = {}
        self._allocate()

    def _allocate(self) -> None:
        """Give each storage its place in shared memory."""
        offset = 0
        for op in self.func.walk():
            if isinstance(op, S.AllocTensorOp):
                self.storage[op.result] = offset
                offset += -(-_bytes(op.result) // STORAGE_ALIGNMENT) * STORAGE_ALIGNMENT
        self.exchange_start = self.scratch_bytes = offset
        if offset:
            self.shared_alignment = STORAGE_ALIGNMENT
        self._ends = self._lifetimes()
        if offset > self.options.shared_bytes:
            raise self.refuse(
                f"its products keep {offset} bytes in shared memory, and a block has "
                f"{self.options.shared_bytes}",
                help="use smaller tiles, or fewer stages",
            )

    def _lifetimes(self) -> dict[SSAValue, Operation]:
        """By storage, the operation of the function's own block behind which nobody uses it."""
        found: dict[SSAValue, Operation] = {}
        for op in self.func.body.block.ops:
            for inner in op.walk():
                for value in inner.operands:
                    if isinstance(value.type, TiledViewType):
                        found[base_of(value)] = op
        return found

    def _end_lifetimes(self, op: Operation) -> None:
        """Memory of storage that nobody uses behind ``op`` may be taken for conversions."""
        ended = [storage for storage, last in self._ends.items() if last is op]
        if not ended:
            return
        for storage in ended:
            del self._ends[storage]
        self.sync.shared = True
        self.exchange_start = max(
            (self.storage[storage] + _bytes(storage) for storage in self._ends), default=0
        )

    def lower(self, op: Operation) -> None:
        self._lower(op)
        if op.parent is self.func.body.block:
            self._end_lifetimes(op)

    def _lower(self, op: Operation) -> None:
        rule = RULES.get(op.name)
        if rule is None or self.lanes is not None:
            super().lower(op)
            return
        outer, self.op = self.op, op
        rule(self, op)
        self.op = outer

    # Layouts.

    def distribution(self, ty: Attribute) -> Layout:
        return self.layout_of(ty)

    def layout_of(self, ty: Attribute) -> Layout:
        """The layout of a tile type; that of operations without a rule, where it has none."""
        return layout_of(ty) or Layout.dealt(prod(T.dims_of(ty)), self.threads)

    def count(self, ty: Attribute) -> int:
        return self.layout_of(ty).registers

    def thread_part(self, targets: Sequence[int]) -> SSAValue:
        """The XOR of those targets whose bit is set in the thread's number: a number of i32."""
        key = tuple(targets)
        found = self._parts.get(key)
        if found is not None:
            return found
        moves: dict[int, int] = {}
        for source, target in enumerate(targets):
            for bit in range(target.bit_length()):
                if target >> bit & 1:
                    moves[bit - source] = moves.get(bit - source, 0) | 1 << source
        thread = self.thread()
        with self.filling(self.prologue):
            total = self.constant(0, I32)
            for number, (shift, mask) in enumerate(sorted(moves.items())):
                part = thread
                if mask != self.threads - 1:
                    part = self.binary(AndIOp, part, mask)
                if shift:
                    part = self.binary(ShLIOp if shift > 0 else ShRUIOp, part, abs(shift))
                total = part if number == 0 else self.binary(XOrIOp, total, part)
        self._parts[key] = total
        return total

    def along(self, layout: Layout, dims: Sequence[int], axis: int) -> tuple[SSAValue, list[int]]:
        """The coordinate along an axis of the thread's first element, and for each register how much
        further its element is.

        Refuses layouts in which the two are not simply added.
        """
        bits = axis_bits(dims)[axis]
        low = bits.start

        def cut(number: int) -> int:
            return (number >> low) & ((1 << len(bits)) - 1)

        targets = [cut(basis) for basis in layout.thread]
        mask = 0
        for target in targets:
            mask |= target
        steps = [cut(offset) for offset in layout.offsets]
        if any(step & mask for step in steps):
            raise self.refuse("the places of its threads and registers overlap")
        return self.thread_part(targets), steps

    def numbers(self, ty: Attribute) -> SSAValue:
        layout = self.layout_of(ty)
        found = self._numbers.get(layout)
        if found is None:
            first = self.thread_part(layout.thread)
            found = self._numbers[layout] = self._spread(first, layout.offsets, layout.thread)
        return found

    def _spread(self, first: SSAValue, steps: Sequence[int], targets: Sequence[int]) -> SSAValue:
        """A vector of a number with each of the steps put in by XOR."""
        mask = 0
        for target in targets:
            mask |= target
        with self.filling(self.prologue):
            found = self.splat(first, len(steps))
            if any(steps):
                kind = XOrIOp if any(step & mask for step in steps) else AddiOp
                found = self.binary(kind, found, self.constant_vector(steps, I32))
        return found

    def places(self, ty: Attribute) -> Sequence[SSAValue]:
        layout, dims = self.layout_of(ty), T.dims_of(ty)
        key = (layout, dims)
        if key not in self._places:
            made: list[SSAValue] = []
            for bits in axis_bits(dims):
                keep = (1 << len(bits)) - 1
                targets = [basis >> bits.start & keep for basis in layout.thread]
                steps = [offset >> bits.start & keep for offset in layout.offsets]
                made.append(self._spread(self.thread_part(targets), steps, targets))
            self._places[key] = tuple(made)
        return self._places[key]

    def owner_of(self, layout: Layout) -> SSAValue | None:
        """Whether the thread is the one that owns its elements; None where all are."""
        mask = layout.free_thread_bits
        if not mask:
            return None
        with self.filling(self.prologue):
            return self.compare("eq", self.binary(AndIOp, self.thread(), mask), 0)

    # Vectors.

    def picked(self, value: SSAValue, registers: Sequence[int]) -> SSAValue:
        """A vector of these elements of a vector."""
        ty = value.type
        assert isinstance(ty, b.VectorType)
        if list(registers) == list(range(ty.get_shape()[0])):
            return value
        mask = b.DenseArrayBase.from_list(I64, list(registers))
        result = b.VectorType(scalar_of(ty), [len(registers)])
        return self.one(ShuffleOp, (value, value), result, {"mask": mask})

    def cut(self, value: SSAValue, width: int) -> list[SSAValue]:
        """A vector cut into vectors of ``width`` elements."""
        ty = value.type
        assert isinstance(ty, b.VectorType)
        return [
            self.picked(value, range(start, start + width))
            for start in range(0, ty.get_shape()[0], width)
        ]

    def joined(self, parts: Sequence[SSAValue]) -> SSAValue:
        """Vectors of one type one behind the other; their number is a power of two."""
        parts = list(parts)
        while len(parts) > 1:
            width = parts[0].type.get_shape()[0]  # pyright: ignore[reportAttributeAccessIssue]
            result = b.VectorType(scalar_of(parts[0].type), [2 * width])
            mask = {"mask": b.DenseArrayBase.from_list(I64, list(range(2 * width)))}
            parts = [
                self.one(ShuffleOp, pair, result, mask)
                for pair in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    # Order.

    def barrier(self) -> None:
        super().barrier()
        self._pending.clear()
        self._storage_reads.clear()
        self._storage_writes.clear()

    def before_read(self) -> None:
        self._before_access()

    def before_write(self) -> None:
        self._before_access()

    def _before_access(self) -> None:
        """Threads meet if tokens order the access behind one since they last met, that may touch the
        same memory."""
        op = self.op
        if any(self._must_wait(other, op) for other in self._pending):
            self.barrier()
        self._pending.append(op)

    def _must_wait(self, first: Operation, second: Operation) -> bool:
        if not (isinstance(first, Access) and isinstance(second, Access)):
            return True
        if not must_stay(first, second, self.facts.aliases):
            return False
        # Accesses without tokens keep the order of the program.
        without = not (is_effect(first) and is_effect(second))
        return without or self.facts.tokens.ordered(first, second, around=True)

    def before_storage(self, storage: SSAValue, *, writes: bool) -> None:
        """Threads meet where a storage that is accessed was accessed otherwise since they last did."""
        if storage.type.stages > 1:  # pyright: ignore[reportAttributeAccessIssue]
            # Barriers of rings stand in the program.
            return
        others = self._storage_reads | self._storage_writes if writes else self._storage_writes
        if storage in others:
            self.barrier()
        (self._storage_writes if writes else self._storage_reads).add(storage)

    def enter_regions(self, op: Operation) -> None:
        self.sync.shared = True
        for inner in op.walk():
            if isinstance(inner, Access) or inner.name in ("nv_tileaa.ext.fence",):
                self._pending.append(inner)
            elif isinstance(inner, S.CopyOp | AsyncTiledLoadOp):
                self._storage_writes.add(base_of(inner.target))
            elif isinstance(inner, S.DotOp):
                for value in (inner.a, inner.b):
                    if isinstance(value.type, TiledViewType):
                        self._storage_reads.add(base_of(value))


def _bytes(storage: SSAValue) -> int:
    ty = storage.type
    assert isinstance(ty, TiledViewType)
    element = element_type(ty.element_type)
    assert element is not None
    return prod(ty.dims) * element_bytes(element)


def base_of(storage: SSAValue) -> SSAValue:
    """The storage that a stage is of."""
    while isinstance(storage.owner, S.ExtractSliceOp):
        storage = storage.owner.source
    return storage
