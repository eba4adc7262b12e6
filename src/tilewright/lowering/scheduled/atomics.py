"""Atomic updates of tiles with layouts: the thread that owns an element updates it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from xdsl.dialects import builtin as b
from xdsl.dialects import vector
from xdsl.ir import SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.memory import Atomic, AtomicCasOp
from tilewright.dialects.upstream.llvm.atomics import FenceOp
from tilewright.dialects.upstream.llvm.syntax import ORDERINGS
from tilewright.lowering.nvgpu import atomics
from tilewright.lowering.nvgpu.memory import element_bytes, ordering
from tilewright.lowering.nvgpu.types import I64, scalar_of
from tilewright.lowering.nvgpu.vectors import part
from tilewright.lowering.scheduled.accesses import Group, Moves
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers
from tilewright.passes.tileas.element_accesses import updates_in_place


@lowers("atomic_rmw", "tiled_atomic_rmw")
def atomic_rmw(low: ScheduledKernel, op: Atomic) -> None:
    """By the layout of the tile, where that says which thread updates which element; else as without layouts."""
    if not _stays(low, op):
        atomics.atomic_rmw(low, op)
        return
    value = low.value(op.moved)
    _each(low, op, (value,), atomics.updating(low, op, scalar_of(value.type), fenced=True))


@lowers("atomic_cas")
def atomic_cas(low: ScheduledKernel, op: AtomicCasOp) -> None:
    """By the layout of the tile, as ``atomic_rmw``."""
    if not _stays(low, op):
        atomics.atomic_cas(low, op)
        return
    given = low.values((op.compare, op.replacement))
    update = atomics.exchanging(low, op, scalar_of(given[0].type), fenced=True)
    _each(low, op, given, update, given[0])


def _stays(low: ScheduledKernel, op: Atomic) -> bool:
    return isinstance(op.moved.type, T.TileType) and updates_in_place(
        op, low.layout_of(op.moved.type)
    )


def _each(
    low: ScheduledKernel,
    op: Atomic,
    values: Sequence[SSAValue],
    update: atomics.Update,
    unchanged: SSAValue | None = None,
) -> None:
    """Elements with the same conditions go together; masked ones give what is in ``unchanged``, or
    zeros. A fence in front of all of a thread's updates releases, and one behind them, where something
    depends on them, acquires; there threads meet."""
    element, layout = scalar_of(values[0].type), low.layout_of(op.moved.type)
    atomics.refuse_i1(low, element)
    _fence(low, op, "release")
    result, *tokens = op.results
    for token in tokens:
        low.bind(token, None)
    is_used = result.first_use is not None
    moves = Moves(low, op)
    width, groups = moves.known, moves.groups(moves.known)
    owner, size = low.owner_of(layout), element_bytes(element)
    ty = b.VectorType(element, [layout.registers])
    start = (low.constant(0, ty) if unchanged is None else unchanged) if is_used else None
    total = start

    def key(item: tuple[int, Group]) -> tuple[SSAValue | None, SSAValue | None]:
        return item[1].inside, item[1].mask

    for (inside, mask), members in groupby(enumerate(groups), key):
        registers = [
            (number * width + place, low.plus(group.address, place * size))
            for number, group in members
            for place in range(width)
        ]

        def work(registers: Sequence[tuple[int, SSAValue]] = registers) -> list[SSAValue]:
            made = [
                update(address, [part(low, value, at) for value in values])
                for at, address in registers
            ]
            return made if is_used else []

        def rest(registers: Sequence[tuple[int, SSAValue]] = registers) -> list[SSAValue]:
            return [] if start is None else [part(low, start, at) for at, _ in registers]

        made = low.either(low.both(low.both(inside, mask), owner), work, rest)
        for (at, _), old in zip(registers, made, strict=False):
            assert total is not None
            insert = vector.InsertOp(old, total, [at])
            total = low.add(insert).results[0]
    if total is not None:
        low.bind(result, total)
    if any(value.first_use is not None for value in op.results):
        _fence(low, op, "acquire")


def _fence(low: ScheduledKernel, op: Atomic, order: str) -> None:
    """The half of an update's order that is asked for, where it has it."""
    if op.semantic in (order, "acq_rel"):
        properties = {**ordering(op), "ordering": b.IntegerAttr(ORDERINGS[order], I64)}
        low.emit(FenceOp, (), (), properties)
