"""The state of lowering one kernel whose tiles have layouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xdsl.dialects import builtin as b
from xdsl.dialects.arith import AddiOp, AndIOp, ExtFOp, ShLIOp, ShRUIOp, TruncFOp, XOrIOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp, GlobalOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.agents import agent_switch
from tilewright.dialects.nv_tileas.storage import SHARED_BYTES, held_bytes
from tilewright.dialects.nv_tileas.types import layout_or_dealt
from tilewright.dialects.upstream.nvvm import ops as nvvm
from tilewright.dialects.upstream.vector.shapes import ShuffleOp
from tilewright.layouts import Layout
from tilewright.layouts.layout import axis_bits
from tilewright.lowering.nvgpu.driver import Kernel
from tilewright.lowering.nvgpu.options import NvgpuOptions
from tilewright.lowering.nvgpu.tensor_maps import TensorMapPlan
from tilewright.lowering.nvgpu.types import I32, I64, INDEX, scalar_of
from tilewright.lowering.scheduled.map_plans import map_plan
from tilewright.lowering.scheduled.table import RULES
from tilewright.passes.tileas.allocate import ALIGNMENT
from tilewright.passes.tileas.insert_barriers import SYNCHRONISED, insert_barriers
from tilewright.passes.tileas.shared_conversions import scratch_of

if TYPE_CHECKING:
    from tilewright.lowering.scheduled.pipelines import Ring

_ASYNC_SHARED = {
    "kind": nvvm.ProxyKindAttr(nvvm.ProxyKind.ASYNC_SHARED),
    "space": nvvm.SharedSpaceAttr(nvvm.SharedSpace.CTA),
}


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
        #: What lanes have handed to one another, by what, how and where (``shuffles``).
        self.shuffled: dict[tuple[object, ...], SSAValue] = {}
        self.storage: dict[SSAValue, int] = {}
        #: Vectors of some lanes of others, by these and the lanes.
        self.parts: dict[tuple[SSAValue, tuple[int, ...]], SSAValue] = {}
        #: By pipeline its barriers; by descriptor the parameter that it becomes, and its argument.
        self.pipelines: dict[SSAValue, Ring] = {}
        self._maps = {
            op: map_plan(op) for op in self.func.walk() if isinstance(op, P.MakeTiledTmaDescOp)
        }
        self._map_arguments: dict[Operation, SSAValue] = {}
        self._read_places()

    @property
    def tensor_maps(self) -> tuple[TensorMapPlan, ...]:
        """What a launch makes tensor maps of, in the order of the parameters that they become."""
        return tuple(self._maps.values())

    def take_tensor_maps(self, arguments: Sequence[SSAValue]) -> None:
        """Note the parameters that the descriptors have become, in the order of ``tensor_maps``."""
        self._map_arguments = dict(zip(self._maps, arguments, strict=True))

    def tensor_map(self, op: P.MakeTiledTmaDescOp) -> SSAValue:
        """The parameter that a descriptor has become."""
        return self._map_arguments[op]

    def _read_places(self) -> None:
        """Read where storages lie, and see to it that all has its place and its barriers."""
        if SYNCHRONISED not in self.func.attributes:
            insert_barriers(self.func, self.threads)
        for op in self.func.walk():
            if isinstance(op, S.AllocTensorOp):
                self.storage[op.result] = int_property(op, "offset")
        offset = -(-held_bytes(self.func) // ALIGNMENT) * ALIGNMENT
        self.conversion_start = self.scratch_bytes = offset
        if (least := self.func.attributes.get(SHARED_BYTES)) is not None:
            assert isinstance(least, b.IntegerAttr)
            self.scratch_bytes = max(offset, least.value.data)
            self.scratch()
        if offset:
            self.shared_alignment = ALIGNMENT
        if offset > self.options.shared_bytes:
            raise self.refuse(
                f"its products need {offset} bytes of shared memory, but a block has "
                f"{self.options.shared_bytes}",
                help="use smaller tiles, or fewer stages",
            )

    def lower(self, op: Operation) -> None:
        """What operations do to memory that others share, barriers of the program keep apart; what one does within
        itself, its rule does."""
        outer = self.conversion_start
        if (scratch := scratch_of(op)) is not None:
            self.conversion_start = scratch[0]
        if self.lanes is None:
            self.sync.clear()
        self._lower(op)
        self.conversion_start = outer

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

    def limits(self, shared_bytes: int) -> dict[str, Attribute]:
        switch = agent_switch(self.func)
        registers = None if switch is None else switch.registers_at_launch
        if registers is None:
            return super().limits(shared_bytes)
        return {"nvvm.maxnreg": b.IntegerAttr(registers, I32)}

    def is_first_thread(self) -> SSAValue:
        """Whether a thread is the first one of its agent."""
        with self.building(self.prologue):
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
        return layout_or_dealt(ty, self.threads)

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
        with self.building(self.prologue):
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
        """The coordinate along an axis of the thread's first element, and what each register adds to it.

        Raises ``TileIRError`` (``not-lowered-to-threads``) for layouts in which the two are not simply added.
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
            raise self.refuse("its thread and register bases overlap")
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
        with self.building(self.prologue):
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
        with self.building(self.prologue):
            return self.compare("eq", self.binary(AndIOp, self.thread(), mask), holder)

    # Vectors.

    def picked(self, value: SSAValue, registers: Sequence[int]) -> SSAValue:
        """A vector of these elements of a vector, by position; the vector itself if they are all, in order."""
        ty = value.type
        assert isinstance(ty, b.VectorType)
        if list(registers) == list(range(ty.get_shape()[0])):
            return value
        mask = b.DenseArrayBase.from_list(I64, list(registers))
        result = b.VectorType(scalar_of(ty), [len(registers)])
        return self.one(ShuffleOp, (value, value), result, {"mask": mask})

    def cut(self, value: SSAValue, width: int) -> list[SSAValue]:
        """A vector cut into vectors of ``width`` elements, which must divide its length."""
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

    def offset_for_conversion(self, needs: int | None) -> int:
        """What an operation with a rule for layouts needs, it must have been given: barriers were placed by that.

        Raises ``TileIRError`` (``not-lowered-to-threads``) if fewer than ``needs`` bytes are.
        """
        if needs is not None:
            scratch = scratch_of(self.op)
            end = None if scratch is None else scratch[1]
            if end is None or self.conversion_start + needs > end:
                raise self.refuse(
                    f"it needs {needs} bytes of scratch memory, which are not allocated",
                    help="run tileas-allocate, which assigns scratch memory, and tileas-insert-barriers",
                )
        return super().offset_for_conversion(needs)

    def barrier(self) -> None:
        """All threads of the agent meet."""
        if self.agent is None:
            super().barrier()
            return
        number, threads = self.constant(1 + self.agent, I32), self.constant(self.threads, I32)
        sizes = b.DenseArrayBase.from_list(I32, [1, 1])
        self.emit(nvvm.BarrierOp, (number, threads), (), {"operandSegmentSizes": sizes})
        self.sync.clear()

    def fence(self) -> None:
        """What a thread has written to storage, products of warpgroups and tensor maps may read when threads have met."""
        self.emit(nvvm.FenceProxyOp, (), (), dict(_ASYNC_SHARED))

    def before_read(self) -> None:
        """Barriers stand in the program."""

    def before_write(self) -> None:
        """Barriers stand in the program."""

    def enter_regions(self, op: Operation) -> None:
        """Barriers stand in the program."""


def converted_sums(low: ScheduledKernel, value: SSAValue, wanted: Attribute) -> SSAValue:
    """Sums in the type that they are added up in, or back: those of f16 are kept in f32."""
    assert isinstance(value.type, b.VectorType)
    if value.type == wanted:
        return value
    kind = ExtFOp if isinstance(value.type.element_type, b.Float16Type) else TruncFOp
    return low.one(kind, (value,), wanted)
