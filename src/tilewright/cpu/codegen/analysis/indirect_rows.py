"""Rows that numbers from memory choose: of a table, of a cache that pages make up, of what a node has for neighbours.

The processor sees the address of such a row when its number has come, and waits for memory then. The numbers themselves lie one after
the other, so that those of the next iterations are there to be read, and their rows to be asked for, long before they are due.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import is_side_effect_free

from tilewright.cpu.codegen.analysis.known_numbers import CASTS, known_number
from tilewright.cpu.codegen.ir.elements import element_of
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.memory import Load, LoadOp, TiledLoadOp
from tilewright.dialects.nv_tileaa.ops.pointers import AddPtrOp
from tilewright.dialects.nv_tileaa.ops.queues import GetProgramIdOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BlockTileOp,
    BroadcastOp,
    ExpandDimsOp,
    ExtractOp,
    SplatOp,
    ViewOp,
)

#: Rows of fewer bytes are not asked for.
_SHORTEST = 64
#: So many bytes are on their way, in rows of which there is one at least and so many at most.
_BYTES_AHEAD, _MOST_AHEAD = 4096, 16
#: Rows that are read together may take so many bytes: a part of the second cache.
_MOST_BYTES = 1 << 16
#: How many operations may make an address of a number.
_MOST_OPERATIONS, _DEEPEST = 64, 12
_SHAPES = (SplatOp, BroadcastOp, ExpandDimsOp, ViewOp)
_SUMS = {"arith.addi": 1, "arith.subi": -1}


@dataclass(frozen=True, slots=True)
class IndirectRows:
    """``load`` reads rows, ``rows`` of them, that as many ``numbers`` choose, a scalar or a tile, which ``source`` has read. An
    iteration of the loop, or the tile block, that comes ``ahead`` later reads its numbers so many elements further: ``further``."""

    numbers: SSAValue
    source: LoadOp | TiledLoadOp
    load: LoadOp | TiledLoadOp
    rows: int
    ahead: int
    further: int

    @property
    def row_bytes(self) -> int:
        """How long a row is."""
        return _row_bytes(self.load)


def find_indirect_rows(ops: Sequence[Operation], grid_axis: int) -> dict[Operation, IndirectRows]:
    """Such rows, by the operations that read them. ``grid_axis``: along which tile blocks follow one another.

    The place of the number must rise evenly in the loop around it, or from block to block; tiles of numbers follow one another
    without a gap.
    """
    found: dict[Operation, IndirectRows] = {}
    for op in ops:
        if not isinstance(op, LoadOp | TiledLoadOp) or not op.is_weak or not _reads_rows(op):
            continue
        behind = list(_numbers_behind(op))
        if len(behind) != 1:
            continue
        numbers, source = behind[0]
        rows = prod(T.dims_of(numbers.type))
        size = rows * _row_bytes(op)
        if rows != prod(T.dims_of(op.results[0].type)[:-1]) or size > _MOST_BYTES:
            continue
        rise = _rise_of_place(source, _iteration_of(source, grid_axis))
        if rise and (rows == 1 or rise == rows):
            ahead = min(max(_BYTES_AHEAD // size, 1), _MOST_AHEAD)
            found[op] = IndirectRows(numbers, source, op, rows, ahead, ahead * rise)
    return found


def _row_bytes(load: Load) -> int:
    ty = load.results[0].type
    return T.dims_of(ty)[-1] * element_of(ty).buffer_bytes


def _reads_rows(load: Load) -> bool:
    """Whether a load reads rows of some length."""
    dims = T.dims_of(load.results[0].type)
    return bool(dims) and dims[-1] > 1 and _row_bytes(load) >= _SHORTEST


def _numbers_behind(load: LoadOp | TiledLoadOp) -> Iterator[tuple[SSAValue, LoadOp | TiledLoadOp]]:
    """The integers from memory that an address depends on, which are read in the same block of operations, with what reads them."""
    pending = [load.base] if isinstance(load, LoadOp) else list(load.indices)
    seen: set[SSAValue] = set(pending)
    while pending:
        value = pending.pop()
        owner = value.owner
        if not isinstance(owner, Operation) or owner.parent is not load.parent:
            continue
        if (source := _source_of(value)) is not None:
            yield value, source
        elif is_side_effect_free(owner) and not owner.regions and len(seen) <= _MOST_OPERATIONS:
            new = [operand for operand in owner.operands if operand not in seen]
            seen.update(new)
            pending += new


def _source_of(value: SSAValue) -> LoadOp | TiledLoadOp | None:
    """The load that integers are read by; a scalar may be the only element of a tile."""
    owner = value.owner
    if not isinstance(T.element_of(value.type), IntegerType):
        return None
    if isinstance(owner, ExtractOp):
        load = owner.source.owner
        if prod(T.dims_of(owner.source.type)) != 1:
            return None
    else:
        load = owner
    if not isinstance(load, LoadOp | TiledLoadOp) or not load.is_weak:
        return None
    return None if isinstance(load.operands[0].type, T.MemrefType) else load


@dataclass(frozen=True, slots=True)
class _Iteration:
    """What rises from one iteration of a loop to the next, and by how much; without a loop from one tile block to the next along an
    axis of the grid."""

    loop: scf.ForOp | scf.WhileOp | None
    counters: Mapping[SSAValue, int]
    grid_axis: int

    def rise(self, value: SSAValue, depth: int = _DEEPEST) -> int | None:
        """By how much a number rises, where it is a sum of what is known to and of what stays; None where that is not known."""
        if value in self.counters:
            return self.counters[value]
        owner = value.owner
        if isinstance(owner, Block):
            return None if owner.parent_op() is self.loop else 0
        if self.loop is not None and not self.loop.is_ancestor(owner):
            return 0
        if isinstance(owner, GetProgramIdOp):
            along = self.loop is None and owner.program_id is None
            return int(along and int_property(owner, "axis") == self.grid_axis)
        if not depth or not is_side_effect_free(owner) or owner.regions:
            return None
        rises = [self.rise(operand, depth - 1) for operand in owner.operands]
        if all(each == 0 for each in rises):
            return 0
        if owner.name in CASTS or isinstance(owner, _SHAPES):
            return rises[0]
        if len(rises) != 2 or rises[0] is None or rises[1] is None:
            return None
        if owner.name in _SUMS:
            return rises[0] + _SUMS[owner.name] * rises[1]
        if owner.name == "arith.muli":
            for rise, other in zip(rises, reversed(owner.operands), strict=True):
                if rise and (factor := known_number(other)) is not None:
                    return rise * factor
        return None


def _iteration_of(op: Operation, grid_axis: int) -> _Iteration:
    """The loop around an operation; the grid where there is none."""
    inner: Operation = op
    around = op.parent_op()
    while around is not None:
        if isinstance(around, scf.ForOp):
            step = known_number(around.step)
            counters: dict[SSAValue, int] = {}
            if step is not None:
                counters[around.body.block.args[0]] = step
            return _Iteration(around, counters, grid_axis)
        if isinstance(around, scf.WhileOp):
            return _Iteration(around, dict(_counters(around, inner, op)), grid_axis)
        inner, around = around, around.parent_op()
    return _Iteration(None, {}, grid_axis)


def _counters(loop: scf.WhileOp, inner: Operation, op: Operation) -> Iterator[tuple[SSAValue, int]]:
    """What a loop hands on to itself with a constant added, where it goes on through the side of ``inner``, a branch in its first
    block, that an operation is on."""
    before, after = (region.blocks[0] for region in loop.regions)
    condition, last = before.last_op, after.last_op
    assert condition is not None
    assert last is not None
    for argument, following in zip(before.args, last.operands, strict=True):
        if isinstance(following, BlockArgument) and following.block is after:
            following = condition.operands[1 + following.index]
        if isinstance(following, OpResult) and following.owner is inner:
            (side,) = (region for region in inner.regions if region.is_ancestor(op))
            end = side.blocks[0].last_op
            assert end is not None
            following = end.operands[following.index]
        owner = following.owner
        if isinstance(owner, Operation) and owner.name == "arith.addi":
            for counter, step in (owner.operands, reversed(owner.operands)):
                number = known_number(step)
                if counter is argument and number is not None:
                    yield argument, number


def _rise_of_place(source: LoadOp | TiledLoadOp, iteration: _Iteration) -> int | None:
    """How many elements further the place of a number lies in the next iteration; None where that is not known."""
    if isinstance(source, LoadOp):
        owner = source.base.owner
        while isinstance(owner, AssumeOp):
            owner = owner.operands[0].owner
        if not isinstance(owner, AddPtrOp) or iteration.rise(owner.base) != 0:
            return None
        return iteration.rise(owner.offset)
    view = source.operands[0].owner
    if not isinstance(view, BlockTileOp) or not isinstance(view.source.type, T.MemrefType):
        return None
    # Numbers lie side by side along the last axis.
    *others, last = (iteration.rise(index) for index in source.indices)
    strides = view.source.type.stride_dims
    dense = len(strides) == len(others) + 1 and strides[-1] == 1
    if not dense or last is None or any(each != 0 for each in others):
        return None
    return last * prod(T.dims_of(source.results[0].type)[-1:])
