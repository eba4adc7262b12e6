"""The state of generating one kernel: values, buffers, the insertion point."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import Protocol

from llvmlite import ir
from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from tilewright.cpu.abi import Site
from tilewright.cpu.codegen.analysis import block_order, cost_model
from tilewright.cpu.codegen.analysis.arena import Arena, Slot
from tilewright.cpu.codegen.analysis.plan import Plan
from tilewright.cpu.codegen.coroutines.agent_memory import AgentMemory, Coroutines
from tilewright.cpu.codegen.coroutines.waiting_blocks import Waiting
from tilewright.cpu.codegen.emitter.nest_versions import NestVersions
from tilewright.cpu.codegen.emitter.strides import (
    NOT_STRIDED,
    STRIDED,
    Strides,
    loose_of,
    numbers_of,
)
from tilewright.cpu.codegen.emitter.table import LOWERINGS, refuse
from tilewright.cpu.codegen.emitter.vector_lengths import (
    lanes_in_words,
    registers_at_once,
    unroll_of,
    widest_bits,
    written_out,
)
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.debug_info import Origins
from tilewright.cpu.codegen.ir.elements import I8, I64, Element, element_of
from tilewright.cpu.codegen.ir.outlining import Part
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops import even_odd, held
from tilewright.cpu.codegen.loops.fills import as_before, flattened, side_by_side
from tilewright.cpu.codegen.loops.in_registers import Stage, fill_by_runs
from tilewright.cpu.codegen.loops.indices import Coords, Index
from tilewright.cpu.codegen.loops.lane_strides import access_needs_alignment
from tilewright.cpu.codegen.loops.long_rows import REMARK as LONG_ROWS
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.on_the_way import FILLED, written_on_the_way
from tilewright.cpu.codegen.loops.over_shapes import Body, Shape
from tilewright.cpu.codegen.loops.row_ends import (
    PART_REMARK,
    PIECES_REMARK,
    RANGE_REMARK,
    REMARK,
    Into,
    Limits,
    RowEnd,
    RowRange,
    Rows,
    row_end,
    row_padding,
    row_part,
    rows_inside,
    same_from,
)
from tilewright.cpu.codegen.loops.row_pieces import FEWEST_VECTORS, RowPieces
from tilewright.cpu.codegen.loops.row_spans import RowPart
from tilewright.cpu.codegen.loops.single_rows import REMARK as ROWS_REMARK
from tilewright.cpu.codegen.loops.single_rows import SingleRows, single_rows
from tilewright.cpu.codegen.loops.tiles import (
    Joined,
    Remembered,
    Strided,
    Tile,
    Uniform,
    buffer_tile,
    by_slot,
    guards,
    is_dense,
    is_same_buffer,
    only_in_step,
    reads_any,
    store_at,
    walk,
)
from tilewright.cpu.codegen.loops.transposition import block_size, by_blocks
from tilewright.cpu.codegen.memory.noalias_ranges import NoaliasRanges
from tilewright.cpu.codegen.memory.privatized_arrays import Copies
from tilewright.cpu.codegen.products.state import (
    Deferred,
    Destination,
    Extents,
    Gathered,
    Observed,
    OperandOf,
    PackedOperand,
    Round,
    RunningSum,
)
from tilewright.cpu.target import CpuTarget
from tilewright.dialects.arith import ArithOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp, ReduceOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.functions import YieldOp
from tilewright.dialects.nv_tileaa.ops.queues import QueueYieldOp
from tilewright.dialects.nv_tileaa.ops.shapes import ExtractOp
from tilewright.dialects.nv_tileas.base import is_schedule_op
from tilewright.launching.assertions import OperationSource
from tilewright.numerics.strides import row_major
from tilewright.passes.tileas.remarks import Remarks

#: A row that is longer than any vector.
ANY_EXTENT = 1 << 24
#: Functions of this many operations on tiles are made in parts.
_LONG_CODE = 200
#: In functions of this many, an iteration handles one vector.
_VERY_LONG_CODE = 1000
#: Nests that read so many tiles in all have versions for elements at distances, so that code does not grow
#: without bound.
_MOST_STRIDED = 96
_ENDS = (scf.YieldOp, scf.ConditionOp, QueueYieldOp, YieldOp)
_READ_ONCE = (ReduceOp, ScanOp)


@dataclass(slots=True)
class Unit:
    """What the functions of one compilation share."""

    module: ir.Module
    target: CpuTarget
    checked: bool = False
    sites: list[Site] = field(default_factory=list)
    loops: list[OperationSource] = field(default_factory=list)
    """Where the loops stand that look whether they are to stop, by their numbers from 1."""
    globals_: Mapping[str, Operation] = field(default_factory=dict)
    global_pointers: dict[str, Value] = field(default_factory=dict)
    order: block_order.Order = block_order.ROW_BY_ROW
    """In which order the blocks of the grid are numbered."""
    right_axes: Mapping[DotOp, Collection[int]] = field(default_factory=dict)
    """Along which axes of the grid blocks differ in the right operand of a product, where something is known."""
    has_non_temporal_stores: bool = False
    """Whether any store is non-temporal."""
    memory: NoaliasRanges | None = None
    """The memory that a launch may access, where the code asks for it."""
    coroutines: Coroutines | None = None
    """The agents of a kernel that has any, or queues."""
    plugins: Collection[str] = ()
    """Names of the external functions that the launch implements."""
    remarks: Remarks = field(default_factory=Remarks)
    """What is decided while code is made."""
    rows_at_once: bool = False
    """Whether blocks are merged for their rows to be reduced side by side, or would be."""
    reshapes_blocks: bool = False
    """Whether there is code for blocks that are merged, or taken row by row (``analysis.strips``), beside that for single ones, which adds in
    the same order."""
    parts: list[Part] = field(default_factory=list)
    """What can become functions of their own."""
    strided: int = 0
    """How many tiles are read by nests that have versions for elements at distances."""
    origins: Origins | None = None
    """Where instructions come from, if that is to be told."""

    def prepare(self, function: ir.Function) -> None:
        """Give a function the attributes that all code has."""
        llvm.prepare(function, self.target)


@dataclass(slots=True)
class Frame:
    """The arguments of the kernel and the block that it runs."""

    arena: Value
    runtime: Value
    grid: tuple[Value, Value, Value]
    block_id: tuple[Value, Value, Value]
    place: Value
    """The block's coordinates in memory, ``[3 x i32]``."""
    root: Value
    """The thread's arena; that of an agent is a part of it."""
    cursor: Value | None
    """Where the number of the last block lies that the call has begun, if blocks take over others."""
    end: Value
    """The number of the first block that is not the call's."""
    in_bands: Value | None = None
    """Whether blocks run in more than one band (``block_bands``); None where there are no bands."""


class Coroutine(Protocol):
    """What code is made for: the tile block, or an agent."""

    record: Value

    def give_way(self, f: FunctionEmitter, event: int = 0) -> None:
        """Let others go on. ``event`` tells the scheduler why; for a wait, what ``record`` says."""
        ...


class FunctionEmitter:
    """Makes the code of one kernel, operation by operation."""

    checks = True
    """Whether accesses are checked one by one, in checked code."""
    rows_in_turn = 1
    """How many rows the tiles of the kernel have of which this code takes one after the other (``analysis.strips``)."""

    def __init__(self, unit: Unit, plan: Plan, builder: Builder, frame: Frame):
        self.unit = unit
        self.plan = plan
        self.builder = builder
        self.frame = frame
        self.coroutine: Coroutine | None = None
        """Which coroutine of the tile block the code is for, where there are several."""
        self.waiting: Waiting | None = None
        """The coroutine of the tile block, where it may wait for other blocks; an agent has none."""
        self.joins: dict[Operation, list[Callable[[], None]]] = {}
        """What waits for agents, by the operation before which it does."""
        self.memory: AgentMemory | None = None
        """Where the arena lies in the thread's; None for the tile block, whose is the first part."""
        self.stopped: ir.Block | None = None
        """Where a call goes that is to end before its time."""
        self.copies: Mapping[Operation, Copies] = {}
        """The private copies that atomic updates go to."""
        self.alone: Value | None = None
        """Whether one thread runs the launch, where atomic updates need not be atomic then."""
        self.sums: Mapping[DotOp, RunningSum] = {}
        self.destinations: dict[Operation, Destination] = {}
        """For products, and for the stores of what they give: where the last one of a loop writes."""
        self.packed_panels: Mapping[OperandOf, PackedOperand] = {}
        """The operands of products that stay packed."""
        self.first_slots: dict[OperandOf, Value] = {}
        """Where the panels of each such operand, in the loop that code is in, begin."""
        self.canonical: Collection[SSAValue] = ()
        self.quiet: Collection[SSAValue] = ()
        self.by_keys: Collection[SSAValue] = ()
        """Values that can hold no NaN but the canonical one; none that signals; extrema of integers in the order of floats."""
        self.deferred: Mapping[DotOp, Deferred] = {}
        """Products that are made for several iterations of their loop at once."""
        self.observed: Mapping[DotOp, Observed] = {}
        """Products that only stores observe."""
        self.extents: dict[DotOp, Extents] = {}
        """How much of such a product is observed, from where that is known."""
        self.gathered: dict[DotOp, Gathered] = {}
        """The rounds that such a product still has to be made of, in the loop that code is in."""
        self.rounds: dict[Operation, Round] = {}
        """Of each loop that code is in."""
        self.arena = Arena()
        self.values: dict[SSAValue, object] = {}
        self.targets: dict[SSAValue, object] = {}
        """Buffers in which values are to be computed, those of tiles that a loop hands on."""
        self.pending: list[tuple[Strided, Tile]] = []
        """Buffers that are filled when something reads them, or before anything has an effect."""
        self._nest_of_pending: object = None
        """What is the same for all tiles that one nest may fill with these; None where it fills no more."""
        self._being_filled: dict[int, Sequence[Strided]] = {}
        self.pending_since = 0
        self._flushing = False
        self._nests = 0
        self.rarely = False
        """Whether the code runs only where another form of the kernel cannot: then it is kept short."""
        self.inside_part = False
        """Whether code goes to a part, which another one cannot be in."""
        self.now = 0
        self._at: Operation | None = None
        if unit.origins is not None:
            unit.origins.leave(builder)

    # -- values ------------------------------------------------------------------------------

    def scalar(self, value: SSAValue) -> Value:
        """The LLVM value of a scalar."""
        found = self.values[value]
        assert isinstance(found, ir.Value), value
        return found

    def tile(self, value: SSAValue) -> Tile:
        """A tile; a scalar counts as one without axes, the same everywhere."""
        found = self.values[value]
        if isinstance(found, ir.Value):
            return Uniform(element_of(value.type), (), found)
        assert isinstance(found, Tile), value
        return found

    def define(self, value: SSAValue, tile: Tile) -> None:
        """Let a value be this tile, held in a buffer if the plan keeps it."""
        run = self.plan.networks.runs.get(value)
        if run is not None and isinstance(tile, Joined):
            tile = Stage(tile.element, tile.dims, tile, run)
        if value in self.plan.kept:
            alone = isinstance(tile, Stage) or self._lies_across(tile)
            nest = None if alone else self.plan.nest_of(value)
            if self.pending and not self._goes_along(tile, nest):
                # They are filled in nests of their own, so fill them now: the buffers that they read are
                # free then, and few buffers that take turns stay in the first cache.
                self.flush()
            target = self.buffer(tile.element, tile.dims, self.plan.last_use(value))
            rows = {id(row): row for each in walk(tile) if (row := each.next_row) is not None}
            same = self._padding_of(tile)
            target = replace(target, next_rows=tuple(rows.values()), same_from=same)
            if not self.pending:
                self.pending_since, self._nest_of_pending = self.now, nest
            self.pending.append((target, tile))
            self._being_filled |= by_slot([target])
            if self.unit.origins is not None and self._at is not None:
                self.unit.origins.note(self.pending[-1][1], self._at)
            tile = Remembered.of(tile, target) if value in self.plan.remembered else target
        self.values[value] = tile

    def _padding_of(self, tile: Tile) -> Value | None:
        """From which place of its rows on all elements of a tile are the same, where that is padding."""
        if self.rarely or self.plan.size >= _LONG_CODE or not tile.dims:
            return None
        padded = (t.same_from if isinstance(t, Strided) else t.limits for t in walk(tile))
        if all(end is None for end in padded):
            return None
        return same_from(self.builder, [tile], tile.dims, len(tile.dims) - 1)

    def row_padding(
        self, tiles: Sequence[Tile], dims: Sequence[int], axis: int, width: int, rounds: int
    ) -> RowEnd | None:
        """Where padding begins in rows of buffers, so many vectors in an iteration; None where there is no version for that."""
        if self.rarely or self.plan.size >= _LONG_CODE:
            return None
        return row_padding(self.builder, tiles, dims, axis, width, rounds)

    def _goes_along(self, tile: Tile, nest: object) -> bool:
        """Whether a tile can be written to its buffer in the nest that fills those that wait."""
        return (
            nest is not None
            and nest == self._nest_of_pending
            and tile.dims == self.pending[0][0].dims
            and only_in_step(tile, self._being_filled)
        )

    def read_once(self, op: Operation) -> list[Tile]:
        """The operands of an operation whose nest reads every element of each once, in any order.

        Tiles whose buffers are still to be filled are computed there and written on the way; the
        operation says ``settle`` when its nest is done.
        """
        if self.plan.size >= _LONG_CODE or any(isinstance(tile, Stage) for _, tile in self.pending):
            self.flush(keep_last=not any(isinstance(tile, Stage) for _, tile in self.pending[-1:]))
        tiles = [self.tile(value) for value in op.operands]
        while self.pending:
            found = written_on_the_way(tiles, self.pending)
            if found is not None:
                self.unit.remarks.add("buffer", FILLED.format(len(self.pending)), op)
                return found
            self.flush(keep_last=len(self.pending) > 1)
        return tiles

    def settle(self) -> None:
        """The buffer that ``read_once`` promised is filled."""
        self.pending.clear()
        self._being_filled = {}

    @property
    def checked(self) -> bool:
        """Whether the code is to check each access."""
        return self.unit.checked and self.checks

    def flush(self, *, keep_last: bool = False) -> None:
        """Fill the buffers that wait for it, but for the last one if it may wait on."""
        waiting, rest = self.pending, []
        if keep_last:
            waiting, rest = waiting[:-1], waiting[-1:]
        self.pending, flushing, self._flushing = [], self._flushing, True
        self._being_filled = by_slot(target for target, _ in rest)
        if waiting:
            self.fill(waiting, in_turn=True)
        self.pending, self._flushing = rest, flushing

    def _lies_across(self, tile: Tile) -> bool:
        """Whether a tile is better transposed by blocks when a buffer is filled with it."""
        wanted = vector_axis(tile.dims)
        return bool(block_size(tile, wanted, self.lanes([tile], ANY_EXTENT)))

    # -- buffers -----------------------------------------------------------------------------

    def carried_buffer(self, element: Element, dims: Sequence[int], last: int) -> Strided:
        """A new buffer for what control hands on, used until position ``last``; on the stack if registers may hold it."""
        stays = self.unit.coroutines is None and self.waiting is None
        if (
            not stays
            or self.plan.size >= _LONG_CODE
            or not held.fits(self.unit.target, element, dims)
        ):
            return self.buffer(element, dims, last)
        return held.on_stack(self.builder, element, dims, self.arena.place_on_stack())

    def buffer(self, element: Element, dims: Sequence[int], last: int) -> Strided:
        """A new dense row-major buffer in the arena that is used until position ``last``."""
        slot = self.scratch(prod(dims) * element.buffer_bytes, last)
        pointer = self.pointer_to(slot)
        self.arena.note(pointer, last)
        return buffer_tile(element, dims, pointer, slot.offset)

    def _expect_live(self, tiles: Sequence[Tile]) -> None:
        """Stop before code that reads buffers too late: the plan knows too few of their readers."""
        pointers = [tile.pointer for tile in walk(*tiles) if isinstance(tile, Strided)]
        self.arena.expect_live(pointers, self._since)

    @property
    def _since(self) -> int:
        """What waits to be computed still reads buffers that were needed when it was defined."""
        return self.pending_since if self.pending or self._flushing else self.now

    def scratch(self, size: int, last: int | None = None) -> Slot:
        """``size`` bytes of the arena; only for the operation at hand unless ``last`` tells the position until which."""
        return self.arena.place(size, self._since, self.now if last is None else last)

    def pointer_to(self, slot: Slot) -> Value:
        """The address of a buffer in the thread's arena."""
        offset = ir.Constant(I64, slot.offset)
        return self.builder.gep(self.frame.arena, [offset], source_etype=I8)

    def in_thread(self, slot: Slot) -> Value:
        """How many bytes behind the start of the thread's arena a slot lies."""
        return ir.Constant(I64, slot.offset) if self.memory is None else self.memory.at(slot.offset)

    def keep(self, tile: Tile, last: int) -> Strided:
        """The tile in a new buffer."""
        target = self.buffer(tile.element, tile.dims, last)
        self.fill([(target, tile)])
        return target

    def fill(
        self,
        pairs: Sequence[tuple[Strided, Tile]],
        *,
        in_turn: bool = False,
        limits: Sequence[Value | None] = (),
    ) -> None:
        """Write tiles of one shape to buffers, in one nest; ``in_turn``: as if one after the other;
        ``limits``: behind which nothing need be written along each axis, where tiles end behind their
        arrays."""
        pairs = [(target, tile) for target, tile in pairs if not is_same_buffer(target, tile)]
        if not pairs:
            return
        lanes = self.lanes([tile for _, tile in pairs], ANY_EXTENT)
        target, tile = pairs[0]
        if len(pairs) == 1 and isinstance(tile, Stage) and is_dense(target):
            self._fill_by_runs(target, tile, min(lanes, prod(tile.dims)))
            return
        pairs = side_by_side(self.builder, pairs, lanes)
        if pairs[0][0].dims != target.dims:
            limits = ()
        if (flat := flattened(pairs, lanes)) is not None:
            pairs, limits = flat, ()
        elif len(pairs) == 1 and (before := as_before(pairs[0], lanes)) is not None:
            self.fill([before])
            return
        elif len(pairs) == 1 and is_dense(target) and type(target) is Strided and self.has_room:
            target, tile = pairs[0]
            if (joined := tile.rows_as_one(self.builder, lanes)) is not None:
                long, condition = joined
                self.unit.remarks.add("loop", LONG_ROWS, self._at)
                strides = row_major(long.dims)
                row = Strided(target.element, long.dims, target.pointer, strides, target.slot)
                self.either(
                    condition, lambda: self._fill([(row, long)]), lambda: self._fill(pairs, limits)
                )
                return
        self._fill(pairs, limits, in_turn=in_turn)

    @property
    def has_room(self) -> bool:
        """Whether the code is short enough for further versions of nests."""
        return not self.rarely and self.plan.size < _VERY_LONG_CODE

    def either(
        self, condition: Value | None, one: Callable[[], None], other: Callable[[], None]
    ) -> None:
        """Make the code of one where a condition holds (None: always), else of the other."""
        self.flush()
        if condition is None:
            one()
            return
        with self.builder.if_else(condition) as branches:
            for branch, make in zip(branches, (one, other), strict=True):
                with branch:
                    make()

    def _fill(
        self,
        pairs: Sequence[tuple[Strided, Tile]],
        limits: Sequence[Value | None] = (),
        *,
        in_turn: bool = False,
    ) -> None:
        """Write tiles to buffers in one nest."""

        def put(nest: LoopNest, coords: Coords, target: Strided, value: Value) -> None:
            offset = target.offset(nest, coords)
            store_at(nest, target.pointer, target.element, offset, value)

        def body(nest: LoopNest, coords: Coords) -> None:
            found: list[Value] = []
            for target, tile in pairs:
                found.append(nest.vector(tile, coords))
                if in_turn:
                    nest.holds(target, coords, found[-1])
            for (target, _), value in zip(pairs, found, strict=True):
                put(nest, coords, target, value)

        target, tile = pairs[0]
        if len(pairs) > 1 or not self.transposes(
            tile, vector_axis(tile.dims), lambda nest, at, value: put(nest, at, target, value)
        ):
            into = Into(None, limits, buffers=[target for target, _ in pairs])
            self.nest(target.dims, [tile for _, tile in pairs], body, into=into)

    def _fill_by_runs(self, target: Strided, tile: Stage, lanes: int) -> None:
        self.flush()

        def one(masked: bool) -> list[Value]:
            fill_by_runs(LoopNest(self.builder, masked=masked), target, tile, lanes)
            return []

        with self.part():
            self.versions_for([tile], one)

    def transposes(
        self,
        tile: Tile,
        wanted: int,
        put: Callable[[LoopNest, Coords, Value], None],
        guard: Sequence[Value] = (),
    ) -> bool:
        """Hand vectors along ``wanted`` to ``put`` if the tile lies along another axis; else false."""
        size = block_size(tile, wanted, self.lanes([tile], ANY_EXTENT))
        if not size:
            return False
        self.flush()

        def one(masked: bool) -> list[Value]:
            nest = LoopNest(self.builder, masked=masked)
            by_blocks(nest, tile, wanted, size, put)
            nest.close_all()
            return []

        with self.part():
            self.versions_for([tile], one, guard)
        return True

    # -- parts -------------------------------------------------------------------------------

    @contextmanager
    def part(self) -> Iterator[None]:
        """What is made meanwhile can become a function of its own, in long code (``outlining``)."""
        # Places in the source hold for one function.
        whole = self.unit.coroutines is not None or self.unit.origins is not None
        if self.inside_part or whole or self.plan.size < _LONG_CODE:
            yield
            return
        b, self.inside_part = self.builder, True
        before, first = b.block, len(b.function.blocks)
        start = b.append_basic_block("part")
        b.branch(start)
        b.position_at_end(start)
        yield
        behind = len(b.function.blocks)
        end = b.append_basic_block("rest")
        b.branch(end)
        b.position_at_end(end)
        self.unit.parts.append(Part(b.function, before, start, end, first, behind))
        self.inside_part = False

    # -- loop nests --------------------------------------------------------------------------

    def nest(
        self,
        dims: Sequence[int],
        tiles: Sequence[Tile],
        body: Body,
        *,
        axis: int | None = None,
        lanes: int | None = None,
        unroll: int | None = None,
        guard: Sequence[Value] = (),
        into: Into | None = None,
    ) -> None:
        """Run ``body`` for all elements of a shape, vectors along ``axis`` (the innermost). ``lanes`` is their length, else what
        the target has for these tiles; ``unroll`` how many of them an iteration handles. There are two versions where
        ``tiles``, which the body reads, have guards, or ``guard`` gives more: without checks of elements, and with (only
        that where it costs nothing, ``loops.held``). The one without has two where ``into`` may be written by
        non-temporal stores; the one with checks leaves out what lies behind its limits, where the body does nothing, and
        has two where only rows may end (``loops.row_ends``).
        """
        self.flush()
        self._expect_live([*tiles, *into.buffers] if into else tiles)
        self._nests += 1
        into, work = into or Into(None, ()), -self._nests  # Others go by positions.
        along = vector_axis(dims) if axis is None else axis
        width = lanes or self.lanes(tiles, dims[along] if dims else 1)
        rounds = 1 if lanes == 1 else self._rounds(tiles, width, unroll)
        words = 0
        if lanes is None:
            words = lanes_in_words(self.builder, self.unit.target, tiles, dims, along, width)
        if words:
            self.unit.remarks.add("loop", even_odd.REMARK, self._at)
            rounds, width = max(rounds * width // words, 1), words
        most = held.vectors(self.unit.target, [*tiles, *into.buffers])
        short = bool(dims) and prod(dims) <= width * most
        rows = None if short else self._single_rows(tiles, (dims, along, width), into, guard)
        conditions = [*guards(*tiles), *guard]
        versions = NestVersions(
            self,
            self.unit.target,
            tiles,
            body,
            Shape(dims, along, width, rounds, short),
            fixed=lanes is not None,
            conditions=conditions,
            guard=guard,
            into=into,
            rows=rows,
            strides=self._strides(into, tiles),
            work=work,
            in_words=words,
        )
        with self.part():
            if short and conditions and held.masks_are_free(self.unit.target, tiles):
                versions.edge(True, None)
            else:
                self.versions(conditions, versions.either)

    def _strides(self, into: Into, tiles: Sequence[Tile]) -> Strides:
        """What a nest of these tiles has versions for; a remark tells of them."""
        found = Strides([*into.loose, *loose_of(tiles)] if into.strided else [])
        if not found.loose:
            return found
        self.unit.strided += numbers_of(tiles)
        if self.unit.strided > _MOST_STRIDED:
            self.unit.remarks.add("stride", NOT_STRIDED, self._at)
            return Strides(())
        self.unit.remarks.add("stride", STRIDED, self._at)
        return found._replace(gathers=all(each.gathers for each in found.loose))

    def _rounds(self, tiles: Sequence[Tile], width: int, unroll: int | None) -> int:
        """How many vectors an iteration without checks of elements handles."""
        short = self.rarely or self.plan.size >= _VERY_LONG_CODE
        usual = 1 if short else unroll or unroll_of(tiles)
        return usual if width == 1 or unroll else written_out(tiles, usual)

    def row_end(
        self,
        tiles: Sequence[Tile],
        dims: Sequence[int],
        axis: int,
        width: int,
        rounds: int,
        ends: Sequence[Limits] | None = (),
    ) -> RowEnd | None:
        """Where rows end of what a nest reads, so many vectors in an iteration, and of tiles with these ``ends`` that it
        writes; None where it has no version for that, as where ``ends`` are not known."""
        # Rows that others are reduced beside go the same way alone, so that the same bits come out.
        rarely = self.rarely and not self.unit.rows_at_once
        if ends is None or rarely or self.plan.size >= _LONG_CODE:
            return None
        return row_end(self.builder, tiles, ends, dims, axis, width, rounds)

    def row_part(
        self,
        tiles: Sequence[Tile],
        shape: tuple[Sequence[int], int, int],
        into: Into,
        guard: Sequence[Value],
    ) -> RowPart | RowPieces | None:
        """Where rows need no checks of what a nest reads and writes through pointers; None where that is not known, or
        nothing is read and written so. A single row whose quotients change is taken in pieces. ``shape``: extents, the axis of
        vectors, their length."""
        ends = [] if into.through else into.all_ends(guard)
        if ends is None or self.rarely:
            return None
        rows = Rows(tiles, ends, into.through, *shape)
        part = row_part(self.builder, rows)
        if part is None:
            return None
        dims, axis, width = shape
        if not part.turns or prod(dims) != dims[axis] or dims[axis] < FEWEST_VECTORS * width:
            self.unit.remarks.add("loop", PART_REMARK, self._at)
            return part
        self.unit.remarks.add("loop", PIECES_REMARK, self._at)

        def around(nest: LoopNest, place: Value) -> RowPart:
            at = place, nest.depth
            found = row_part(nest.inner, rows, at)
            assert found is not None
            return found

        aligned = access_needs_alignment(tiles, into.through, axis, width)
        return RowPieces(around, exact=part.exact and not aligned)

    def row_range(
        self,
        tiles: Sequence[Tile],
        shape: tuple[Sequence[int], int, int],
        into: Into,
        guard: Sequence[Value],
    ) -> RowRange | None:
        """Which rows need no checks of what a nest reads and writes through pointers; None where that is not known, or it is the
        same for all. ``shape`` as above."""
        ends = [] if into.through else into.all_ends(guard)
        if ends is None or self.rarely or self.plan.size >= _LONG_CODE:
            return None
        found = rows_inside(self.builder, Rows(tiles, ends, into.through, *shape))
        if found is not None:
            self.unit.remarks.add("loop", RANGE_REMARK, self._at)
        return found

    def _single_rows(
        self,
        tiles: Sequence[Tile],
        shape: tuple[Sequence[int], int, int],
        into: Into,
        guard: Sequence[Value],
    ) -> SingleRows | None:
        """What a nest asks of each row that numbers from memory choose; None where it does not."""
        if self.rarely or self.plan.size >= _LONG_CODE:
            return None
        ends = [] if into.through else into.all_ends(guard)
        at_once = unroll_of(tiles)
        rows = single_rows(tiles, into.through, ends, shape, at_once)
        if rows is not None:
            self.unit.remarks.add("loop", ROWS_REMARK, self._at)
        return rows

    def cut_rows(self, end: RowEnd | None, make: Callable[[bool], list[Value]]) -> list[Value]:
        """``make(False)`` where nothing but rows ends behind its array, else, and where that is not known,
        ``make(True)``."""
        if end is None:
            return make(True)
        self.unit.remarks.add("loop", REMARK, self._at)
        return self.versions([end.only], make)

    def lanes(self, tiles: Sequence[Tile], extent: int) -> int:
        """How many elements of these tiles make a vector, along an axis of this extent: as many as the widest of them
        fill one, or several where the one would wait for itself.
        """
        longest = [tile.most_lanes for tile in walk(*tiles)]
        width = (
            self.unit.target.vector_bits
            // widest_bits(tiles)
            * registers_at_once(tiles, self.unit.target)
        )
        return min(width, extent, *(most for most in longest if most is not None))

    def versions_for(
        self,
        tiles: Sequence[Tile],
        make: Callable[[bool], list[Value]],
        guard: Sequence[Value] = (),
    ) -> list[Value]:
        """``versions`` of what reads these tiles: without checks where their guards hold, and what ``guard`` gives more."""
        self._expect_live(tiles)
        return self.versions([*guards(*tiles), *guard], make)

    def versions(
        self, conditions: Sequence[Value], make: Callable[[bool], list[Value]]
    ) -> list[Value]:
        """``make(False)`` where all conditions hold, else ``make(True)``; the values of either."""
        unique = list({id(c): c for c in conditions}.values())
        b = self.builder
        condition = llvm.all_of(b, unique)
        if condition is None:
            return make(False)
        fast, slow, done = (b.append_basic_block(n) for n in ("fast", "edge", "done"))
        b.cbranch(condition, fast, slow)
        found: list[tuple[list[Value], ir.Block]] = []
        for block, masked in ((fast, False), (slow, True)):
            b.position_at_end(block)
            values = make(masked)
            found.append((values, b.block))
            b.branch(done)
        b.position_at_end(done)
        return llvm.merge(b, found)

    def element(self, tile: Tile, coords: Sequence[Index]) -> Value:
        """One element of a tile, at the place where code goes."""
        if reads_any(tile, self._being_filled):
            self.flush()

        def one(masked: bool) -> list[Value]:
            return [LoopNest(self.builder, masked=masked).eval(tile, tuple(coords)).value]

        return self.versions_for([tile], one)[0]

    def leave(self) -> None:
        """End the call, with blocks left over."""
        assert self.stopped is not None
        self.builder.branch(self.stopped)

    # -- operations --------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Make the code of a block's operations, but for what ends a region."""
        for op in block.ops:
            if isinstance(op, _ENDS):
                self.flush()
                self.now = self.plan.position[op]
                self._join(op)
                return
            self.operation(op)

    def operation(self, op: Operation) -> None:
        """Emit code for an operation, or keep it for where its elements are read.

        Raises ``TileIRError`` (``cpu-unsupported``) for one without a rule.
        """
        self.now = self.plan.position[op]
        lowering = LOWERINGS.get("arith.elementwise" if _is_elementwise(op) else op.name)
        if lowering is None:
            if is_schedule_op(op):
                raise refuse(
                    op,
                    "the kernel is scheduled for a GPU",
                    help=(
                        "run it on the reference machine, the simulator (`sim:ARCH`) or a GPU "
                        "(`cuda`); the CPU compiles the unscheduled kernel"
                    ),
                )
            raise refuse(op, LOWERINGS.reason(op, "there is none"))
        if self.pending and not (cost_model.is_lazy(op) or self._may_come_first(op)):
            self.flush()
        self._join(op)
        origins = self.unit.origins
        if origins is None:
            self._lowered(op, lowering)
            return
        around, self._at, outer = self._at, op, self.builder.debug_metadata
        origins.enter(self.builder, op)
        lowering(self, op)
        for result in op.results:
            if isinstance(tile := self.values.get(result), Tile) and not isinstance(tile, Strided):
                origins.note(tile, op)
        self._at, self.builder.debug_metadata = around, outer

    def _may_come_first(self, op: Operation) -> bool:
        """Whether buffers may wait until behind an operation: it sees to those that it reads, or reads none, and writes nothing."""
        if isinstance(op, ExtractOp):
            return not reads_any(self.tile(op.source), self._being_filled)
        tiles = any(is_tile(value.type) for value in op.operands)
        alone = not tiles and not op.regions and is_side_effect_free(op)
        return alone or isinstance(op, _READ_ONCE)

    def _lowered(
        self, op: Operation, lowering: Callable[[FunctionEmitter, Operation], None]
    ) -> None:
        if cost_model.is_lazy(op) or (op.regions and not cost_model.is_body_of_elements(op)):
            lowering(self, op)
            return
        if self.plan.size >= _LONG_CODE:
            # Buffers are filled in parts of their own.
            self.flush(keep_last=True)
        with self.part():
            lowering(self, op)

    def _join(self, op: Operation) -> None:
        """Wait for the agents that must have ended before an operation."""
        for wait in self.joins.pop(op, ()):
            wait()

    def give_token(self, op: Operation) -> None:
        """The token of an operation's effect, which carries nothing."""
        for result in op.results:
            if isinstance(result.type, T.MemTokenType):
                self.values[result] = None

    def variable(self, start: Value) -> Value:
        """A variable of the function that holds a value; as a pointer."""
        with self.builder.goto_entry_block():
            cell = llvm.stack(self.builder, start.type)
        self.builder.store(start, cell)
        return cell

    def as_index(self, value: SSAValue) -> Value:
        """An index or integer scalar as an i64, read unsigned."""
        found = self.scalar(value)
        return found if found.type == I64 else self.builder.zext(found, I64)


def _is_elementwise(op: Operation) -> bool:
    return isinstance(op, ArithOp) and op.name != "arith.constant"


def vector_axis(dims: Sequence[int]) -> int:
    """The innermost axis with more than one element."""
    return max((axis for axis, extent in enumerate(dims) if extent > 1), default=0)


def is_tile(ty: object) -> bool:
    """Whether a type is that of tiles."""
    return isinstance(ty, T.TileType)
