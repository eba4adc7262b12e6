"""``tileas-pipeline``: load tiles by asynchronous copies into a multi-stage ring in shared memory.

Applies to what a loop loads for its products and, in loops without products, to loads that are then read from the ring.
A loop of the form ::

    load A(i), copy it to storage, multiply

becomes one that starts the copies of stage ``i``, waits for them, and multiplies. How many iterations ahead they should
start is the attribute ``ahead`` of their group; ``tileas-expand`` implements it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects import arith
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.asynchronous import (
    AsyncCopy,
    AsyncGroupOp,
    AsyncLoadOp,
    AsyncTiledLoadOp,
    AsyncWaitOp,
)
from tilewright.dialects.nv_tileas.storage import at_level
from tilewright.dialects.nv_tileas.types import (
    ASYNC_TOKEN,
    TiledViewType,
    layout_of,
)
from tilewright.dialects.syntax.engine import values_of
from tilewright.layouts import Layout, plan_conversion
from tilewright.layouts.conversions import waves_of
from tilewright.layouts.layout import axis_bits
from tilewright.model.choices import RING_STAGES, stages_that_hide
from tilewright.model.tables import Gpu
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.matching import constant_iterations
from tilewright.passes.tileas.access_layouts import (
    Shape,
    copied,
    element_bytes,
)
from tilewright.passes.tileas.allocate import peak
from tilewright.passes.tileas.cleanup import pass_token_on
from tilewright.passes.tileas.conversion_scratch import conversion_scratch
from tilewright.passes.tileas.element_work import element_work
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.induction_variables import close_inductions
from tilewright.passes.tileas.prefetched_loads import (
    LEAST_BYTES,
    LoopLoads,
    PrefetchedLoad,
    TileLoad,
    padding_of,
    read_from,
)
from tilewright.passes.tileas.remarks import Comparison, Remarks
from tilewright.passes.tileas.ring_stages import Ring, refills, stages_of_ring
from tilewright.passes.tileas.schedule_builder import EQUAL, INDEX, ScheduleBuilder, carrying
from tilewright.passes.tileas.shared_conversions import threads_of
from tilewright.passes.tileas.target import LEAST_SHARED_BYTES
from tilewright.passes.tileas.tile_layouts import default_layout

DEFAULT_STAGES = 3
#: A ring grows beyond its default while a multiprocessor still has room for so many blocks. With four, a grid of few blocks
#: has too little in flight: a product of 32x64x64 tiles in 64 blocks on sm_80 is modelled to take 27.6 us, and 21.8 with three.
BLOCKS_WITH_ROOM = 3
#: LLVM unrolls loops without products of so many iterations.
_UNROLLED = 4


def copy_layout(op: AsyncCopy, threads: int) -> Layout:
    """Which of ``threads`` threads copies which elements of a tile: of pointers the one that holds them."""
    if isinstance(op, AsyncLoadOp):
        layout = layout_of(op.base.type)
        return default_layout(op.base.type, threads) if layout is None else layout
    assert isinstance(op, AsyncTiledLoadOp)
    target = op.target.type
    assert isinstance(target, TiledViewType)
    shape = Shape(inner_axis(target), int_property(op, "vector"))
    return copied(target.dims, threads, shape)


def inner_axis(target: TiledViewType) -> int:
    """The axis along which neighbours lie in a storage for one tile."""
    places = [
        (target.shared.place(1 << bits.start), axis)
        for axis, bits in enumerate(axis_bits(target.dims))
        if len(bits)
    ]
    return min(places)[1] if places else 0


@dataclass(frozen=True)
class Pipeline(FunctionPass):
    """Prefetches loads of loops into multi-stage rings by asynchronous copies.

    ``stages`` of a ring, as far as ``shared_bytes`` bytes of shared memory, what a block may take, have room for
    them.
    """

    name: ClassVar[str] = "tileas-pipeline"

    stages: int = DEFAULT_STAGES
    shared_bytes: int = LEAST_SHARED_BYTES

    def rewrite_function(self, func: FuncOp) -> None:
        pipeline(func, self.stages, self.shared_bytes)


def pipeline(
    func: FuncOp,
    stages: int,
    shared_bytes: int,
    remarks: Remarks | None = None,
    gpu: Gpu | None = None,
) -> list[str]:
    """Pipeline the loops of a function in place; returns why loops and loads were left as they are.

    With a ``gpu``, small stages are as many as hide the latency of its memory. Loops with products come first: others
    have what they leave of ``shared_bytes`` bytes of shared memory. Tiles must have layouts.
    """
    remarks = Remarks() if remarks is None else remarks
    close_inductions(func)
    for pipeliner in (LoopPipeliner, StreamingLoopPipeliner):
        for op in list(func.walk()):
            if isinstance(op, scf.ForOp):
                pipeliner(func, op, stages, shared_bytes, remarks, gpu).run()
    return [remark.message for remark in remarks.found if remark.kind == "pipeline"]


class LoopPipeliner(LoopLoads):
    """Prefetches what a loop loads for its products."""

    def __init__(
        self,
        func: FuncOp,
        loop: scf.ForOp,
        stages: int,
        shared_bytes: int,
        remarks: Remarks,
        gpu: Gpu | None = None,
    ):
        super().__init__(func, loop, remarks)
        self.stages, self.shared_bytes, self.gpu = stages, shared_bytes, gpu
        found = constant_iterations(loop)
        #: How often the loop runs, if that is known.
        self.iterations = None if found is None else len(found)

    def run(self) -> None:
        """Rewrite the loop so that it prefetches its loads into a ring, or remark that two stages do not
        fit."""
        loads = self.loads()
        if not loads:
            return
        others = self.beside(loads)
        each = sum(load.bytes for load in loads)
        budget = self.room(each, others)
        stages = self.that_fit(each, budget)
        compared = self.refills(loads, stages, others) if each <= budget else None
        if compared or (self.stages == 1 and stages == 1):
            stages = 1
        elif stages < 2:
            self.remarks.add(
                "pipeline",
                f"loop not pipelined: two stages of {each} bytes and {others} other bytes exceed "
                f"{self.shared_bytes} bytes of shared memory",
                self.loop,
                needed=2 * each + others,
            )
            return
        else:
            stages, compared = self.asked(stages, each, others)
        self.report(len(loads), "", stages, each, compared)
        self._rewrite(loads, stages)

    def budget(self, others: int) -> int:
        """The bytes that a ring may have beside ``others`` bytes of storage; negative if these are too many already."""
        return self.shared_bytes - others - self.scratch()

    def scratch(self, *, least: bool = False) -> int:
        """The bytes that a ring leaves to exchanges (``conversion_scratch``)."""
        return conversion_scratch(self.loop, least=least)

    def room(self, each: int, others: int) -> int:
        """The bytes of a ring beside ``others``; where one stage of ``each`` bytes asks for it, exchanges have what the largest
        of them needs."""
        found = self.budget(others)
        if each <= found:
            return found
        least = self.shared_bytes - others - self.scratch(least=True)
        return max(found, least)

    def that_fit(self, each: int, budget: int) -> int:
        """Stages of ``each`` bytes for which there is a budget: as many as are asked for, or as hide the latency of
        memory, if these are more."""
        fit = budget // max(each, 1)
        if self.iterations is not None:
            fit = min(fit, max(self.iterations, 2))  # more stages would never be filled
        if self.gpu is None:
            return min(self.stages, fit)
        # Other blocks hide latency, too: there shall be room for them.
        share = self.shared_bytes // BLOCKS_WITH_ROOM
        wanted = min(stages_that_hide(self.gpu, each), share // max(each, 1))
        more = [n for n in RING_STAGES if self.stages < n <= min(wanted, fit)]
        return max(more, default=min(self.stages, fit))

    def report(
        self, tiles: int, how: str, stages: int, each: int, compared: Comparison | None
    ) -> None:
        """Remark on a ring of ``stages`` of ``each`` bytes, for so many tiles."""
        what = "1 tile" if tiles == 1 else f"{tiles} tiles"
        found = f"a loop prefetches {what}{how} into {stages} stages"
        if stages == 1:
            found = f"a loop prefetches {what}{how}, one stage each, refilled as soon as it is read"
        size = stages * each
        found = f"{found}, {size / 1024:g} KiB" + (f"; {compared}" if compared else "")
        self.remarks.add("ring", found, self.loop, compared, tiles=tiles, stages=stages, bytes=size)

    def refills(
        self, loads: Sequence[PrefetchedLoad], stages: int, others: int
    ) -> Comparison | None:
        """The comparison, if each tile shall have one stage by the tables of the performance model."""
        ops = list(self.body.ops)
        if self.gpu is None:
            return None
        products = [op for op in ops if isinstance(op, S.Product)]
        spans: list[tuple[int, list[S.Product], float]] = []
        for load in loads:
            places = [n for n, op in enumerate(ops) if op in self._readers(load)]
            if not places:
                return None
            within = ops[places[0] : places[-1] + 1]
            inside = [op for op in within if isinstance(op, S.Product)]
            spans.append((load.bytes, inside, element_work(within)))
        each = sum(load.bytes for load in loads)
        warps = threads_of(self.func) // 32
        bare = peak(self.func)
        ring = Ring(products, warps, each, others, element_work(ops), spans, bare)
        return refills(self.gpu, ring, stages)

    def asked(self, stages: int, each: int, others: int) -> tuple[int, Comparison | None]:
        """The stages of a ring by the tables of the performance model, and what these compared.

        ``stages``: as many as there is room for, ``each``: the bytes of one, ``others``: those of the kernel's other
        storage.
        """
        if self.gpu is None:
            return stages, None
        products = [op for op in self.body.ops if isinstance(op, S.Product)]
        return stages_of_ring(
            self.gpu, Ring(products, threads_of(self.func) // 32, each, others), stages
        )

    def beside(self, loads: Iterable[PrefetchedLoad]) -> int:
        """The bytes that the storages of the kernel take together, without those that a ring of these loads replaces."""
        replaced = {reader.storage for load in loads for reader in load.readers}
        return peak(self.func, replaced)

    # The rewrite.

    def _rewrite(self, loads: Sequence[PrefetchedLoad], stages: int) -> None:
        if stages == 1:
            self._refill(loads)
            return
        loop, body = self.loop, self.body
        rings = [self.ring(load, stages) for load in loads]
        copies = self._copies(loads, rings)
        first = ScheduleBuilder(InsertPoint.before(loop), loop).index(0)
        slot = body.insert_arg(INDEX, len(body.args))
        slot.name_hint = "stage"
        inner = ScheduleBuilder(self.gathered(loads), loop)
        for load, ring, copy in zip(loads, rings, copies, strict=True):
            self._start(inner, copy, load, ring, slot)
        group = AsyncGroupOp.create(
            result_types=(ASYNC_TOKEN,), properties={"ahead": b.IntegerAttr(stages - 1, b.i64)}
        )
        token = inner.add(group).results[0]
        inner.add(
            AsyncWaitOp.create(operands=(token,), properties={"pending": b.IntegerAttr(0, b.i64)})
        )
        zero, one, last = (inner.index(number) for number in (0, 1, stages - 1))
        following = inner.select(
            inner.compare(EQUAL, slot, last), zero, inner.one(arith.AddiOp, (slot, one), INDEX)
        )
        # All read their stages before one goes: a load is the operation that these are put before.
        dead: list[Operation] = []
        for load, ring in zip(loads, rings, strict=True):
            dead += self._read_stage(inner, load, ring, slot)
        for gone in dead:
            gone.detach()
            gone.erase()
        end = body.last_op
        assert end is not None
        end.operands = [*end.operands, following]
        self.replace_loop([first])

    def _refill(self, loads: Sequence[PrefetchedLoad]) -> None:
        """Give each load one stage, and a group of copies of its own, which is waited for where the tile is read."""
        rings = [self.ring(load, 1) for load in loads]
        copies = self._copies(loads, rings)
        self.gathered(loads)
        dead: list[Operation] = []
        for load, ring, copy in zip(loads, rings, copies, strict=True):
            readers = self._readers(load)
            first = next(op for op in self.body.ops if op in readers)
            if not load.readers:
                # Threads read it where it is wanted first, as products do.
                load.load.detach()
                Rewriter.insert_op(load.load, InsertPoint.before(first))
                first = load.load
            inner = ScheduleBuilder(InsertPoint.before(first), load.load)
            slot = inner.index(0)
            self._start(inner, copy, load, ring, slot)
            group = AsyncGroupOp.create(
                result_types=(ASYNC_TOKEN,), properties={"ahead": b.IntegerAttr(1, b.i64)}
            )
            token = inner.add(group).results[0]
            wait = {"pending": b.IntegerAttr(0, b.i64)}
            inner.add(AsyncWaitOp.create(operands=(token,), properties=wait))
            dead += self._read_stage(inner, load, ring, slot)
        for gone in dead:
            gone.detach()
            gone.erase()

    def _readers(self, load: PrefetchedLoad) -> set[Operation]:
        """The operations of the body that read a tile from its storage, or in which that is done; where threads have it in
        registers, those that take it."""
        users = load.users or {use.operation for use in load.load.result.uses}
        return {at_level(user, self.body) for user in users}

    def gathered(self, loads: Sequence[PrefetchedLoad]) -> InsertPoint:
        """In front of the first of some loads; what says where the others lie is put there, too."""
        own = {load.load for load in loads}
        needs = {op for load in loads for op in load.needs}
        ops = list(self.body.ops)
        first = next(number for number, op in enumerate(ops) if op in own)
        point = InsertPoint.before(ops[first])
        for op in ops[first:]:
            if op in needs:
                op.detach()
                Rewriter.insert_op(op, point)
        return point

    def ring(self, load: PrefetchedLoad, stages: int) -> SSAValue:
        """Storage of several stages, in the stead of that for one tile where there is one."""
        stage = load.target
        ty = TiledViewType(
            (stages, *stage.dims), stage.element_type, stage.residency.data, stage.layout
        )
        new = S.AllocTensorOp.create(result_types=(ty,))
        inherit_location(new, load.load)
        Rewriter.insert_op(new, InsertPoint.at_start(self.func.body.block))
        return new.results[0]

    def _copies(
        self, loads: Sequence[PrefetchedLoad], rings: Sequence[SSAValue]
    ) -> list[AsyncCopy]:
        """The copies of loads, to their rings for now. Asked while the loop is as the analyses know it."""
        within = set(self.body.walk())
        return [
            self.copy(
                load.load,
                ring,
                load.width,
                ordered=self.follows_access(load.load, within) or self.leads_access(load.load),
            )
            for load, ring in zip(loads, rings, strict=True)
        ]

    @staticmethod
    def _start(
        builder: ScheduleBuilder,
        copy: AsyncCopy,
        load: PrefetchedLoad,
        ring: SSAValue,
        slot: SSAValue,
    ) -> None:
        """Put a copy where the builder stands, to a stage of its ring."""
        stage = builder.stage(ring, slot, load.target)
        copy.operands = [*copy.operands[:-1], stage]
        builder.add(copy)

    def _read_stage(
        self, builder: ScheduleBuilder, load: PrefetchedLoad, ring: SSAValue, slot: SSAValue
    ) -> list[Operation]:
        """Let products read a stage of the ring, or load the tile from there; the operations that are
        in vain then."""
        op = load.load
        if load.readers:
            return read_from(builder, load, builder.stage(ring, slot, load.seen))
        stage = builder.stage(ring, slot, load.target)
        # What is wanted in another layout is read in that one, where banks do not conflict.
        users = [use.operation for use in op.result.uses]
        padding = padding_of(op)
        converted = [
            user
            for user in users
            if isinstance(user, S.ConvertLayoutOp)
            and padding is None
            and reads_well(load.target, user)
        ]
        for reader in (*converted, op)[: len(users)]:
            here = ScheduleBuilder(InsertPoint.before(reader), op)
            result = reader.results[0]
            tile = here.one(S.LocalLoadOp, (stage,), result.type)
            if padding is not None:
                (mask,) = values_of(op, "mask")
                tile = here.select(mask, tile, padding)
            tile.name_hint = result.name_hint or op.result.name_hint
            result.replace_all_uses_with(tile)
        pass_token_on(op)
        return [*converted, op]

    def replace_loop(self, more: Sequence[SSAValue]) -> scf.ForOp:
        """The loop with more values that it carries."""
        return carrying(self.loop, more)


class StreamingLoopPipeliner(LoopPipeliner):
    """Prefetches what a loop without products loads. Without a ring, threads hide latency only as far as there are registers
    for tiles and blocks on a multiprocessor; rings keep more bytes in flight."""

    def is_wanted(self, load: TileLoad) -> bool:
        if layout_of(load.result.type) is None:
            return False
        return not any(isinstance(op, S.Product | DotOp) for op in self.body.walk())

    def loads(self, *, boxes: bool = False) -> list[PrefetchedLoad]:
        """Empty if threads have less than a word each to wait for: a ring costs a barrier in each iteration.

        Empty, too, if the loop runs so seldom that it is unrolled, and loads of all iterations start side by side.
        """
        found = super().loads(boxes=boxes)
        least = LEAST_BYTES * threads_of(self.func)
        if self.iterations is not None and self.iterations <= _UNROLLED:
            return []
        return found if sum(load.bytes for load in found) >= least else []

    def budget(self, others: int) -> int:
        """Half of the memory at most, in bytes: two blocks shall share a multiprocessor."""
        return min(super().budget(others), self.shared_bytes // 2 - others)

    def room(self, each: int, others: int) -> int:
        """The same, in bytes: what does not fit there stays as it was."""
        return self.budget(others)


def reads_well(stage: TiledViewType, conversion: S.ConvertLayoutOp) -> bool:
    """Whether threads can read a stage in the layout to which a tile would be converted through shared
    memory, without conflicts of banks."""
    source, target = layout_of(conversion.source.type), layout_of(conversion.result.type)
    assert source is not None and target is not None
    size = element_bytes(stage.element_type)
    if plan_conversion(source, target, size).shared_conversion is None:
        return False
    return waves_of(target, stage.shared, size) == 1
