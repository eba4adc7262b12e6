"""The state of lowering a kernel whose tiles have layouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects import builtin as b
from xdsl.dialects.arith import AddiOp, AndIOp, ExtFOp, ShLIOp, ShRUIOp, TruncFOp, XOrIOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilewright.analysis.tileaa import must_stay
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.extensions import FenceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp, GlobalOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.agents import agent_switch, is_of_other_agent, main_block
from tilewright.dialects.nv_tileas.asynchronous import AsyncTiledLoadOp
from tilewright.dialects.nv_tileas.storage import at_level, base_of, common_block, storage_bytes
from tilewright.dialects.nv_tileas.stores import AsyncStoreWaitOp, AsyncTiledTmaStoreOp
from tilewright.dialects.nv_tileas.types import TiledViewType, layout_of
from tilewright.dialects.nvgpu.support import nvvm
from tilewright.dialects.nvgpu.support.vector_shapes import ShuffleOp
from tilewright.layouts import Layout
from tilewright.layouts.layout import axis_bits
from tilewright.lowering.nvgpu.driver import Kernel
from tilewright.lowering.nvgpu.options import NvgpuOptions
from tilewright.lowering.nvgpu.types import I32, I64, INDEX, scalar_of
from tilewright.lowering.scheduled.map_plans import map_plan
from tilewright.lowering.scheduled.table import RULES
from tilewright.passes.tileas.allocate import ALIGNMENT, allocate

if TYPE_CHECKING:
    from tilewright.lowering.nvgpu.tensor_maps import TensorMapPlan
    from tilewright.lowering.scheduled.pipelines import Ring

_ASYNC_SHARED = {
    "kind": nvvm.ProxyKindAttr(nvvm.ProxyKind.ASYNC_SHARED),
    "space": nvvm.SharedSpaceAttr(nvvm.SharedSpace.CTA),
}
#: The bytes in which exchanges take turns.
MOST_IN_TURN = 8 << 10


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
        #: The agent that is lowered, None where all warps do the same; and its first warp.
        self.agent: int | None = None
        self.first_warp = 0
        #: The only bytes of exchanges that threads may be reading; None where that is not known.
        self.being_read: tuple[int, int] | None = None
        #: What lanes have handed to one another, by what, how and where (``shuffles``).
        self.shuffled: dict[tuple[object, ...], SSAValue] = {}
        #: Accesses to global memory, and to storage, since all threads have last met.
        self._pending: list[Operation] = []
        self._storage_reads: set[SSAValue] = set()
        self._storage_writes: set[SSAValue] = set()
        #: The same before each operation with regions that is being lowered, the innermost last.
        self._before: list[tuple[list[Operation], set[SSAValue], set[SSAValue]]] = []
        self.storage: dict[SSAValue, int] = {}
        #: By pipeline its barriers; by descriptor the parameter that it becomes, and its argument.
        self.pipelines: dict[SSAValue, Ring] = {}
        self._maps = {
            op: map_plan(op) for op in self.func.walk() if isinstance(op, P.MakeTiledTmaDescOp)
        }
        self._map_arguments: dict[Operation, SSAValue] = {}
        self._fences = self._needs_fences()
        self._allocate()

    @property
    def tensor_maps(self) -> tuple[TensorMapPlan, ...]:
        return tuple(self._maps.values())

    def take_tensor_maps(self, arguments: Sequence[SSAValue]) -> None:
        self._map_arguments = dict(zip(self._maps, arguments, strict=True))

    def tensor_map(self, op: P.MakeTiledTmaDescOp) -> SSAValue:
        """The parameter that a descriptor has become."""
        return self._map_arguments[op]

    def _needs_fences(self) -> bool:
        """Whether products of warpgroups read storage that threads write."""
        read: set[SSAValue] = set()
        written: set[SSAValue] = set()
        for op in self.func.walk():
            if isinstance(op, S.Product) and S.atom_of(op) == "wgmma":
                held = (value for value in (op.a, op.b) if isinstance(value.type, TiledViewType))
                read |= {base_of(value) for value in held}
            elif isinstance(op, S.CopyOp | AsyncTiledLoadOp):
                written.add(base_of(op.target))
        return bool(read & written)

    def _allocate(self) -> None:
        """Read each storage's place in shared memory, and give it one where it has none."""
        made = [op for op in self.func.walk() if isinstance(op, S.AllocTensorOp)]
        if any(op.offset is None for op in made):
            allocate(self.func)
        for op in made:
            self.storage[op.result] = int_property(op, "offset")
        offset = max((self._end(op.result) for op in made), default=0)
        self.exchange_start = self.scratch_bytes = offset
        if offset:
            self.shared_alignment = ALIGNMENT
        self._ends = self._lifetimes()
        if offset > self.options.shared_bytes:
            raise self.refuse(
                f"its products keep {offset} bytes in shared memory, and a block has "
                f"{self.options.shared_bytes}",
                help="use smaller tiles, or fewer stages",
            )

    def _end(self, storage: SSAValue) -> int:
        """Where a storage ends, in bytes, rounded up."""
        return self.storage[storage] + -(-storage_bytes(storage) // ALIGNMENT) * ALIGNMENT

    def _lifetimes(self) -> dict[SSAValue, Operation]:
        """By storage, the operation behind which nobody uses it: one of the function's own block, for a
        ring in a loop one of the loop's. A ring is filled anew in each round of the loop around it,
        behind a barrier, so that it holds nothing from one to the next."""
        users: dict[SSAValue, list[Operation]] = {}
        for op in self.func.walk():
            for value in op.operands:
                if isinstance(value.type, TiledViewType) and not is_of_other_agent(op):
                    users.setdefault(base_of(value), []).append(op)
        found: dict[SSAValue, Operation] = {}
        for storage, ops in users.items():
            within = main_block(self.func)
            if storage.type.stages > 1:  # pyright: ignore[reportAttributeAccessIssue]
                within = common_block(ops)
                if within is self.func.body.block:
                    within = main_block(self.func)
            found[storage] = at_level(ops[-1], within)
        return found

    def _end_lifetimes(self, op: Operation) -> None:
        """Memory of storage that nobody uses behind ``op`` may be taken for conversions."""
        ended = [storage for storage, last in self._ends.items() if last is op]
        if not ended:
            return
        for storage in ended:
            del self._ends[storage]
        self.sync.shared, self.being_read = True, None
        self.exchange_start = max(map(self._end, self._ends), default=0)

    def lower(self, op: Operation) -> None:
        if not op.regions:
            self._lower(op)
        else:
            self._before_regions(op)
            self._before.append(
                (list(self._pending), set(self._storage_reads), set(self._storage_writes))
            )
            self._lower(op)
            self._before.pop()
        self._end_lifetimes(op)

    def _lower(self, op: Operation) -> None:
        rule = RULES.rule_of(op)
        if rule is None or self.lanes is not None:
            super().lower(op)
            return
        outer, self.op = self.op, op
        rule(self, op)
        self.op = outer

    # Agents.

    @property
    def block_threads(self) -> int:
        """The threads of a block: those that have tiles, and of other agents."""
        switch = agent_switch(self.func)
        return self.threads if switch is None else 32 * sum(switch.warps)

    @contextmanager
    def own_prologue(self) -> Iterator[None]:
        """What is the same all along is computed at the beginning of the block at hand, for what is
        lowered meanwhile: threads of other agents do not need it, nor registers to keep it."""
        names = ("_constants", "_coordinates", "_ids", "_parts", "_places", "_numbers", "shuffled")
        outer, kept = self.prologue, {name: dict(getattr(self, name)) for name in names}
        first, self.prologue = self.block.last_op, Block()
        yield
        made = list(self.prologue.ops)
        for op in made:
            op.detach()
        if first is not None:
            self.block.insert_ops_after(made, first)
        elif (begin := self.block.first_op) is not None:
            self.block.insert_ops_before(made, begin)
        else:
            self.block.add_ops(made)
        self.prologue = outer
        for name, held in kept.items():
            setattr(self, name, held)

    def limits(self) -> dict[str, Attribute]:
        switch = agent_switch(self.func)
        registers = None if switch is None else switch.registers_at_launch
        if registers is None:
            return super().limits()
        return {"nvvm.maxnreg": b.IntegerAttr(registers, I32)}

    def is_first_thread(self) -> SSAValue:
        """Whether a thread is the first one of its agent."""
        with self.filling(self.prologue):
            return self.compare("eq", self.thread(), 32 * self.first_warp)

    # Layouts.

    def type_of(self, ty: Attribute) -> Attribute:
        if isinstance(ty, P.PipelineIteratorType):
            return I32
        return INDEX if isinstance(ty, P.StageType) else super().type_of(ty)

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

    def owner_of(self, layout: Layout, holder: int = 0) -> SSAValue | None:
        """Whether the thread is the one that owns its elements, or, of those that hold the same ones,
        that with the bits ``holder``; None where all are."""
        mask = layout.free_thread_bits
        if not mask:
            return None
        with self.filling(self.prologue):
            return self.compare("eq", self.binary(AndIOp, self.thread(), mask), holder)

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

    def room_for_exchange(self, needs: int | None) -> int:
        """Two successive exchanges take turns in memory, as far as they are small: what the first one
        left has been read by all when they meet in the second one."""
        if self.sync.shared and needs is not None and self.being_read is not None:
            first, end = self.being_read
            if self.exchange_start + needs <= first:
                return self.exchange_start
            if end + needs <= min(self.exchange_start + MOST_IN_TURN, self.options.shared_bytes):
                return end
        return super().room_for_exchange(needs)

    def barrier_for_copies(self) -> None:
        """Threads meet; what they have written to storage, tensor maps read by another way."""
        if not self._fences:
            self.emit(nvvm.FenceProxyOp, (), (), dict(_ASYNC_SHARED))
        self.barrier()

    def barrier(self) -> None:
        """All threads of the agent meet."""
        if self._fences:
            # What threads have written to storage, products of warpgroups read by another way.
            self.emit(nvvm.FenceProxyOp, (), (), dict(_ASYNC_SHARED))
        if self.agent is None:
            super().barrier()
        else:
            number, threads = self.constant(1 + self.agent, I32), self.constant(self.threads, I32)
            sizes = b.DenseArrayBase.from_list(I32, [1, 1])
            self.emit(nvvm.BarrierOp, (number, threads), (), {"operandSegmentSizes": sizes})
            self.sync.clear()
        self.being_read = None
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
        tokens = self.facts.tokens
        without = not (tokens.is_effect(first) and tokens.is_effect(second))
        return without or tokens.ordered(first, second, around=True)

    def before_storage(self, storage: SSAValue, *, writes: bool) -> None:
        """Threads meet where a storage that is accessed was accessed otherwise since they last did."""
        if storage.type.stages > 1:  # pyright: ignore[reportAttributeAccessIssue]
            # Barriers of rings stand in the program.
            return
        others = self._storage_reads | self._storage_writes if writes else self._storage_writes
        if any(self._overlap(storage, other) for other in others):
            self.barrier()
        (self._storage_writes if writes else self._storage_reads).add(storage)

    def still_read(self, storage: SSAValue) -> None:
        """Of what reads a storage beside the threads only one thread knows the end, until they meet."""
        self._storage_reads.add(storage)

    def _overlap(self, one: SSAValue, other: SSAValue) -> bool:
        """Whether two storages have bytes in common."""
        starts = self.storage[one], self.storage[other]
        return starts[0] < self._end(other) and starts[1] < self._end(one)

    def _before_regions(self, op: Operation) -> None:
        """Threads meet in front of a loop that reads what they have written, and not in each round."""
        reads, writes = _storage_uses(op)
        if (reads - writes) & self._storage_writes:
            self.barrier()

    def enter_regions(self, op: Operation) -> None:
        self.sync.shared, self.being_read = True, None
        # Where threads meet in a region that is not entered, they have not met since what stands before.
        accesses, before_reads, before_writes = self._before[-1]
        within = [inner for inner in op.walk() if isinstance(inner, Access | FenceOp)]
        self._pending = list(dict.fromkeys([*self._pending, *accesses, *within]))
        reads, writes = _storage_uses(op)
        self._storage_reads |= reads | before_reads
        self._storage_writes |= writes | before_writes


def _storage_uses(op: Operation) -> tuple[set[SSAValue], set[SSAValue]]:
    """What an operation and those in it read, and write."""
    reads: set[SSAValue] = set()
    writes: set[SSAValue] = set()
    for inner in op.walk():
        if isinstance(inner, S.CopyOp | AsyncTiledLoadOp):
            writes.add(base_of(inner.target))
        elif isinstance(inner, S.Product | S.LocalLoadOp | AsyncTiledTmaStoreOp | AsyncStoreWaitOp):
            held = (value for value in inner.operands if isinstance(value.type, TiledViewType))
            reads |= {base_of(value) for value in held}
    return reads, writes


def converted_sums(low: ScheduledKernel, value: SSAValue, wanted: Attribute) -> SSAValue:
    """Sums in the type that they are added up in, or back: those of f16 are kept in f32."""
    assert isinstance(value.type, b.VectorType)
    if value.type == wanted:
        return value
    kind = ExtFOp if isinstance(value.type.element_type, b.Float16Type) else TruncFOp
    return low.one(kind, (value,), wanted)
