"""Groups joined tiles that are filled in one loop nest.

A stage of a Fourier transform joins halves twice: real parts and imaginary parts, of the same sums and differences. Tile by tile,
these would be kept in buffers, or computed again. Instead, joined tiles of one shape with nothing but functions of the
position between them are filled together, half by half.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.ir import Block, Operation, SSAValue

from tilewright.cpu.codegen.analysis import cost_model
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.shapes import CatOp

#: How many tiles one nest fills at most.
_MOST = 4


def find_join_groups(
    ops: Sequence[Operation], kept: Collection[SSAValue], alone: Collection[SSAValue]
) -> list[list[CatOp]]:
    """The groups of two joined tiles and more, each in the order of the program, of those that lie in buffers (``kept``) and are not
    filled ``alone``.

    Tiles of a group have one type and are joined along one axis, of halves of one shape. Between the first and the last one stand only
    operations that are evaluated where they are read, and none of the group is computed from another.
    """
    found: list[list[CatOp]] = []
    for block in dict.fromkeys(op.parent for op in ops):
        if block is not None:
            found += _groups_in(block, kept, alone)
    return [group for group in found if len(group) > 1]


def _groups_in(
    block: Block, kept: Collection[SSAValue], alone: Collection[SSAValue]
) -> list[list[CatOp]]:
    found: list[list[CatOp]] = []
    group: list[CatOp] = []
    behind: set[SSAValue] = set()
    """What is computed from tiles of the group."""
    for op in block.ops:
        follows = any(operand in behind for operand in op.operands)
        if isinstance(op, CatOp) and op.result in kept:
            together = group and not follows and len(group) < _MOST and _is_like(op, group[0])
            if not together:
                group, behind = [], set()
                found.append(group)
            if op.result in alone or not _has_equal_halves(op):
                group, behind = [], set()
                continue
            group.append(op)
            behind.add(op.result)
        elif not cost_model.is_lazy(op):
            group, behind = [], set()
        elif follows:
            behind.update(op.results)
    return found


def _is_like(op: CatOp, other: CatOp) -> bool:
    return op.result.type == other.result.type and _axis(op) == _axis(other)


def _axis(op: CatOp) -> int:
    return int_property(op, "axis")


def _has_equal_halves(op: CatOp) -> bool:
    return T.dims_of(op.lhs.type) == T.dims_of(op.rhs.type)
