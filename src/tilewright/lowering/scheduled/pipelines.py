"""Pipelines: mbarriers that count arrivals and bytes, and copies by tensor maps.

Each stage has two mbarriers. ``full`` completes a phase when the bytes that one thread has announced have arrived, ``empty``
when each warp has released the stage. An iterator is one integer. If the number of stages is a power of two, it counts
stages: its low bits are the stage, the next one is the parity. Otherwise it is twice the stage, plus the parity.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects import builtin as b
from xdsl.dialects import memref, scf
from xdsl.dialects.arith import AddiOp, AndIOp, ShRUIOp, XOrIOp
from xdsl.ir import Block, Region, SSAValue

from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.storage import base_of
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.dialects.nvgpu.ops import mbarrier, tma
from tilewright.dialects.nvgpu.types import (
    MBARRIER_TOKEN,
    MBarrierGroupType,
    TensorMapDescriptorType,
)
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.dialects.upstream.nvvm import ops as nvvm
from tilewright.layouts.layout import axis_bits
from tilewright.layouts.shared import ROW_BYTES, SWIZZLED_ROWS
from tilewright.lowering.nvgpu.shared_conversion import in_bytes
from tilewright.lowering.nvgpu.types import (
    I32,
    INDEX,
    SHARED_SPACE,
    element_bytes,
    element_type,
)
from tilewright.lowering.nvgpu.vectors import as_index
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers

#: How long a thread may sleep between two looks at a barrier, in nanoseconds.
TICKS = 10_000_000


#: The number of a stage that is none.
NO_STAGE = -1


@dataclass(frozen=True, slots=True)
class Ring:
    """The barriers of a pipeline."""

    full: SSAValue
    empty: SSAValue
    stages: int
    bytes: int

    @property
    def counts(self) -> bool:
        """Whether an iterator is the count of stages so far, which may wrap."""
        return self.stages & (self.stages - 1) == 0


@lowers("nv_tileas.make_tiled_tma_desc")
def make_tiled_tma_desc(low: ScheduledKernel, op: P.MakeTiledTmaDescOp) -> None:
    """No operation: a tensor map that the launch makes of a kernel's argument."""
    low.held[op.result] = low.tensor_map(op)


@lowers("nv_tileas.async.pipeline.create_pipeline")
def create_pipeline(low: ScheduledKernel, op: P.CreatePipelineOp) -> None:
    """The stages in shared memory, and their barriers, made ready by one thread before any other
    may use them."""
    ty = op.result.type
    assert isinstance(ty, P.PipelineType)
    stages = ty.stages.data
    size = 0
    for view in ty.views:
        element = element_type(view.element_type)
        assert element is not None
        size += prod(view.dims) * element_bytes(in_bytes(element))
    group = MBarrierGroupType(SHARED_SPACE, stages)
    full, empty = (low.one(mbarrier.MBarrierCreateOp, (), group) for _ in range(2))
    with low.building(low.prologue):
        first = low.compare("eq", low.thread(), 0)
        one, warps = low.constant(1, INDEX), low.constant(low.threads // 32, INDEX)
    for stage in range(stages):
        place = low.constant(stage, INDEX)
        for barriers, count in ((full, one), (empty, warps)):
            low.emit(mbarrier.MBarrierInitOp, (barriers, count, place, first))
    low.emit(nvvm.FenceMbarrierInitOp)
    low.pipelines[op.result] = Ring(full, empty, stages, size)


@lowers("nv_tileas.async.pipeline.create_iterator")
def create_iterator(low: ScheduledKernel, op: P.CreateIteratorOp) -> None:
    """That of stage 0 in an even round: an i32, twice the stage plus the parity, or a count of stages
    (``Ring.counts``).
    """
    low.held[op.result] = low.constant(0, I32)


@lowers("nv_tileas.async.pipeline.create_null_token")
def create_null_token(low: ScheduledKernel, op: P.CreateNullTokenOp) -> None:
    """A stage that none is, of type ``index``."""
    low.held[op.result] = low.constant(NO_STAGE, INDEX)


@lowers("nv_tileas.async.pipeline.inc_iter")
def inc_iter(low: ScheduledKernel, op: P.IncIterOp) -> None:
    """The next stage; behind the last the first one with the parity turned."""
    ring, given = low.pipelines[op.pipeline], low.value(op.iterator)
    if ring.counts:
        low.bind(op.result, low.plus(given, 1))
        return
    following = low.plus(given, 2)
    wrapped = low.binary(XOrIOp, low.binary(AndIOp, given, 1), 1)
    last = low.compare("uge", given, 2 * (ring.stages - 1))
    low.bind(op.result, low.select(last, wrapped, following))


def _place(low: ScheduledKernel, ring: Ring, iterator: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The stage of an iterator as an index, and whether the iteration is odd."""
    if ring.counts:
        stage = low.binary(AndIOp, iterator, ring.stages - 1)
        turns = low.binary(ShRUIOp, iterator, ring.stages.bit_length() - 1)
    else:
        stage, turns = low.binary(ShRUIOp, iterator, 1), iterator
    return as_index(low, stage), low.one(V.TruncIOp, (turns,), b.i1)


def _wait(low: ScheduledKernel, barriers: SSAValue, parity: SSAValue, stage: SSAValue) -> None:
    operands = (barriers, parity, low.constant(TICKS, INDEX), stage)
    low.emit(mbarrier.MBarrierTryWaitParityOp, operands)


def _only_if(low: ScheduledKernel, condition: SSAValue, block: Block) -> None:
    with low.building(block):
        low.emit(scf.YieldOp)
    low.emit(scf.IfOp, (condition,), (), regions=[Region(block), Region()])


@lowers("nv_tileas.async.pipeline.producer_acquire")
def producer_acquire(low: ScheduledKernel, op: P.ProducerAcquireOp) -> None:
    """The agent's first warp waits until all warps have released the stage; its first thread announces
    the bytes that will come."""
    ring = low.pipelines[op.pipeline]
    stage, odd = _place(low, ring, low.value(op.iterator))
    first = low.is_first_thread()
    block = low.block if low.agent else Block()
    with low.building(block):
        # In round 0 nobody has released it: the phase before the first counts as ended.
        _wait(low, ring.empty, low.binary(XOrIOp, odd, 1), stage)
    if not low.agent:
        with low.building(low.prologue):
            leading = low.compare("ult", low.thread(), 32)
        _only_if(low, leading, block)
    count = low.constant(ring.bytes, INDEX)
    low.emit(mbarrier.MBarrierArriveExpectTxOp, (ring.full, count, stage, first))
    low.held[op.result] = stage


@lowers("nv_tileas.async.pipeline.consumer_wait")
def consumer_wait(low: ScheduledKernel, op: P.ConsumerWaitOp) -> None:
    """Waits on the barrier of the stage until what was copied there is complete; the result is its number."""
    ring = low.pipelines[op.pipeline]
    stage, odd = _place(low, ring, low.value(op.iterator))
    _wait(low, ring.full, odd, stage)
    low.held[op.result] = stage


@lowers("nv_tileas.async.pipeline.producer_write", "nv_tileas.async.pipeline.consumer_read")
def open_stage(low: ScheduledKernel, op: P.ProducerWriteOp | P.ConsumerReadOp) -> None:
    """No operation: the views of a stage begin so many elements behind those of the first."""
    stage = low.held[op.stage]
    assert isinstance(stage, SSAValue)
    for view in op.views:
        size = prod(view.type.dims)  # pyright: ignore[reportAttributeAccessIssue]
        low.held[view] = low.times(stage, low.constant(size, INDEX))


@lowers("nv_tileas.async.pipeline.producer_commit")
def producer_commit(low: ScheduledKernel, op: P.ProducerCommitOp) -> None:
    """The barrier was told the bytes when the stage was acquired."""


@lowers("nv_tileas.async.pipeline.consumer_release")
def consumer_release(low: ScheduledKernel, op: P.ConsumerReleaseOp) -> None:
    """One lane of each warp arrives, when all have read, unless it is no stage."""
    ring, stage = low.pipelines[op.pipeline], low.value(op.stage)
    with low.building(low.prologue):
        lane = low.binary(AndIOp, low.thread(), 31)
        leads = low.compare("eq", lane, 0)
    if not isinstance(op.stage.owner, P.ConsumerWaitOp):
        leads = low.binary(AndIOp, leads, low.compare("sge", stage, 0))
    low.emit(nvvm.SyncWarpOp, (low.constant(-1, I32),))
    block = Block()
    with low.building(block):
        low.emit(mbarrier.MBarrierArriveOp, (ring.empty, stage), (MBARRIER_TOKEN,))
    _only_if(low, leads, block)


def check_boxes(low: ScheduledKernel, storage: SSAValue, made: P.MakeTiledTmaDescOp) -> None:
    """Raises ``TileIRError`` (``not-lowered-to-threads``) for storage that a tensor map cannot fill or read.

    That is one of which a text does not say that it lies as the boxes of the map are written, and one that begins
    elsewhere than their swizzle.
    """
    held = storage.type
    assert isinstance(held, TiledViewType)
    if not P.lie_as_boxes(held, made, whole=True):
        raise low.refuse(
            "its storage does not have the layout of the boxes of the tensor map",
            help="give its type the #nv_tileas.shared of the boxes' swizzle",
        )
    check_start(low, storage, int_list(made.properties["order"])[-1])


def check_start(low: ScheduledKernel, storage: SSAValue, axis: int) -> None:
    """Raises ``TileIRError`` (``not-lowered-to-threads``) for storage that does not begin where its swizzle does.

    ``axis`` is that of its rows. Hardware takes the pattern from the bits of addresses (PTX instruction set,
    "Swizzling Modes").
    """
    held = storage.type
    assert isinstance(held, TiledViewType)
    element = element_type(held.element_type)
    assert element is not None
    size = element_bytes(in_bytes(element))
    pattern = SWIZZLED_ROWS * min(held.dims[axis] * size, ROW_BYTES)
    starts = (low.storage[base_of(storage)], prod(held.dims) * size)
    if any(start % pattern for start in starts[: 2 if base_of(storage) is not storage else 1]):
        raise low.refuse(
            f"its storage starts at byte {starts[0]} of shared memory, but the swizzle of its rows "
            f"repeats at multiples of {pattern}",
            help=f"give it an offset that is a multiple of {pattern}, or let tileas-allocate assign one",
        )


@lowers("nv_tileas.async.tiled_tma_load")
def tiled_tma_load(low: ScheduledKernel, op: P.AsyncTiledTmaLoadOp) -> None:
    """One thread starts a copy for each panel of 128 bytes of the tile."""
    made = op.desc.owner
    assert isinstance(made, P.MakeTiledTmaDescOp)
    opened = next(
        use.operation for use in op.stage.uses if isinstance(use.operation, P.ProducerWriteOp)
    )
    ring, stage = low.pipelines[opened.pipeline], low.held[op.stage]
    assert isinstance(stage, SSAValue)
    view, order = low.view(made.base), int_list(made.properties["order"])
    target = op.target.type
    assert isinstance(target, TiledViewType)
    check_boxes(low, op.target, made)
    ty = low.tensor_map(made).type
    assert isinstance(ty, TensorMapDescriptorType)
    box = ty.tensor.get_shape()
    size = element_bytes(ty.tensor.element_type)
    first = low.is_first_thread()
    with low.building(low.prologue):
        whole = low.constant(low.storage[base_of(op.target)], INDEX)
    start = low.held[op.target]
    assert isinstance(start, SSAValue)
    offset = low.binary(AddiOp, low.times(start, low.constant(size, INDEX)), whole)
    coordinates = [low.times(low.value(op.indices[axis]), view.steps[axis]) for axis in order]
    fast = axis_bits(target.dims)[order[-1]]
    for panel in range(target.dims[order[-1]] // box[-1]):
        place = target.shared.place(panel * box[-1] << fast.start) * size
        memory = low.one(
            memref.ViewOp, (low.scratch(), low.plus(offset, low.constant(place, INDEX))), ty.tensor
        )
        at = [*coordinates[:-1], low.plus(coordinates[-1], panel * box[-1])]
        indices = [low.as_index(value) for value in reversed(at)]
        groups = [[memory], [ring.full], [low.tensor_map(made)], indices, [stage], [], [first]]
        sizes = b.DenseArrayBase.from_list(I32, [len(group) for group in groups])
        operands = [value for group in groups for value in group]
        low.emit(tma.TmaAsyncLoadOp, operands, (), {"operandSegmentSizes": sizes})
