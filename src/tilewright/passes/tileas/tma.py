"""``tileas-tma``: load the tiles of a loop's products by tensor maps, in pipelines, some iterations ahead.

A loop of the form ::

    load A(i), copy it to storage, multiply

becomes one that acquires a stage, starts the copies of iteration ``i + stages - 1`` into it, waits for the stage of
iteration i, multiplies, and releases it. Loads whose tiles feed the same products share a pipeline.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from tilewright.analysis.tileaa import Facts
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.types import (
    ASYNC_TOKEN,
    SharedAttr,
    TiledViewType,
    permuted_view,
)
from tilewright.model.tables import Gpu
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.carried_values import carry_through, ops_around
from tilewright.passes.tileas.conversion_scratch import BESIDE_RINGS, conversion_scratch
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.pipeline import LoopPipeliner, inner_axis
from tilewright.passes.tileas.prefetched_loads import PrefetchedLoad, TileLoad, read_from
from tilewright.passes.tileas.products import WIDENED
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.schedule_builder import ScheduleBuilder
from tilewright.passes.tileas.staged_loads import StagedLoad, stage_loads, undo_others
from tilewright.passes.tileas.target import RESERVED_BYTES, Target
from tilewright.passes.tileas.tma_boxes import Box, tile_box
from tilewright.passes.tileas.tma_stores import choose_tma_stores

#: What each block takes of a multiprocessor beside what it asks for.
DEFAULT_STAGES = 4


@dataclass(frozen=True)
class TmaPipelines(FunctionPass):
    """Loads tiles of loops by tensor maps into pipelines.

    ``stages`` of a pipeline, as far as the shared memory of the ``target`` has room for them.
    """

    name: ClassVar[str] = "tileas-tma"

    stages: int = DEFAULT_STAGES
    target: str = "sm_90a"

    def rewrite_function(self, func: FuncOp) -> None:
        target = Target(self.target)
        choose_tma_stores(func, target)
        tma_pipelines(func, self.stages, target)


def tma_pipelines(
    func: FuncOp,
    stages: int,
    target: Target,
    remarks: Remarks | None = None,
    gpu: Gpu | None = None,
) -> None:
    """Make pipelines of the loops of a function that nothing but loops and branches surround, in place.

    With a ``gpu``, small stages are as many as hide the latency of its memory. Tiles must have layouts; on a target
    without TMA nothing changes.
    """
    remarks = Remarks() if remarks is None else remarks
    if not target.has_tma:
        return
    for op in list(func.walk()):
        if isinstance(op, scf.ForOp) and ops_around(op) is not None:
            _TmaLoop(func, op, stages, target.shared_bytes, remarks, gpu).run()


def box_of(facts: Facts, load: PrefetchedLoad) -> Box | str:
    """The box by which a tile comes, or why a tensor map cannot bring it."""
    dims, element = T.dims_of(load.load.result.type), load.target.element_type
    found = tile_box(facts, load.load.base, dims, element)
    if isinstance(found, Box) and load.target.shared != found.shared(dims, element):
        return "its product needs it in another shared-memory layout"
    return found


class _TmaLoop(LoopPipeliner):
    """A loop while its loads are made pipelines."""

    def run(self) -> None:
        staged = stage_loads(self)
        before = self._lie_as_boxes()
        boxes = self._boxes()
        if self._should_be_by_threads(staged, boxes):
            undo_others(staged, ())
            staged, boxes = [], self._boxes()
        taken = {load.load for load in boxes} if self._make(boxes) else set[TileLoad]()
        undo_others(staged, taken)
        for load, types in before.items():
            if load not in taken:
                for storage, ty in types.items():
                    storage._type = ty

    def _lie_as_boxes(self) -> dict[TileLoad, dict[SSAValue, Attribute]]:
        """Where boxes bring some of a loop, let operands of ``mma.sync`` lie as they would bring these, if they lie otherwise
        only for threads to write them without bank conflicts: ``ldmatrix`` reads them as well, and the loop waits for boxes alone.
        By load, the types that storages had."""
        before: dict[TileLoad, dict[SSAValue, Attribute]] = {}
        loads = self.loads(boxes=True)
        if not any(isinstance(box_of(self.facts, load), Box) for load in loads):
            return before
        for load in loads:
            dims, element = T.dims_of(load.load.result.type), load.target.element_type
            found = tile_box(self.facts, load.load.base, dims, element)
            if not isinstance(found, Box) or not all(map(_by_matrices, load.users)):
                continue
            shared = SharedAttr.of(found.shared(dims, element))
            for reader in load.readers:
                own, order = reader.unpermuted, reader.order
                ty = TiledViewType(own.dims, own.element_type, own.residency.data, shared)
                # ``ldmatrix`` turns matrices of 16 bits, and threads bytes, but nobody wider elements.
                turns = element_bytes(element) <= 2 or inner_axis(own) == inner_axis(ty)
                if own.layout != shared and turns:
                    before.setdefault(load.load, {})[reader.storage] = reader.storage.type
                    reader.storage._type = ty if order is None else permuted_view(ty, order)
        return before

    def _should_be_by_threads(
        self, staged: Sequence[StagedLoad], boxes: dict[PrefetchedLoad, Box]
    ) -> bool:
        """Whether threads shall bring what they compute with, since they bring some of the loop anyhow. Their ring has three
        stages, so that a pipeline of all takes less room where it has two, and only the pipeline is then waited for."""
        if not staged or not self._by_threads(boxes):
            return False
        each = sum(load.bytes for load in boxes)
        return len(staged) == len(boxes) or self._stages(each, self.beside(boxes)) > 2

    def _boxes(self) -> dict[PrefetchedLoad, Box]:
        """The loads that tensor maps can bring, and by which boxes."""
        boxes: dict[PrefetchedLoad, Box] = {}
        within = set(self.body.walk())
        for load in self.loads(boxes=True):
            early = getattr(load.load.base.owner, "parent", None) is self.func.body.block
            found = (
                box_of(self.facts, load) if early else "its view is created in a loop or a branch"
            )
            if self.follows_access(load.load, within):
                # Tensor maps read memory by another way than threads write it.
                found = "threads access its memory before the loop"
            if isinstance(found, Box):
                boxes[load] = found
            else:
                name = load.load.result.name_hint or "a tile"
                self.remarks.add("tma", f"'{name}' is not loaded by TMA: {found}", load.load)
        return boxes

    def _make(self, boxes: dict[PrefetchedLoad, Box]) -> bool:
        """Make pipelines of loads; whether that was done."""
        groups = list(self._groups(list(boxes)))
        each = sum(load.bytes for load in boxes)
        if not boxes:
            return False
        others = self.beside(boxes)
        stages = self._stages(each, others)
        threads = self._by_threads(boxes)
        if self._is_mostly_by_threads(each, threads):
            self.remarks.add(
                "tma", "loop not pipelined: threads copy at least as much of its data", self.loop
            )
            return False
        if threads:
            # Their ring shall fit, too: a stage that waits for threads makes the others idle.
            both = self._stages(
                each + sum(load.bytes for load in threads), self.beside([*boxes, *threads])
            )
            stages = both if both >= 2 else stages
        compared = None if threads else self.refills(list(boxes), stages, others)
        if (compared or self.stages == 1) and each <= self.room(each, others):
            stages = 1
        elif stages < 2:
            self.remarks.add(
                "tma",
                f"loop not pipelined: two stages of {each} bytes and {others} other bytes exceed "
                f"{self.shared_bytes} bytes of shared memory",
                self.loop,
                needed=2 * each + others,
            )
            return False
        self.report(len(boxes), " by TMA", stages, each, compared if stages == 1 else None)
        self._rewrite_all(groups, boxes, stages)
        return True

    def _is_mostly_by_threads(self, each: int, threads: Sequence[PrefetchedLoad]) -> bool:
        """Whether threads bring as much of an iteration of ``mma.sync`` as boxes, of ``each`` bytes, would: it then waits for both, and
        the threads have a barrier for theirs in any case."""
        products = [op for op in self.body.ops if isinstance(op, S.Product)]
        return all(map(_by_matrices, products)) and sum(load.bytes for load in threads) >= each

    def _by_threads(self, boxes: Collection[PrefetchedLoad]) -> list[PrefetchedLoad]:
        """The loads without a box that threads can bring ahead."""
        mapped = {load.load for load in boxes}
        loop = LoopPipeliner(self.func, self.loop, self.stages, self.shared_bytes, Remarks())
        return [load for load in loop.loads() if load.load not in mapped]

    def _stages(self, each: int, others: int) -> int:
        """How many stages of ``each`` bytes there are room for, beside ``others``: with three or more in
        half of the memory, two blocks share a multiprocessor, and one computes while the other waits."""
        half = (self.shared_bytes + RESERVED_BYTES) // 2 - RESERVED_BYTES - BESIDE_RINGS
        # What changes its layout behind the loop lies where the ring was.
        inside = any(isinstance(op, S.ConvertLayoutOp | ReduceOp) for op in self.body.walk())
        alone = not inside and isinstance(self.loop.parent_op(), FuncOp)
        stages = 0
        room = self.scratch()
        for budget in (half if alone else half - room, self.shared_bytes - room):
            stages = self.that_fit(each, budget - others)
            if stages >= 3:
                break
        return stages

    def scratch(self, *, least: bool = False) -> int:
        """The same for pipelines, which are filled for the next iteration of a loop around."""
        return conversion_scratch(self.loop, least=least, lasting=True)

    def _groups(self, loads: Sequence[PrefetchedLoad]) -> list[list[PrefetchedLoad]]:
        """Loads that the same operations read."""
        found: dict[frozenset[Operation], list[PrefetchedLoad]] = {}
        for load in loads:
            found.setdefault(frozenset(load.users), []).append(load)
        return list(found.values())

    def _rewrite_all(
        self,
        groups: Sequence[Sequence[PrefetchedLoad]],
        boxes: dict[PrefetchedLoad, Box],
        stages: int,
    ) -> None:
        loop, body = self.loop, self.body
        around = ops_around(loop)
        assert around is not None
        outermost = around[-1] if around else loop
        early = ScheduleBuilder(InsertPoint.before(outermost), outermost)
        rings = [_Pipeline(early, self, group, boxes, stages) for group in groups]
        firsts = [early.one(P.CreateIteratorOp, (ring.value,), P.ITERATOR) for ring in rings]
        iterators = [body.insert_arg(P.ITERATOR, len(body.args)) for _ in rings]
        inner = ScheduleBuilder(self.gathered(list(boxes)), loop)
        for ring, iterator in zip(rings, iterators, strict=True):
            ring.fill(inner, iterator, max(stages - 1, 1))
        following = [
            inner.one(P.IncIterOp, (ring.value, it), P.ITERATOR)
            for ring, it in zip(rings, iterators, strict=True)
        ]
        for ring, iterator in zip(rings, iterators, strict=True):
            ring.read(iterator)
        end = body.last_op
        assert end is not None
        end.operands = [*end.operands, *following]
        new = self.replace_loop(firsts)
        ends = list(new.results[len(new.results) - len(rings) :])
        for outer in around:
            ends = carry_through(outer, firsts, ends)


def _by_matrices(op: Operation) -> bool:
    """Whether an operation is a product that reads operands by ``ldmatrix``."""
    return isinstance(op, S.DotOp) and S.atom_of(op) in ("mma_sync", WIDENED)


class _Pipeline:
    """The pipeline of loads that the same products read."""

    def __init__(
        self,
        before: ScheduleBuilder,
        loop: _TmaLoop,
        loads: Sequence[PrefetchedLoad],
        boxes: dict[PrefetchedLoad, Box],
        stages: int,
    ):
        self.loop, self.loads = loop, loads
        rings = [loop.ring(load, stages) for load in loads]
        ty = P.PipelineType.of(stages, [load.target for load in loads])
        self.value = before.one(P.CreatePipelineOp, rings, ty)
        self.descriptors = [
            before.add(boxes[load].descriptor(load.load.base)).results[0] for load in loads
        ]

    def fill(self, inner: ScheduleBuilder, iterator: SSAValue, ahead: int) -> None:
        """Acquire a stage, start its copies, commit it, all so many iterations before the one that reads it."""
        stage = inner.one(P.ProducerAcquireOp, (self.value, iterator), P.STAGE)
        opened = P.ProducerWriteOp.create(
            operands=(self.value, stage), result_types=[load.target for load in self.loads]
        )
        inner.add(opened)
        for load, desc, slot in zip(self.loads, self.descriptors, opened.results, strict=True):
            copy = P.AsyncTiledTmaLoadOp.create(
                operands=(desc, *load.load.indices, slot, stage),
                result_types=(ASYNC_TOKEN,),
                properties={"tx_count": b.IntegerAttr(load.bytes, b.i64)},
            )
            inner.add(copy)
        inner.add(
            P.ProducerCommitOp.create(
                operands=(self.value, stage), properties={"ahead": b.IntegerAttr(ahead, b.i64)}
            )
        )

    def read(self, iterator: SSAValue) -> None:
        """Let products read a stage; the loads and their copies go."""
        body = self.loop.body
        readers = {user for load in self.loads for user in load.users}
        order = [op for op in body.ops if op in readers]
        first = ScheduleBuilder(InsertPoint.before(order[0]), order[0])
        stage = first.one(P.ConsumerWaitOp, (self.value, iterator), P.STAGE)
        opened = P.ConsumerReadOp.create(
            operands=(self.value, stage),
            result_types=[load.seen for load in self.loads],
        )
        first.add(opened)
        last = ScheduleBuilder(InsertPoint.after(order[-1]), order[-1])
        last.add(P.ConsumerReleaseOp.create(operands=(self.value, stage)))
        for load, view in zip(self.loads, opened.results, strict=True):
            for dead in read_from(first, load, view):
                dead.detach()
                dead.erase()
