"""``forward-memory``: store-to-load forwarding and elimination of redundant loads."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from math import prod
from typing import ClassVar, NamedTuple

from xdsl.ir import Operation, SSAValue

from tilewright.analysis.tileaa import Facts, synchronises
from tilewright.analysis.tileaa.geometry import source_of_assumes, view_axes
from tilewright.analysis.tileaa.order import writes
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import (
    GatherLoadOp,
    Load,
    LoadOp,
    ScatterStoreOp,
    Store,
    StoreOp,
    TiledLoadOp,
    TiledStoreOp,
)
from tilewright.dialects.syntax.engine import values_of
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.tokens import token_in, token_out

#: Which stores write what which loads read, given equal bases and indices.
_PAIRS = {
    LoadOp.name: StoreOp.name,
    TiledLoadOp.name: TiledStoreOp.name,
    GatherLoadOp.name: ScatterStoreOp.name,
}

#: The number of effects before a load that are examined.
_MAX_STEPS = 128


@dataclass(frozen=True)
class ForwardMemory(TileAAPass):
    """Replaces a weak load by the value of an earlier access in the same block of operations.

    Forwards from a load if both read the same elements in the same way, and from a store if all its
    elements are provably in bounds and at distinct addresses. In both cases tokens must order the
    load after the earlier access, and nothing in between may write the memory or let another tile
    block do so. The load is erased, and its token is replaced by the one it waited for. Cost: a
    bounded number of effects per load.
    """

    name: ClassVar[str] = "forward-memory"

    def rewrite_function(self, function: FuncOp) -> None:
        facts = Facts(function)
        gone: set[Operation] = set()
        for op in facts.tokens.effects:
            if isinstance(op, Load) and not synchronises(op):
                source = _source(op, facts, gone)
                if source is not None:
                    _replace(op, source)
                    gone.add(op)


def _source(load: Load, facts: Facts, gone: set[Operation]) -> SSAValue | None:
    """Return the value that a load would yield, if an earlier access determines it.

    Walks back from effect to effect, latest in program order first, so that everything between an
    access in the block and the load has been visited before the access itself.
    """
    position = facts.lifetimes.position
    paths: dict[Operation, _Path] = {}
    waiting: list[tuple[int, int, Operation]] = []

    def reach(op: Operation, path: _Path) -> None:
        for before, kinds in facts.tokens.direct(op).items():
            step = _Path(path.same and False in kinds, path.open)
            if before not in paths:
                heappush(waiting, (-position(before), len(paths), before))
                paths[before] = step
            else:
                known = paths[before]
                paths[before] = _Path(known.same or step.same, known.open and step.open)

    reach(load, _Path(same=True, open=True))
    for _ in range(_MAX_STEPS):
        if not waiting:
            return None
        _, _, access = heappop(waiting)
        path = paths[access]
        is_source = path.same and path.open and access not in gone
        if is_source and _gives_what(access, load, facts):
            return access.moved  # pyright: ignore[reportAttributeAccessIssue]
        reach(access, _Path(path.same, path.open and not _disturbs(access, load, facts)))
    return None


class _Path(NamedTuple):
    """How an effect precedes a load. ``same``: in the same iteration. ``open``: nothing in between
    can change what the load reads."""

    same: bool
    open: bool


def _gives_what(access: Operation, load: Load, facts: Facts) -> bool:
    """Whether, after an access, memory holds the value it moved at the addresses the load reads."""
    return (
        isinstance(access, Access)
        and access.parent is load.parent
        and _same_place(load, access)
        and not synchronises(access)
        and (not isinstance(access, Store) or _surely_written(access, facts))
    )


def _disturbs(other: Operation, load: Load, facts: Facts) -> bool:
    return synchronises(other) or (writes(other) and facts.aliases.may_alias(other, load))


def _same_place(load: Load, access: Access) -> bool:
    """Whether an access moves exactly the elements that the load reads."""
    if access.name not in (load.name, _PAIRS[load.name]) or access.moved.type != load.moved.type:
        return False
    if access.operands[0] is not load.operands[0]:
        return False
    groups = ("indices", "mask")
    if any(values_of(load, group) != values_of(access, group) for group in groups):
        return False
    if isinstance(access, Store):
        return not values_of(load, "mask")
    # The elements that are not read are replaced by the load's fallback value, which must agree.
    ignored = {"cache_modifier", "eviction_policy", "in_bounds", "latency", "atom"}
    return values_of(load, "other") == values_of(access, "other") and all(
        load.properties.get(name) == access.properties.get(name)
        for name in {*load.properties, *access.properties} - ignored
    )


def _surely_written(store: Store, facts: Facts) -> bool:
    """Whether memory holds the whole value after a store: all in bounds, at distinct addresses."""
    base, dims = store.operands[0], T.dims_of(store.moved.type)
    if not isinstance(base.type, T.MemrefType | T.TiledViewType):
        return prod(dims) == 1 or (
            len(dims) == 1 and facts.patterns.of(base).axes[0].run == dims[0]
        )
    axes = view_axes(source_of_assumes(base), dims)
    if axes is None or any(axis.sparse for axis in axes):
        return False
    # A static stride is positive, but strides of several axes can still produce equal addresses.
    apart = prod(dims) == 1 or (len(dims) == 1 and isinstance(axes[0].stride, int))
    return apart and facts.bounds.inside(store)


def _replace(load: Load, value: SSAValue) -> None:
    load.moved.replace_all_uses_with(value)
    token, own = token_in(load), token_out(load)
    if own is not None and token is not None:
        own.replace_all_uses_with(token)
    block = load.parent
    assert block is not None
    block.erase_op(load)
