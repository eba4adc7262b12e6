"""Pipelines: rings of stages that copies fill ahead of the operations that read them, in handle style.

A stage is empty, is acquired and filled, becomes full when what was started for it has arrived, is
read, and is empty again when it is released. Acquiring waits for an empty stage, ``consumer_wait`` for a full one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import MemoryAllocEffect, MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from tilewright.diagnostics import define_code
from tilewright.dialects.declare import Report, attr, examples, int_property, same_type, type_of
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp, int_list
from tilewright.dialects.nv_tileaa.constraints import (
    I64_ARRAY,
    INDEX,
    INT64,
    TILED_VIEW,
    ClassKind,
)
from tilewright.dialects.nv_tileaa.type_syntax import format_type, parse_type
from tilewright.dialects.nv_tileas import types as S
from tilewright.dialects.nv_tileas.asynchronous import ASYNC, check_ahead
from tilewright.dialects.nv_tileas.base import RESIDENCY, VIEW_SHAPE, is_within, schedule_op
from tilewright.dialects.nv_tileas.ops import STORAGE
from tilewright.dialects.nv_tileas.ring_slots import is_passed_over, taken_twice
from tilewright.layouts.shared import ROW_BYTES, SharedLayout
from tilewright.numerics.element_types import FORMATS

GROUP = "pipelines"
PROTOCOL = define_code(
    "as-pipeline-protocol",
    "The use of a pipeline stage violates the protocol.",
    "An acquired stage is written and committed exactly once, and a stage that is waited for is "
    "read and released exactly once, in the same block; its storage is used only in between. Each "
    "side uses the stages in the order of `inc_iter`, each once.",
)
TMA = define_code(
    "as-tma",
    "A box cannot be copied by a tensor map.",
    "Boxes have 1 to 5 axes of 1 to 256 elements; rows of a swizzled one have 32, 64 or 128 bytes, others a "
    "multiple of 16; strides of the array are multiples of 16 bytes.",
)
MOST_AXES, MOST_EXTENT = 5, 256


def stages_of(pipeline: SSAValue) -> int:
    """The stages of a pipeline."""
    ty = pipeline.type
    assert isinstance(ty, PipelineType)
    return ty.stages.data


@irdl_attr_definition
class PipelineType(ParametrizedAttribute, TypeAttribute):
    """A ring of ``stages``, each with storage of these types."""

    name = "nv_tileas.pipeline"
    stages: IntAttr
    storage: ArrayAttr[Attribute]

    @staticmethod
    def of(stages: int, storage: Sequence[Attribute]) -> PipelineType:
        """The type of a ring of so many stages over storages of these types."""
        return PipelineType(IntAttr(stages), ArrayAttr(storage))

    @property
    def views(self) -> tuple[S.TiledViewType, ...]:
        """The storage of a stage."""
        return tuple(held for held in self.storage.data if isinstance(held, S.TiledViewType))

    def verify(self) -> None:
        if self.stages.data < 1:
            raise VerifyException(f"a pipeline has a stage at least, got {self.stages.data}")
        if not self.storage.data or len(self.views) != len(self.storage.data):
            raise VerifyException("the stages of a pipeline hold tiled_views of nv_tileas")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        held: list[Attribute] = []
        with parser.in_angle_brackets():
            stages = parser.parse_integer(allow_boolean=False)
            while parser.parse_optional_punctuation(","):
                held.append(parse_type(parser))
        return (IntAttr(stages), ArrayAttr(held))

    def print_parameters(self, printer: Printer) -> None:
        parts = [str(self.stages.data), *(format_type(held) for held in self.storage.data)]
        printer.print_string(f"<{', '.join(parts)}>")


class _Plain(ParametrizedAttribute, TypeAttribute):
    """A type without parameters."""


@irdl_attr_definition
class PipelineIteratorType(_Plain):
    """A place in a pipeline's order: which stage comes next, and how often the ring was gone round."""

    name = "nv_tileas.pipeline_iterator"


@irdl_attr_definition
class StageType(_Plain):
    """A stage that is owned, by who fills it or who reads it."""

    name = "nv_tileas.stage"


@irdl_attr_definition
class TmaDescType(_Plain):
    """How boxes of an array in global memory are copied; made by the launch."""

    name = "nv_tileas.tma_desc"


ITERATOR, STAGE, TMA_DESC = PipelineIteratorType(), StageType(), TmaDescType()
TYPES = (PipelineType, PipelineIteratorType, StageType, TmaDescType)

PIPELINE = ClassKind("a pipeline", (PipelineType,))
ITERATOR_KIND = ClassKind("a pipeline_iterator", (PipelineIteratorType,))
STAGE_KIND = ClassKind("a stage", (StageType,))
DESC = ClassKind("a tma_desc", (TmaDescType,))
_EFFECTS = traits_def(MemoryReadEffect(), MemoryWriteEffect())
_RING = """
%s = nv_tileas.alloc_tensor : !nv_tileas.tiled_view<3x8x16xf32, smem>
%p = nv_tileas.async.pipeline.create_pipeline %s : !nv_tileas.tiled_view<3x8x16xf32, smem> -> !nv_tileas.pipeline<3, !nv_tileas.tiled_view<8x16xf32, smem>>
%it = nv_tileas.async.pipeline.create_iterator %p : !nv_tileas.pipeline<3, !nv_tileas.tiled_view<8x16xf32, smem>> -> !nv_tileas.pipeline_iterator
"""
_P = "!nv_tileas.pipeline<3, !nv_tileas.tiled_view<8x16xf32, smem>>"
_V = "!nv_tileas.tiled_view<8x16xf32, smem>"
_ACQUIRE = f"%w = nv_tileas.async.pipeline.producer_acquire %p, %it : {_P}, !nv_tileas.pipeline_iterator -> !nv_tileas.stage"
_WRITE = f"%slot = nv_tileas.async.pipeline.producer_write %p, %w : {_P}, !nv_tileas.stage -> {_V}"
_FILL = (
    "%d = nv_tileas.make_tiled_tma_desc %view {order = array<i64: 0, 1>, box = array<i64: 8, 16>} : "
    "!nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>> -> !nv_tileas.tma_desc\n"
    "%u = nv_tileas.async.tiled_tma_load %d[%i, %j], %slot, %w {tx_count = 512 : i64} : "
    f"!nv_tileas.tma_desc, index, index, {_V}, !nv_tileas.stage -> !nv_tileas.async_token"
)
_COMMIT = f"nv_tileas.async.pipeline.producer_commit %p, %w : {_P}, !nv_tileas.stage"
_PRODUCED = _RING + "\n".join((_ACQUIRE, _WRITE, _FILL, _COMMIT))
_WAIT = f"%r = nv_tileas.async.pipeline.consumer_wait %p, %it : {_P}, !nv_tileas.pipeline_iterator -> !nv_tileas.stage"
_READ = f"%full = nv_tileas.async.pipeline.consumer_read %p, %r : {_P}, !nv_tileas.stage -> {_V}"
_RELEASE = f"nv_tileas.async.pipeline.consumer_release %p, %r : {_P}, !nv_tileas.stage"


@schedule_op("async.pipeline.create_pipeline", group=GROUP)
class CreatePipelineOp(TileAAOp):
    """A ring over storages that have as many stages each; all of them are empty."""

    storages = var_operand_def(STORAGE)
    result = result_def(PIPELINE)
    traits = traits_def(MemoryAllocEffect())
    EXAMPLES: ClassVar = examples(_RING)

    def check(self, report: Report) -> None:
        ty = self.result.type
        assert isinstance(ty, PipelineType)
        found: list[Attribute] = []
        for value in self.storages:
            held = value.type
            assert isinstance(held, S.TiledViewType)
            if held.dims[0] != ty.stages.data or len(held.dims) < 2:
                report.error(
                    VIEW_SHAPE,
                    f"expected storage of {ty.stages.data} stages, got '{format_type(held)}'",
                    type_of("storages"),
                )
            found.append(
                S.TiledViewType(held.dims[1:], held.element_type, held.residency.data, held.layout)
            )
        same = len(found) == len(ty.views) and all(
            _fits(mine, other) for mine, other in zip(ty.views, found, strict=True)
        )
        if not same:
            shown = ", ".join(map(format_type, found))
            report.error(VIEW_SHAPE, f"the stages hold {shown}", type_of("result"))


def _fits(given: S.TiledViewType, stage: Attribute) -> bool:
    """Whether a stage may be seen as of this type: as many elements, in the same places."""
    assert isinstance(stage, S.TiledViewType)
    parts = [(ty.element_type, ty.residency, ty.layout, prod(ty.dims)) for ty in (given, stage)]
    return parts[0] == parts[1]


@schedule_op("async.pipeline.create_iterator", group=GROUP)
class CreateIteratorOp(TileAAOp):
    """The first stage of a pipeline, before any iteration."""

    pipeline = operand_def(PIPELINE)
    result = result_def(ITERATOR_KIND)
    traits = traits_def(Pure())
    EXAMPLES: ClassVar = examples(_RING)


@schedule_op("async.pipeline.create_null_token", group=GROUP)
class CreateNullTokenOp(TileAAOp):
    """No stage: what is released in the first iteration of a loop that releases the stage of the iteration before."""

    pipeline = operand_def(PIPELINE)
    result = result_def(STAGE_KIND)
    traits = traits_def(Pure())
    EXAMPLES: ClassVar = examples(
        _RING
        + f"%none = nv_tileas.async.pipeline.create_null_token %p : {_P} -> !nv_tileas.stage\n"
        f"nv_tileas.async.pipeline.consumer_release %p, %none : {_P}, !nv_tileas.stage"
    )


@schedule_op("async.pipeline.inc_iter", group=GROUP)
class IncIterOp(TileAAOp):
    """The stage behind; behind the last one the first, an iteration later."""

    pipeline = operand_def(PIPELINE)
    iterator = operand_def(ITERATOR_KIND)
    result = result_def(ITERATOR_KIND)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("iterator", "result"),)
    EXAMPLES: ClassVar = examples(
        _RING + f"%next = nv_tileas.async.pipeline.inc_iter %p, %it : {_P}, "
        "!nv_tileas.pipeline_iterator -> !nv_tileas.pipeline_iterator"
    )

    def check(self, report: Report) -> None:
        root = self.iterator.owner
        while isinstance(root, IncIterOp):
            root = root.iterator.owner
        if not isinstance(root, CreateIteratorOp):
            return  # a loop may go on where the other side has ended
        for kind in (ProducerAcquireOp, ConsumerWaitOp):
            if is_passed_over(self.iterator, self.result, kind):
                own = kind.name.rpartition(".")[2]
                report.error(
                    PROTOCOL,
                    f"no {own} uses the previous stage, but one uses the next stage",
                    type_of("iterator"),
                    help="each side uses the stages in the order of inc_iter, each once",
                )


class _TakeStage(TileAAOp):
    """Waits for the stage of an iterator."""

    pipeline = operand_def(PIPELINE)
    iterator = operand_def(ITERATOR_KIND)
    result = result_def(STAGE_KIND)
    traits = _EFFECTS


@schedule_op("async.pipeline.producer_acquire", group=GROUP)
class ProducerAcquireOp(_TakeStage):
    """Waits until the stage of the iterator is empty; it is the producer's then."""

    EXAMPLES: ClassVar = examples(_PRODUCED)

    def check(self, report: Report) -> None:
        check_stage(self, report, ProducerWriteOp, ProducerCommitOp)
        _check_place(self, report)


@schedule_op("async.pipeline.consumer_wait", group=GROUP)
class ConsumerWaitOp(_TakeStage):
    """Waits until the stage of the iterator is full; it is the consumer's then."""

    EXAMPLES: ClassVar = examples(_RING + "\n".join((_WAIT, _READ, _RELEASE)))

    def check(self, report: Report) -> None:
        check_stage(self, report, ConsumerReadOp, ConsumerReleaseOp)
        _check_place(self, report)


class _OpenStage(TileAAOp):
    """The storage of a stage that is owned."""

    pipeline = operand_def(PIPELINE)
    stage = operand_def(STAGE_KIND)
    views = var_result_def(STORAGE)
    traits = _EFFECTS

    def check(self, report: Report) -> None:
        ty = self.pipeline.type
        assert isinstance(ty, PipelineType)
        found = [value.type for value in self.views]
        if len(found) != len(ty.views) or not all(
            _fits(mine, other)  # pyright: ignore[reportArgumentType]
            for mine, other in zip(found, ty.views, strict=True)
        ):
            shown = ", ".join(map(format_type, ty.views))
            report.error(VIEW_SHAPE, f"a stage holds {shown}", type_of("views"))


@schedule_op("async.pipeline.producer_write", group=GROUP)
class ProducerWriteOp(_OpenStage):
    """The storage of an acquired stage, to be written until it is committed."""

    UNDEFINED: ClassVar = ("reading the storage",)
    EXAMPLES: ClassVar = examples(_PRODUCED)


@schedule_op("async.pipeline.consumer_read", group=GROUP)
class ConsumerReadOp(_OpenStage):
    """The storage of a full stage, to be read until it is released; in any shape of as many elements."""

    UNDEFINED: ClassVar = ("writing the storage",)
    EXAMPLES: ClassVar = examples(_RING + "\n".join((_WAIT, _READ, _RELEASE)))


class _CloseStage(TileAAOp):
    """Gives a stage back."""

    pipeline = operand_def(PIPELINE)
    stage = operand_def(STAGE_KIND)
    traits = _EFFECTS


@schedule_op("async.pipeline.producer_commit", group=GROUP)
class ProducerCommitOp(_CloseStage):
    """The stage becomes full when all that was started for it has arrived.

    ``ahead``: in an iteration of a loop, how many iterations before it the stage shall be filled; ``tileas-expand`` sees to that.
    """

    ahead = opt_prop_def(INT64)
    EXAMPLES: ClassVar = examples(_PRODUCED)

    def check(self, report: Report) -> None:
        ty = self.pipeline.type
        check_ahead(self, report, ty.stages.data if isinstance(ty, PipelineType) else None)


@schedule_op("async.pipeline.consumer_release", group=GROUP)
class ConsumerReleaseOp(_CloseStage):
    """The stage is empty: its storage may be written again. Of no stage it does nothing."""

    EXAMPLES: ClassVar = examples(_RING + "\n".join((_WAIT, _READ, _RELEASE)))


def check_stage(
    op: _TakeStage, report: Report, opens: type[_OpenStage], closes: type[_CloseStage]
) -> None:
    """Check that a stage is opened and closed once each, in order, in the block where it is taken, and
    that its storage is used in between only.

    A loop may carry a stage that it reads to the next iteration, which closes it, and the last one to what
    is behind the loop.
    """
    names = [kind.name.rpartition(".")[2] for kind in (opens, closes)]
    own = op.name.rpartition(".")[2]
    block = op.parent_block()
    assert block is not None
    users = [use.operation for use in op.result.uses]
    opened = [user for user in users if isinstance(user, opens)]
    closed, where = _closing(op.result, closes)
    for name, made, places in zip(names, (opened, closed), ((block,), where), strict=True):
        if len(made) != len(places) or any(
            found.parent_block() is not place for found, place in zip(made, places, strict=True)
        ):
            carried = " for each block that carries it" if len(places) > 1 else ""
            report.error(
                PROTOCOL,
                f"expected one {name} of the stage in the block of its {own}{carried}, got {len(made)}",
                type_of("result"),
            )
            return
    kinds = (opens, closes, AsyncTiledTmaLoadOp, scf.YieldOp)
    others = [user for user in users if not isinstance(user, kinds)]
    if others or any(made.operands[0] is not op.pipeline for made in (*opened, *closed)):
        report.error(PROTOCOL, "the stage is used as that of another pipeline", type_of("result"))
        return
    places = {inner: number for number, inner in enumerate(block.ops)}
    first = places[opened[0]]
    last = places[closed[0]] if len(where) == 1 else len(places)
    if last < first:
        report.error(PROTOCOL, f"{names[1]} precedes {names[0]}", type_of("result"))
    if isinstance(op, ProducerAcquireOp):
        _check_filled(op, opened[0], report)
    for view in opened[0].results:
        for use in view.uses:
            at = _ancestor_in(use.operation, block)
            if at is None or not first < places[at] < last:
                message = (
                    f"'{use.operation.name}' uses the storage of a stage outside of its {names[0]}"
                )
                report.error(PROTOCOL, message, type_of("result"))


def _check_place(op: _TakeStage, report: Report) -> None:
    """Check that the side that an operation is of takes each place of the ring once."""
    other = taken_twice(op, op.iterator)
    if other is None:
        return
    own = op.name.rpartition(".")[2]
    if isinstance(other, scf.ForOp | scf.WhileOp) and is_within(op.result, other):
        message = f"the loop around it repeats {own} with the same iterator"
    elif isinstance(other, scf.YieldOp | scf.ConditionOp):
        message = f"the iterator of {own} advances to another one"
    else:
        message = f"the stage of this iterator is taken before, by '{other.name}'"
    report.error(
        PROTOCOL,
        message,
        type_of("iterator"),
        help="each side uses the stages in the order of inc_iter, each once",
    )


def _check_filled(op: ProducerAcquireOp, opened: _OpenStage, report: Report) -> None:
    """Check that each storage of an acquired stage is filled by one copy: it is full when the bytes of all
    have come."""
    for view in opened.results:
        copies = [
            use.operation for use in view.uses if isinstance(use.operation, AsyncTiledTmaLoadOp)
        ]
        here = [made for made in copies if made.parent is op.parent and made.stage is op.result]
        if len(here) != 1 or len(copies) != 1:
            report.error(
                PROTOCOL,
                f"expected one copy to '{format_type(view.type)}' of the stage in the block of its "
                f"producer_acquire, got {len(here)}",
                type_of("result"),
                help="the stage would never be full, or before all has come",
            )


def _closing(
    stage: SSAValue, closes: type[_CloseStage]
) -> tuple[Sequence[Operation], tuple[Block | None, ...]]:
    """What closes a stage, and the blocks of which each must do so once: that where it is taken; where
    a loop carries it on, the loop's, for the iteration before, and the one around it."""
    found = [use.operation for use in stage.uses if isinstance(use.operation, closes)]
    block = stage.owner.parent_block() if isinstance(stage.owner, Operation) else stage.owner
    yields = [use for use in stage.uses if isinstance(use.operation, scf.YieldOp)]
    loop = yields[0].operation.parent_op() if len(yields) == 1 and not found else None
    if not isinstance(loop, scf.ForOp):
        return found, (block,)
    place = yields[0].index
    closed: list[Operation] = []
    where = (loop.body.block, loop.parent_block())
    for value in (loop.body.block.args[1 + place], loop.results[place]):
        closed += [use.operation for use in value.uses if isinstance(use.operation, closes)]
    return closed, where


def _ancestor_in(op: Operation, block: object) -> Operation | None:
    """The operation of a block that holds another one, or is it."""
    found: Operation | None = op
    while found is not None and found.parent is not block:
        found = found.parent_op()
    return found


@schedule_op("make_tiled_tma_desc", group=GROUP)
class MakeTiledTmaDescOp(TileAAOp):
    """How boxes of a view's array are copied: an array whose address, extents and strides are known
    before the kernel starts.

    ``order`` lists the axes of the array, the slowest one first; the last has stride 1. ``box`` are the
    extents along them. Rows of 32, 64 and 128 bytes are swizzled.
    """

    base = operand_def(TILED_VIEW)
    order = prop_def(I64_ARRAY)
    box = prop_def(I64_ARRAY)
    result = result_def(DESC)
    traits = traits_def(Pure())
    UNDEFINED: ClassVar = ("strides of the array that are not multiples of 16 bytes",)
    EXAMPLES: ClassVar = examples(
        "%r = nv_tileas.make_tiled_tma_desc %view {order = array<i64: 0, 1>, box = array<i64: 8, 16>} "
        ": !nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>> -> "
        "!nv_tileas.tma_desc"
    )

    def check(self, report: Report) -> None:
        if (found := self.problem()) is not None:
            report.error(TMA, found[0], attr(found[1]))

    def problem(self) -> tuple[str, str] | None:
        """What is wrong with its boxes, and the attribute that says so; None where nothing is."""
        view = self.base.type
        assert isinstance(view, T.TiledViewType)
        order, box = int_list(self.properties["order"]), int_list(self.properties["box"])
        size = FORMATS[T.element_name(view.element_type)].storage_bits // 8
        if sorted(order) != list(range(len(view.dims))) or len(box) != len(order):
            return f"expected the {len(view.dims)} axes, each once", "order"
        if len(order) > MOST_AXES or any(not 1 <= extent <= MOST_EXTENT for extent in box):
            return f"no box has the extents {list(box)}", "box"
        if not size or box[-1] * size % 16:
            return f"rows of a box are multiples of 16 bytes, got {box[-1] * size}", "box"
        return None


@schedule_op("async.tiled_tma_load", group=GROUP)
class AsyncTiledTmaLoadOp(TileAAOp):
    """Starts to bring a tile of an array to a stage of a pipeline; zeros outside of the array.

    ``indices`` are those of the tile in the view of the descriptor. The stage is full when all
    ``tx_count`` bytes of its copies have arrived.
    """

    desc = operand_def(DESC)
    indices = var_operand_def(INDEX)
    target = operand_def(STORAGE)
    stage = operand_def(STAGE_KIND)
    tx_count = prop_def(INT64)
    result = result_def(ASYNC)
    traits = _EFFECTS
    BRACKETS: ClassVar = "indices"
    UNDEFINED: ClassVar = ("an access to the target before the stage is full",)
    EXAMPLES: ClassVar = examples(_PRODUCED)

    def check(self, report: Report) -> None:
        target = self.target.type
        assert isinstance(target, S.TiledViewType)
        if target.residency.data != "smem":
            report.error(
                RESIDENCY,
                f"asynchronous copies write smem, got {target.residency.data}",
                type_of("target"),
            )
        size = prod(target.dims) * FORMATS[T.element_name(target.element_type)].storage_bits // 8
        if int_property(self, "tx_count") != size:
            report.error(
                TMA,
                f"the copy moves {size} bytes, got tx_count {int_property(self, 'tx_count')}",
                attr("tx_count"),
            )
        check_boxes(report, self.desc, self.indices, target, "target")


def check_boxes(
    report: Report, desc: SSAValue, indices: Sequence[SSAValue], held: S.TiledViewType, name: str
) -> None:
    """Check that the boxes of a copy's descriptor are the tile that a storage holds: ``name`` is its operand."""
    made = desc.owner
    if not isinstance(made, MakeTiledTmaDescOp):
        return
    view = made.base.type
    assert isinstance(view, T.TiledViewType)
    if len(indices) != len(view.dims):
        message = f"expects {len(view.dims)} coordinates, but got {len(indices)}"
        report.error(VIEW_SHAPE, message, type_of("desc"))
    if (tuple(view.dims), view.element_type) != (held.dims, held.element_type):
        message = f"'{format_type(held)}' does not fit a tile of '{format_type(view)}'"
        report.error(VIEW_SHAPE, message, type_of(name))
        return
    if made.problem() is not None:
        return
    order, box = int_list(made.properties["order"]), int_list(made.properties["box"])
    *extents, row = (held.dims[axis] for axis in order)
    if list(box[:-1]) != extents or row % box[-1] or not lie_as_boxes(held, made):
        report.error(
            TMA,
            f"boxes of {list(box)} along the axes {list(order)} do not make up '{format_type(held)}'",
            type_of(name),
            help="a box covers the tile, except that rows are limited to 128 bytes; the "
            "storage has the swizzle of those rows",
        )


def lie_as_boxes(held: S.TiledViewType, made: MakeTiledTmaDescOp, *, whole: bool = False) -> bool:
    """Whether a storage lies as the boxes of a descriptor are written. One whose type does not say how it lies yet
    may, unless all is to be decided (``whole``)."""
    order, box = int_list(made.properties["order"]), int_list(made.properties["box"])
    size = max(FORMATS[T.element_name(held.element_type)].storage_bits // 8, 1)
    if not whole and not isinstance(held.layout, S.SharedAttr):
        return True
    rows = min(held.dims[order[-1]], ROW_BYTES // size)
    return box[-1] == rows and held.shared == SharedLayout.swizzled(held.dims, order[-1], size)
