"""``sink-stores``: what both branches of an ``if`` hand to a store is stored in each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import JoinMemTokenOp
from tilewright.dialects.nv_tileaa.ops.memory import StoreOp, TiledStoreOp
from tilewright.passes.base import clone_with_locations, inherit_location
from tilewright.passes.tileaa.base import TileAAPass

_STORES = (StoreOp, TiledStoreOp)


@dataclass(frozen=True)
class SinkStores(TileAAPass):
    """Moves weak stores of tiles that an ``scf.if`` gives into its branches.

    A branch then writes what it computes where it belongs, and in place what it reads from there, as it does where gradients are added
    to those of other blocks, or written by the first one. Only what has no effect may stand between the ``if`` and
    the stores, which keep their order, and nothing else may read the tiles. Operations that do not depend on the ``if`` move before it.
    Cost: one walk.
    """

    name: ClassVar[str] = "sink-stores"

    def rewrite_function(self, function: FuncOp) -> None:
        sink_stores(function)


def sinkable(function: FuncOp) -> list[Operation]:
    """The operations ``scf.if`` of a function that have stores behind them which move into their branches."""
    return [op for op in function.walk() if isinstance(op, scf.IfOp) and _found(op) is not None]


def sink_stores(function: FuncOp) -> None:
    """Move stores into branches in place, from outer ones into inner ones."""
    for op in [op for op in function.walk() if isinstance(op, scf.IfOp)]:
        found = _found(op)
        if found is not None:
            found.rewrite()


def _found(branch: scf.IfOp) -> _Stores | None:
    """The stores behind an ``if`` that move into it; None where there are none."""
    tiles = [value for value in branch.results if _is_long(value)]
    if not tiles:
        return None
    behind, dependent = list[Operation](), set[SSAValue](branch.results)
    for op in _following(branch):
        is_store = isinstance(op, _STORES) and op.is_weak
        if not is_store and (op.regions or not is_side_effect_free(op)):
            break
        depends = any(value in dependent for value in op.operands)
        if is_store and not depends:
            break
        behind.append(op)
        if depends:
            dependent.update(op.results)
    stores = [op for op in behind if isinstance(op, _STORES)]
    while stores:
        found = _Stores(branch, stores, _needed(stores, behind), dependent)
        # A store that stays would change its place among those that move.
        late = next((n for n, op in enumerate(stores) if not found.has_to_itself(op)), None)
        if late is None:
            return found
        stores = stores[:late]
    return None


def _following(op: Operation) -> Iterator[Operation]:
    following = op.next_op
    while following is not None:
        yield following
        following = following.next_op


def _needed(stores: Iterable[Operation], behind: Sequence[Operation]) -> list[Operation]:
    """What stores are computed by of these operations, and they themselves, in the order of the program."""
    candidates, pending, seen = set(behind), list(stores), set(stores)
    while pending:
        for value in pending.pop().operands:
            owner = value.owner
            if isinstance(owner, Operation) and owner in candidates and owner not in seen:
                seen.add(owner)
                pending.append(owner)
    return [op for op in behind if op in seen]


def _is_long(value: SSAValue) -> bool:
    return isinstance(value.type, T.TileType) and prod(T.dims_of(value.type)) > 1


@dataclass(frozen=True, slots=True)
class _Stores:
    """Stores that move into the branches of an ``if``, with all that they need; ``dependent``: what is computed of its results."""

    branch: scf.IfOp
    stores: list[StoreOp | TiledStoreOp]
    needed: list[Operation]
    dependent: set[SSAValue]

    def has_to_itself(self, store: StoreOp | TiledStoreOp) -> bool:
        """Whether a tile that a store writes comes from the ``if``, and is read by nothing that stays."""
        owner = store.value.owner
        made: list[Operation] = []
        if isinstance(owner, Operation) and owner in self.needed:
            made = _needed([owner], self.needed)
        read = {store.value, *(value for op in made for value in op.operands)}
        tiles = {value for value in read if value in self.dependent and _is_long(value)}
        users = {use.operation for value in tiles for use in value.uses}
        return bool(tiles) and users <= set(self.needed)

    def rewrite(self) -> None:
        """Make an ``if`` with the stores in the place of the one that has none."""
        old = self.branch
        moving = dict.fromkeys(
            op for op in self.needed if any(v in self.dependent for v in op.operands)
        )
        for op in self.needed:
            if op not in moving:
                op.detach()
                Rewriter.insert_op(op, InsertPoint.before(old))
        tokens = [result for op in self.stores for result in op.results]
        kept = [value for value in old.results if not self._is_over(value, moving)]
        blocks = [region.blocks[0] for region in old.regions]
        outer = [self._outer_tokens(block) for block in blocks]
        for block, others in zip(blocks, reversed(outer), strict=True):
            self._end(block, moving, kept, tokens, others)
        then, otherwise = [old.detach_region(region) for region in list(old.regions)]
        new = scf.IfOp(old.cond, [value.type for value in (*kept, *tokens)], then, otherwise)
        inherit_location(new, old)
        Rewriter.insert_op(new, InsertPoint.before(old))
        for value, result in zip((*kept, *tokens), new.results, strict=True):
            value.replace_all_uses_with(result)
            result.name_hint = value.name_hint
        for op in reversed(moving):
            if not any(result.uses for result in op.results):
                Rewriter.erase_op(op)
        Rewriter.erase_op(old)

    def _is_over(self, value: OpResult, moving: dict[Operation, None]) -> bool:
        """Whether nothing reads a tile any more."""
        return _is_long(value) and all(use.operation in moving for use in value.uses)

    def _outer_tokens(self, block: Block) -> list[list[SSAValue]]:
        """For each result the tokens from outside of a branch that what it hands on comes after."""
        last = block.last_op
        assert last is not None
        return [list(_tokens_before(value, self.branch)) for value in last.operands]

    def _end(
        self,
        block: Block,
        moving: dict[Operation, None],
        kept: Sequence[SSAValue],
        tokens: Sequence[SSAValue],
        others: Sequence[list[SSAValue]],
    ) -> None:
        """Store at the end of a branch. ``others``: for each result the tokens from before that the other branch would hand on: who
        looks at both takes what is behind the ``if`` to come after them."""
        last = block.last_op
        assert isinstance(last, scf.YieldOp)
        values: dict[SSAValue, SSAValue] = {}
        for result, own, other in zip(self.branch.results, last.operands, others, strict=True):
            joined = [own, *(token for token in other if token is not own)]
            values[result] = own
            if len(joined) > 1 and any(use.operation in moving for use in result.uses):
                made = JoinMemTokenOp.create(operands=joined, result_types=[own.type])
                inherit_location(made, last)
                Rewriter.insert_op(made, InsertPoint.before(last))
                values[result] = made.results[0]
        ended: dict[SSAValue, SSAValue] = {}
        ended.update(zip(self.branch.results, last.operands, strict=True))
        for op in moving:
            made = clone_with_locations(op, values)
            Rewriter.insert_op(made, InsertPoint.before(last))
        handed = scf.YieldOp(*(ended[v] for v in kept), *(values[v] for v in tokens))
        inherit_location(handed, last)
        Rewriter.insert_op(handed, InsertPoint.before(last))
        Rewriter.erase_op(last)


def _tokens_before(value: SSAValue, branch: Operation) -> dict[SSAValue, None]:
    """The tokens from outside of a branch that a token made in it depends on, or itself; none for what is no token."""
    found: dict[SSAValue, None] = {}
    if not isinstance(value.type, T.MemTokenType):
        return found
    pending, seen = [value], {value}
    while pending:
        token = pending.pop()
        home = token.owner if isinstance(token.owner, Block) else token.owner.parent
        if home is None or not branch.is_ancestor(home):
            found[token] = None
            continue
        owner = token.owner if isinstance(token.owner, Operation) else home.parent_op()
        assert owner is not None
        for op in owner.walk():
            new = [v for v in op.operands if isinstance(v.type, T.MemTokenType) and v not in seen]
            seen.update(new)
            pending += new
    return found
