"""Groups stores that are made in one loop nest.

An optimizer kernel writes several arrays from the same tiles. Store by store, shared values would be kept in buffers and read
again. Instead, stores of one shape with nothing but functions of the position between them join the nest of the last one:
each iteration computes all values, then writes them.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa.equality import same_value
from tilewright.cpu.codegen.analysis import cost_model, effects
from tilewright.cpu.codegen.analysis.known_numbers import known_number
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.memory import Load, TiledStoreOp
from tilewright.dialects.nv_tileaa.ops.shapes import BlockTileOp
from tilewright.dialects.syntax.engine import values_of

_MOST = 8


def find_groups(
    ops: Sequence[Operation], never_read: Set[Operation], *, distinct_arguments: bool
) -> list[list[TiledStoreOp]]:
    """The groups of two stores and more, each in the order of the program. ``never_read``: stores to memory
    from which nothing is read.

    Stores of a group are weak and without masks, of tiles with one axis longer than 1, to arrays that
    are known and all different, or tiles of one view at known distances that nothing reads. Between the first and the last one stand only operations that are
    evaluated where they are read, and loads of other arrays than those stored to before.
    """
    if not distinct_arguments:
        return []
    groups: list[list[TiledStoreOp]] = []
    for block in dict.fromkeys(op.parent for op in ops):
        if block is not None:
            groups += _groups_in(block, never_read)
    return groups


def _groups_in(block: Block, never_read: Set[Operation]) -> list[list[TiledStoreOp]]:
    found: list[list[TiledStoreOp]] = [[]]
    targets: dict[TiledStoreOp, _Target] = {}
    for op in block.ops:
        group = found[-1]
        if isinstance(op, TiledStoreOp) and _can_join(op):
            here = targets[op] = _Target.of(op)
            if len(group) < _MOST and all(
                _go_together(other, op)
                or (never_read >= {op, other} and targets[other].is_beside(here))
                for other in group
            ):
                group.append(op)
            else:
                found.append([op])
        elif group and not _may_stand_between(op, group):
            found.append([])
    return [group for group in found if len(group) > 1]


def _can_join(op: TiledStoreOp) -> bool:
    owner = op.value.owner
    view = op.operands[0]
    if not op.is_weak or op.mask is not None or not isinstance(view.owner, BlockTileOp):
        return False
    dims = T.dims_of(op.value.type)
    whole = T.element_name(T.element_of(op.value.type)) not in ("i4", "f4E2M1FN")
    # Along one axis vectors have the same direction for all.
    long = sum(extent > 1 for extent in dims)
    lazy = isinstance(owner, Operation) and cost_model.is_lazy(owner)
    return whole and long == 1 and lazy and effects.root_of(view) is not None


def _go_together(one: TiledStoreOp, other: TiledStoreOp) -> bool:
    same = T.dims_of(one.value.type) == T.dims_of(other.value.type)
    roots = effects.root_of(one.operands[0]), effects.root_of(other.operands[0])
    return same and roots[0] != roots[1]


def are_beside(one: TiledStoreOp, other: TiledStoreOp) -> bool:
    """Whether two stores go through one view at indices that differ by known numbers, and elements may turn out to
    alternate: the real and the imaginary parts of numbers, or channels of pixels."""
    return _Target.of(one).is_beside(_Target.of(other))


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a store writes: a tile of this type, through a view, at indices of which some are known numbers."""

    type: Attribute
    view: SSAValue
    indices: Sequence[SSAValue]
    numbers: Sequence[int | None]

    @staticmethod
    def of(op: TiledStoreOp) -> _Target:
        indices = values_of(op, "indices")
        numbers = [known_number(index) for index in indices]
        return _Target(op.value.type, op.operands[0], indices, numbers)

    def is_beside(self, other: _Target) -> bool:
        if self.type != other.type or not same_value(self.view, other.view):
            return False
        if not _has_unknown_strides(self.view):
            return False  # Only a stride that shows when the code runs has versions in which stores meet.
        numbers = list(zip(self.numbers, other.numbers, strict=True))
        pairs = zip(self.indices, other.indices, strict=True)
        return any(None not in two and two[0] != two[1] for two in numbers) and all(
            None not in two or same_value(*pair) for two, pair in zip(numbers, pairs, strict=True)
        )


def _has_unknown_strides(view: SSAValue) -> bool:
    owner = view.owner
    memref = owner.source.type if isinstance(owner, BlockTileOp) else None
    return isinstance(memref, T.MemrefType) and T.DYNAMIC in memref.stride_dims


def _may_stand_between(op: Operation, group: Sequence[TiledStoreOp]) -> bool:
    if isinstance(op, Load):
        root = effects.root_of(op.operands[0])
        written = [effects.root_of(store.operands[0]) for store in group]
        return op.is_weak and root is not None and root not in written
    return not op.regions and (cost_model.is_lazy(op) or is_side_effect_free(op))
