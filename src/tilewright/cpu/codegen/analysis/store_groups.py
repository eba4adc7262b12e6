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
from tilewright.dialects.nv_tileaa.ops.memory import Load, StoreOp, TiledStoreOp
from tilewright.dialects.nv_tileaa.ops.shapes import BlockTileOp
from tilewright.dialects.syntax.engine import values_of

AnyStore = StoreOp | TiledStoreOp
"""A store through pointers, or through a view."""

_MOST = 16


def find_groups(
    ops: Sequence[Operation], never_read: Set[Operation], *, distinct_arguments: bool
) -> list[list[AnyStore]]:
    """The groups of two stores and more, each in the order of the program. ``never_read``: stores to memory
    from which nothing is read.

    Stores of a group are weak, all through views or all through tiles of pointers, and to arrays that are known. Those through
    views have no masks, tiles with one axis longer than 1, and all different arrays, or tiles of one view at known distances that
    nothing reads. Whether two of those through pointers that write to one array meet is asked when the code runs. Between the
    first and the last one stand only operations that are evaluated where they are read, and loads of other arrays than those
    stored to before.
    """
    if not distinct_arguments:
        return []
    groups: list[list[AnyStore]] = []
    for block in dict.fromkeys(op.parent for op in ops):
        if block is not None:
            groups += _groups_in(block, never_read)
    return groups


def _groups_in(block: Block, never_read: Set[Operation]) -> list[list[AnyStore]]:
    found: list[list[AnyStore]] = [[]]
    for op in block.ops:
        group = found[-1]
        if isinstance(op, AnyStore) and _can_join(op):
            if len(group) < _MOST and _go_together([*group, op], never_read):
                group.append(op)
            else:
                found.append([op])
        elif group and not _may_stand_between(op, group):
            found.append([])
    return [group for group in found if len(group) > 1]


def _can_join(op: AnyStore) -> bool:
    target, owner = op.operands[0], op.value.owner
    if not op.is_weak or effects.root_of(target) is None:
        return False
    dims = T.dims_of(op.value.type)
    whole = T.element_name(T.element_of(op.value.type)) not in ("i4", "f4E2M1FN")
    lazy = isinstance(owner, Operation) and cost_model.is_lazy(owner)
    if isinstance(op, StoreOp):
        return whole and lazy and bool(dims) and isinstance(target.type, T.TileType)
    # Along one axis vectors have the same direction for all.
    long = sum(extent > 1 for extent in dims)
    return (
        whole and lazy and long == 1 and op.mask is None and isinstance(target.owner, BlockTileOp)
    )


def _go_together(group: Sequence[AnyStore], never_read: Set[Operation]) -> bool:
    """Whether stores, of which all but the last go together, are a group."""
    first, last = group[0], group[-1]
    if type(first) is not type(last) or T.dims_of(first.value.type) != T.dims_of(last.value.type):
        return False
    if isinstance(first, StoreOp):
        return True
    arrays = [effects.root_of(op.operands[0]) for op in group]
    if len(set(arrays)) == len(arrays):
        return True
    targets = [_Target.of(op) for op in group if isinstance(op, TiledStoreOp)]
    return never_read >= set(group) and all(
        target.is_beside(targets[-1])
        for target, array in zip(targets[:-1], arrays, strict=False)
        if array == arrays[-1]
    )


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


def _may_stand_between(op: Operation, group: Sequence[AnyStore]) -> bool:
    if isinstance(op, Load):
        root = effects.root_of(op.operands[0])
        written = [effects.root_of(store.operands[0]) for store in group]
        return op.is_weak and root is not None and root not in written
    return not op.regions and (cost_model.is_lazy(op) or is_side_effect_free(op))
