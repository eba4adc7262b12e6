"""Strips: kernels whose blocks read short pieces of long rows, so that neighbouring blocks are better run as one.

A tile block that walks down a few columns of a matrix reads a few cache lines of each row. The processor prefetches within
rows and pages, so such reads get only part of the bandwidth. Where neighbouring blocks read adjacent pieces, several of
them are merged (``passes.tileaa.wide_blocks``), up to ``ROW_BYTES``. Blocks that move short pieces of several rows, at
the same offset within their pages, are merged as well. The kernel contains both forms: complete groups of blocks run
wide, if there are enough of them for all threads, the others one by one.

One long row is read more slowly than several at once, where the processor fetches ahead for each stream by itself. Blocks that
go along a row each, and reduce its pieces, are merged where that is so.

Even long pieces of rows are read at half the speed of whole rows (2048 x 2048 in f32, pieces of 4 or 8 KiB). Where no row
of a tile depends on another one, a thread therefore takes all of its groups along the matrix, and goes along the
first row of them all, then along the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilewright.analysis.tileaa.equality import same_places, same_value
from tilewright.analysis.tileaa.geometry import Axis, Extent, source_of_assumes, view_axes
from tilewright.cpu.codegen.analysis import cost_model, effects
from tilewright.cpu.codegen.analysis.plan import Plan
from tilewright.cpu.codegen.ir.elements import element_of
from tilewright.dialects import facts
from tilewright.dialects.arith import IndexConversion
from tilewright.dialects.cuda_tile.types import MAX_TILE_ELEMENTS
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp, ReduceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load, Store, TiledLoadOp, TiledStoreOp
from tilewright.dialects.nv_tileaa.ops.queues import GetProgramIdOp
from tilewright.dialects.syntax.engine import values_of
from tilewright.passes.tileaa.jam_loops import FACTOR, jam
from tilewright.passes.tileaa.sliced_sums import sliced
from tilewright.passes.tileaa.wide_blocks import (
    CannotWidenError,
    Widths,
    rows_of,
    thinned,
    widened,
    widths,
)

#: Rows of so many bytes are read about as fast as memory gives them.
ROW_BYTES = 4096
#: Where elements do not lie side by side, as many as this: a piece of so few pages is over before they are fetched
#: ahead. Rows of 2048 x[:, ::4] in f32 took half the time of two of 1024.
_ROW_ELEMENTS = 2048
#: Pieces of so many bytes cost no more than longer ones where whole rows are gone along, and fewer blocks are left over.
_PIECE_BYTES = 1024
#: Pieces of rows that are worth a stream of their own have so many bytes.
_LONG_PIECE = 512
#: Rows whose pieces have fewer bytes are not gone along one after the other.
_SHORTEST_IN_TURN = 256
#: What loops carry, in bytes, is more than registers hold.
_CARRIED_BYTES = 2 << 10
#: Strides up to this are those of rows.
NEAR = 8
_MOST_BLOCKS = 16
#: What the tiles of a wide block that are held in buffers may take: most of the first cache.
_BUFFER_BYTES = 32 << 10
#: What a loop adds up goes row by row if it has so many bytes: more than registers hold.
_SLICED_BYTES = 4 << 10
#: Loops that carry so many bytes, more than registers hold, make some iterations at once.
_JAMMED_BYTES = 2 << 10
#: Kernels of more operations are not compiled twice.
_LONGEST = 500
#: The same without a reduction or product, where rows come along less often.
_LONGEST_PLAIN = 150
#: What may be computed again for each row: so much, as ``facts.cost`` counts, or so small a part of what is computed for it anyway.
_REPEATED_COST, _REPEATED_SHARE = 8, 4
#: Products of more rows read their right operand from packed panels.
_FEW_ROWS = 16


@dataclass(frozen=True, slots=True)
class Strips:
    """How blocks are taken together."""

    function: FuncOp
    """What one block does for all of a group."""
    origin: dict[Operation, Operation]
    """Of which operation of the kernel each of its is."""
    axis: int
    """The axis of the grid."""
    factor: int
    """The blocks of a group."""
    row_bytes: int
    """The piece of a row that one of them reads."""
    strides: tuple[int, ...] = ()
    """The arguments of the kernel that must be small strides, at most ``NEAR``, for that to be better."""
    rows: int = 0
    """How many rows of what a loop adds up are taken one after the other, for all iterations each."""
    jammed: bool = False
    """Whether some iterations of a loop are made at once."""
    rows_at_once: bool = False
    """Whether blocks are merged for their rows to be read side by side."""
    heights: tuple[tuple[int, int], ...] = ()
    """The axes of the grid along which a block is taken row by row, and how many rows there are. The number of ``function``'s block
    along such an axis is that of the row."""
    each: bool = False
    """Whether each block goes through its own rows, and not through those of others in between."""


def described(found: Strips) -> str:
    """Return the message of the remark."""
    parts: list[str] = []
    if found.rows_at_once:
        parts.append(f"{found.factor} tile blocks run as one, whose rows are read side by side")
    elif found.factor > 1:
        parts.append(
            f"{found.factor} adjacent tile blocks run as one, so that row segments have "
            f"{found.factor * found.row_bytes} bytes, not {found.row_bytes}"
        )
    if found.rows:
        parts.append(f"reductions are computed row by row, {found.rows} in sequence")
    if found.jammed:
        parts.append(f"loops make {FACTOR} iterations at once")
    if found.heights:
        whose = "tile block" if found.each else "thread"
        parts.append(f"the rows of a {whose} are computed row by row")
    return "; ".join(parts)


def find_strips(
    function: FuncOp,
    ops: Sequence[Operation],
    plan: Plan,
    plan_of: Callable[[Block], Plan],
    *,
    distinct_arguments: bool,
    streams: int = 1,
) -> Strips | None:
    """How blocks of a kernel are better taken together, if they are. ``plan_of`` gives the plan of another one;
    ``distinct_arguments``: no array that is written shares memory with that of another pointer argument; ``streams``: so many
    rows are read faster at once than one."""
    folds = any(isinstance(op, DotOp | ReduceOp) for op in ops)
    if len(ops) > (_LONGEST if folds else _LONGEST_PLAIN):
        return None
    if any(isinstance(op, DotOp) and T.dims_of(op.c.type)[0] > _FEW_ROWS for op in ops):
        return None
    if (rows := sliced(function, _SLICED_BYTES)) is not None:
        inner, origin, count = rows
        body = inner.body.blocks[0]
        found = _taken_together(inner, list(inner.walk()), plan_of(body), rows=True)
        if found is not None:
            origin = _traced(found.origin, origin)
            jammed = jam(found.function, origin, _JAMMED_BYTES)
            return replace(found, origin=origin, rows=count, jammed=jammed)
    axes = sorted({int_property(op, "axis") for op in ops if isinstance(op, GetProgramIdOp)})
    if distinct_arguments and len(axes) > 1 and not any(isinstance(op, scf.ForOp) for op in ops):
        for axis in axes:
            found = _row_by_row(
                function, ops, axis, [each for each in axes if each != axis], plan_of
            )
            if found is not None:
                return found
    found = _taken_together(function, ops, plan)
    if found is None and distinct_arguments:
        found = _rows_in_turn(function, ops, axes)
    return _side_by_side(function, ops, plan, streams) if found is None else found


def _rows_in_turn(function: FuncOp, ops: Sequence[Operation], axes: Sequence[int]) -> Strips | None:
    """How blocks that go along several rows, and carry tiles of them that registers do not hold, go along one row after the
    other."""
    if any(isinstance(op, DotOp) for op in ops):
        return None
    for axis in axes:
        try:
            found = widths(function, axis)
        except CannotWidenError:
            continue
        height = rows_of(found)
        rows = [_row_piece(op, found) for op in found.loads]
        if (
            height > 1
            and rows
            and min(rows) >= _SHORTEST_IN_TURN
            and _carried_bytes(ops, found) >= _CARRIED_BYTES
            and _rows_are_apart(function, found)
        ):
            made, origin = thinned(function, found)
            other = 1 if axis == 0 else 0
            return Strips(made, origin, other, 1, min(rows), heights=((axis, height),), each=True)
    return None


def _carried_bytes(ops: Sequence[Operation], found: Widths) -> int:
    """The most that a loop carries of tiles of several rows."""
    carried = [
        [value for value in op.body.blocks[0].args if value in found.side]
        for op in ops
        if isinstance(op, scf.ForOp)
    ]
    return max(
        (
            sum(prod(T.dims_of(v.type)) * element_of(v.type).buffer_bytes for v in values)
            for values in carried
        ),
        default=0,
    )


def _row_piece(op: TiledLoadOp, found: Widths) -> int:
    """The bytes of the piece of a row that an iteration of a loop reads, where elements lie side by side in memory along one axis;
    else 0."""
    if not isinstance(op.parent_op(), scf.ForOp):
        return 0
    dims, tall = T.dims_of(op.result.type), found.side[op.result]
    axes = view_axes(op.base, dims)
    along = None if axes is None else _row_axis(axes)
    if along in (None, tall) or prod(dims) != dims[along] * dims[tall]:
        return 0
    return dims[along] * element_of(op.result.type).memory_bytes


def _side_by_side(
    function: FuncOp, ops: Sequence[Operation], plan: Plan, streams: int
) -> Strips | None:
    """How blocks that go along a row each, and reduce its pieces, are taken together."""
    if streams < 2 or len(ops) > _LONGEST_PLAIN or any(isinstance(op, DotOp) for op in ops):
        return None
    for axis in sorted({int_property(op, "axis") for op in ops if isinstance(op, GetProgramIdOp)}):
        try:
            found = widths(function, axis)
        except CannotWidenError:
            continue
        carried = [
            value
            for op in ops
            if isinstance(op, scf.ForOp)
            for value in op.body.blocks[0].args
            if value in found.side
        ]
        rows = [_bytes_along(op, found) for op in found.loads]
        if (
            not rows
            or min(rows) < _LONG_PIECE
            or any(prod(T.dims_of(value.type)) > 1 for value in carried)
            or _room(ops, plan, found) < streams
        ):
            continue
        function, origin = widened(function, found, streams)
        return Strips(function, origin, axis, streams, min(rows), rows_at_once=True)
    return None


def _bytes_along(op: TiledLoadOp, found: Widths) -> int:
    """The bytes of the piece of a row that a block reads in an iteration of a loop, for a reduction; else 0."""
    dims, wide = T.dims_of(op.result.type), found.side[op.result]
    axes, block = view_axes(op.base, dims), op.parent
    along = None if axes is None else _row_axis(axes)
    if along in (None, wide) or dims[wide] != 1 or prod(dims) != dims[along]:
        return 0
    loop = op.parent_op()
    if not isinstance(loop, scf.ForOp) or block is None:
        return 0
    reduced = any(
        isinstance(each, ReduceOp) and T.dims_of(each.operands[0].type)[wide : wide + 1] == (1,)
        for each in block.ops
    )
    return dims[along] * element_of(op.result.type).memory_bytes if reduced else 0


def _traced(
    made: dict[Operation, Operation], origin: dict[Operation, Operation]
) -> dict[Operation, Operation]:
    """The origins of operations that were made of others; what the others' rewriting added is an origin itself."""
    return {new: origin.get(old, old) for new, old in made.items()}


def _row_by_row(
    function: FuncOp,
    ops: Sequence[Operation],
    axis: int,
    others: Sequence[int],
    plan_of: Callable[[Block], Plan],
) -> Strips | None:
    """How groups of blocks along an axis of the grid are taken row by row."""
    try:
        found = widths(function, axis)
    except CannotWidenError:
        return None
    moves = [
        op for op in ops if isinstance(op, TiledLoadOp | TiledStoreOp) and _moved(op) in found.side
    ]
    row, _ = _row_bytes(moves, found, rows=False)
    folds = any(isinstance(op, DotOp | ReduceOp) for op in ops)
    strides = _strides_of(ops, found, folds=folds) if row else None
    if strides is None:
        return None
    origin = {op: op for op in ops}
    heights: list[tuple[int, int]] = []
    for other in others:
        try:
            tall = widths(function, other)
        except CannotWidenError:
            continue
        height = rows_of(tall)
        if height > 1 and _rows_are_apart(function, tall) and not _repeats_work(function, tall):
            function, made = thinned(function, tall)
            origin = _traced(made, origin)
            heights.append((other, height))
    if not heights:
        return None
    found, plan = widths(function, axis), plan_of(function.body.blocks[0])
    factor = max(
        1, min(_PIECE_BYTES // row, _MOST_BLOCKS, _room(list(function.walk()), plan, found))
    )
    if factor > 1:
        function, made = widened(function, found, factor)
        origin = _traced(made, origin)
    return Strips(function, origin, axis, factor, row, strides, heights=tuple(heights))


def _repeats_work(function: FuncOp, found: Widths) -> bool:
    """Whether much of what is computed for a row is the same for all rows of a block, which would do it once."""
    shared, own = 0, 0
    for op in function.walk():
        if op.results and cost_model.is_lazy(op) and prod(T.dims_of(op.results[0].type)) > 1:
            cost = facts.cost(op)
            if op.results[0] in found.side:
                own += cost
            else:
                shared += cost
    return shared > _REPEATED_COST and shared * _REPEATED_SHARE > own


def _rows_are_apart(function: FuncOp, found: Widths) -> bool:
    """Whether no row of a block writes to what another row of it reads or writes, where no two pointer arguments
    share memory: what goes to the same array goes through one view, to the same rows."""
    accesses = [op for op in function.walk() if isinstance(op, Load | Store)]
    for store in accesses:
        if not isinstance(store, Store):
            continue
        root = effects.root_of(store.operands[0])
        if root is None:
            return False
        for other in accesses:
            if effects.root_of(other.operands[0]) in (None, root) and not _same_rows(
                store, other, found
            ):
                return False
    return True


def _same_rows(one: Operation, other: Operation, found: Widths) -> bool:
    if not all(isinstance(op, TiledLoadOp | TiledStoreOp) for op in (one, other)):
        return False
    rows = [
        [(n, index) for n, index in enumerate(values_of(op, "indices")) if index in found.numbers]
        for op in (one, other)
    ]
    same = same_places(one.operands[0], other.operands[0]) and len(rows[0]) == len(rows[1]) == 1
    return same and rows[0][0][0] == rows[1][0][0] and same_value(rows[0][0][1], rows[1][0][1])


def _taken_together(
    function: FuncOp, ops: Sequence[Operation], plan: Plan, *, rows: bool = False
) -> Strips | None:
    """The same for a kernel as it is; ``rows``: its blocks go down strips row by row."""
    folds = any(isinstance(op, DotOp | ReduceOp) for op in ops)
    axes = {int_property(op, "axis") for op in ops if isinstance(op, GetProgramIdOp)}
    for axis in sorted(axes):
        try:
            found = widths(function, axis)
        except CannotWidenError:
            continue
        row, enough = _row_bytes(found.loads, found, rows=rows)
        if not row:
            continue
        strides = _strides_of(ops, found, folds=folds)
        if strides is None:
            continue
        factor = min(enough // row, _MOST_BLOCKS, _room(ops, plan, found))
        # Pieces with gaps that stay far from that were read no faster than the short ones (16 x 16 tiles).
        if factor > 1 and (enough == ROW_BYTES or 4 * factor * row >= enough):
            function, origin = widened(function, found, factor)
            return Strips(function, origin, axis, factor, row, strides)
    return None


def _row_bytes(
    moves: Sequence[TiledLoadOp | TiledStoreOp], found: Widths, *, rows: bool
) -> tuple[int, int]:
    """The bytes of the pieces of rows that a block reads, or writes, and how many are enough; 0 if it does not go
    down a strip, by tiles of several rows or of single ``rows``."""
    if not moves:
        return 0, 0
    largest = max(moves, key=lambda each: prod(T.dims_of(_moved(each).type)))
    tile = _moved(largest)
    dims, axis = T.dims_of(tile.type), found.side[tile]
    axes = view_axes(largest.base, dims)
    if axes is None or _row_axis(axes) != axis or (prod(dims) == dims[axis] and not rows):
        return 0, 0
    size = element_of(tile.type).memory_bytes
    enough = ROW_BYTES if axes[axis].stride == 1 else max(ROW_BYTES, _ROW_ELEMENTS * size)
    return dims[axis] * size, enough


def _moved(op: TiledLoadOp | TiledStoreOp) -> SSAValue:
    return op.result if isinstance(op, TiledLoadOp) else op.value


def _largest(found: Widths) -> TiledLoadOp:
    return max(found.loads, key=lambda each: prod(T.dims_of(each.result.type)))


def _strides_of(ops: Sequence[Operation], found: Widths, *, folds: bool) -> tuple[int, ...] | None:
    """The arguments that are strides along which a block of a kernel gets wider; None if it gets wider otherwise than
    along the rows of memory: what is turned on the way would be read in long rows, and written in many
    short pieces. Of a kernel that ``folds`` only what it reads most is asked."""
    strides: set[int] = set()
    for op in [_largest(found)] if folds else ops:
        if not isinstance(op, TiledLoadOp | TiledStoreOp):
            continue
        axes = view_axes(op.base, T.dims_of(_moved(op).type))
        along = None if axes is None else _row_axis(axes)
        for place, index in enumerate(values_of(op, "indices")):
            if index not in found.numbers:
                continue
            if axes is None or place != along:
                return None
            if (argument := _argument(axes[place].stride)) is not None:
                strides.add(argument)
    return tuple(sorted(strides))


def _row_axis(axes: Sequence[Axis]) -> int | None:
    """The axis of a tile along the rows of memory: that of the smallest stride. Of strides that only show when the
    code runs, the innermost counts as the smallest, unless a known one is small; None where none may be."""
    known = [
        (axis.stride, -place)
        for place, axis in enumerate(axes)
        if isinstance(axis.stride, int) and 0 < axis.stride <= NEAR and axis.tile > 1
    ]
    if known:
        return -min(known)[1]
    unknown = [
        place
        for place, axis in enumerate(axes)
        if axis.tile > 1 and _argument(axis.stride) is not None
    ]
    return unknown[-1] if unknown else None


def _argument(stride: Extent) -> int | None:
    """Which argument of the kernel a stride is."""
    while isinstance(stride, SSAValue):
        stride = source_of_assumes(stride)
        if isinstance(stride, BlockArgument):
            inside = isinstance(stride.block.parent_op(), FuncOp)
            return stride.index if inside else None
        if not isinstance(stride.owner, IndexConversion):
            return None
        stride = stride.owner.operands[0]
    return None


def _room(ops: Sequence[Operation], plan: Plan, found: Widths) -> int:
    """How many times as wide tiles may be."""
    held: set[SSAValue] = {*plan.kept}
    for op in ops:
        if op.name == "scf.for":
            held.update(op.regions[0].blocks[0].args)
    tiles = [value for value in held if value in found.side]
    size = sum(prod(T.dims_of(v.type)) * element_of(v.type).buffer_bytes for v in tiles)
    largest = max(prod(T.dims_of(value.type)) for value in found.side)
    room = min(MAX_TILE_ELEMENTS // largest, _BUFFER_BYTES // size if size else _MOST_BLOCKS)
    return 1 << (room.bit_length() - 1) if room else 0
