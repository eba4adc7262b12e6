"""Which memory operations may touch the same memory and must keep their order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Protocol

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.analysis.tileaa.equality import same_places, same_value
from tilewright.analysis.tileaa.provenance import name_of_global, origin_of
from tilewright.cpu.codegen.analysis import cost_model
from tilewright.cpu.codegen.analysis.distinct_addresses import are_distinct
from tilewright.cpu.codegen.analysis.known_numbers import known_number
from tilewright.dialects import facts
from tilewright.dialects.facts import Elements, Ordering, Pointing
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import (
    Atomic,
    Load,
    LoadOp,
    Store,
    StoreOp,
    TiledLoadOp,
    TiledStoreOp,
)
from tilewright.dialects.nv_tileaa.ops.shapes import BlockTileOp
from tilewright.dialects.nv_tileas.elementwise import is_elementwise

Root = object
"""A parameter of the function, the name of a global, or an operation that makes memory."""


def root_of(value: SSAValue) -> Root | None:
    """Whose memory a pointer, memref or view points into; None where that is not known, and it may be any."""
    origin = origin_of(value)
    owner = origin.owner
    if isinstance(owner, Block):
        return origin if isinstance(owner.parent_op(), FuncOp) else None
    match facts.points(owner):
        case Pointing.GLOBAL:
            return name_of_global(owner)
        case Pointing.NEW:
            return owner
        case _:
            return None


class ProgramOrder(Protocol):
    """What a plan says of when operations do their work."""

    position: dict[Operation, int]

    def leader(self, op: Operation) -> Operation:
        """In whose loop nest an operation does its work."""
        ...

    def until(self, reader: Operation, home: Block | None) -> int:
        """The position until which a reader may read what is made in the block ``home``."""
        ...


def orders_or_writes(op: Operation) -> bool:
    """Whether an operation may change memory, or order what others do there."""
    if isinstance(op, Load):
        return not op.is_weak
    return facts.ordering(op) is not Ordering.NONE


class Memory:
    """The memory operations of a function, and where in the plan those that write do their work.

    Asking for one load looks at few of the writes: they are sorted by what they may change.
    """

    def __init__(self, ops: list[Operation], plan: ProgramOrder, distinct_arguments: bool):
        self._plan = plan
        self._distinct = distinct_arguments
        self._all = _Writes()
        self._anything = _Writes()
        """Those that may concern any memory, or order others."""
        self._of_parameters = _Writes()
        self._by_root: dict[Root, _Writes] = {}
        concerned = [op for op in ops if orders_or_writes(op)]
        for op in concerned:
            self._add(op)
        self._written = _written(concerned)

    def _add(self, op: Operation) -> None:
        where = self._plan.position[self._plan.leader(op)]
        self._all.add(where, op)
        root = None if _concerns_all(op) else root_of(op.operands[0])
        if root is None:
            self._anything.add(where, op)
            return
        self._by_root.setdefault(root, _Writes()).add(where, op)
        if isinstance(root, SSAValue):
            self._of_parameters.add(where, op)

    def may_change(self, load: Operation, readers: list[Operation]) -> bool:
        """Whether what a load reads may be overwritten before its last reader has it; memory of unknown root may be
        any.
        """
        if not readers:
            return False
        plan, begin = self._plan, self._plan.position[load]
        ends = {reader: plan.until(reader, load.parent) for reader in readers}
        end = max(ends.values())
        last = [reader for reader in readers if ends[reader] == end]
        return any(
            where < end
            or any(not (plan.leader(op) is reader and _same_tile(load, op)) for reader in last)
            for writes in self._that_may_conflict(load)
            for where, op in writes.between(begin, end)
            if not _other_tile(load, op)
        )

    def _that_may_conflict(self, load: Operation) -> list[_Writes]:
        root = root_of(load.operands[0])
        if self._is_never_written(root) and not orders_or_writes(load):
            return []
        if root is None:
            return [self._all]
        found = [self._anything]
        if isinstance(root, SSAValue) and not self._distinct:
            return [*found, self._of_parameters]
        return [*found, self._by_root[root]] if root in self._by_root else found

    def _is_never_written(self, root: Root | None) -> bool:
        """Whether no block writes to a parameter's memory, so that no order of accesses matters to who reads it."""
        if self._written is None or not self._distinct:
            return False
        return isinstance(root, SSAValue) and root not in self._written


def _written(concerned: Sequence[Operation]) -> set[Root] | None:
    """The roots that operations write to, None where that may be any. All blocks run the same operations."""
    roots: set[Root] = set()
    for op in concerned:
        if isinstance(op, Load):
            continue
        root = root_of(op.operands[0]) if isinstance(op, Store | Atomic) else None
        if root is None:
            return None
        roots.add(root)
    return roots


class _Writes:
    """Operations by where they do their work."""

    def __init__(self) -> None:
        self._found: list[tuple[int, int, Operation]] = []
        self._sorted = True

    def add(self, where: int, op: Operation) -> None:
        self._found.append((where, len(self._found), op))
        self._sorted = False

    def between(self, begin: int, end: int) -> Iterator[tuple[int, Operation]]:
        """Those behind ``begin`` and up to ``end``, in their order."""
        if not self._sorted:
            self._found.sort(key=lambda each: each[:2])
            self._sorted = True
        first = bisect_right(self._found, begin, key=lambda each: each[0])
        for number in range(first, len(self._found)):
            where, _, op = self._found[number]
            if where > end:
                return
            yield where, op


def _concerns_all(write: Operation) -> bool:
    """Whether an operation may write to any memory, or orders what others do."""
    if not isinstance(write, Store | Atomic):
        return True
    return write.semantic != "relaxed" if isinstance(write, Atomic) else not write.is_weak


def stores_never_read(ops: list[Operation], distinct_arguments: bool) -> set[Operation]:
    """Stores of tiles to memory from which the function reads nothing, if it orders nothing either.

    Empty unless arguments are ``distinct_arguments``, whose memory does not overlap.
    """
    if not distinct_arguments or any(may_synchronise(op) or is_barrier(op) for op in ops):
        return set()
    read = {root_of(op.operands[0]) for op in ops if isinstance(op, Load)}
    stores = [op for op in ops if isinstance(op, StoreOp | TiledStoreOp)]
    written = {op: root_of(op.operands[0]) for op in stores}
    if None in read:
        return set()
    return {op for op, root in written.items() if root is not None and root not in read}


def arrays_behind_views(ops: Sequence[Operation]) -> list[SSAValue]:
    """A memref of each array that is accessed through views of it, in the order of the program."""
    found: dict[Root, SSAValue] = {}
    for op in ops:
        view = op.operands[0].owner if isinstance(op, TiledLoadOp | TiledStoreOp) else None
        if isinstance(view, BlockTileOp) and (root := root_of(view.source)) is not None:
            found.setdefault(root, view.source)
    return list(found.values())


def may_write(op: Operation, root: Root | None) -> bool:
    """Whether an operation may change memory of a root, if others are distinct from it."""
    if not isinstance(op, Store | Atomic):
        return False
    written = root_of(op.operands[0])
    return written is None or root is None or written == root


def _same_tile(load: Operation, store: Operation) -> bool:
    """Whether a load and a store go through views of the same tiles at the same indices, or through the same pointers, all different."""
    if isinstance(load, LoadOp) and isinstance(store, StoreOp):
        return (
            _reaches_by_elements(load.results[0], store)
            and same_value(load.base, store.base)
            and are_distinct(store.base)
        )
    if not isinstance(load, TiledLoadOp) or not isinstance(store, TiledStoreOp):
        return False
    rank = len(load.results[0].type.dims)  # pyright: ignore[reportAttributeAccessIssue]
    return (
        _reaches_by_elements(load.results[0], store)
        and same_places(load.operands[0], store.operands[0])
        and all(map(same_value, load.operands[1 : 1 + rank], store.operands[2 : 2 + rank]))
    )


def _other_tile(load: Operation, store: Operation) -> bool:
    """Whether a load and a store go through views of the same tiles, to tiles of which the numbers are known to differ."""
    if not isinstance(load, TiledLoadOp) or not isinstance(store, TiledStoreOp):
        return False
    view = load.operands[0].owner
    if not isinstance(view, BlockTileOp) or view.traversalStrides is not None:
        return False
    rank = len(load.results[0].type.dims)  # pyright: ignore[reportAttributeAccessIssue]
    pairs = zip(load.operands[1 : 1 + rank], store.operands[2 : 2 + rank], strict=True)
    return same_places(load.operands[0], store.operands[0]) and any(
        (one := known_number(read)) is not None
        and (other := known_number(written)) is not None
        and one != other
        and min(one, other) >= 0
        for read, written in pairs
    )


def _reaches_by_elements(value: SSAValue, reader: Operation) -> bool:
    """Whether a reader computes each element from the one of the value that has the same place in row-major order."""
    pending, seen = [value], {value}
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if user is reader or not cost_model.is_lazy(user):
                continue
            if not is_elementwise(user) and facts.elements(user) is not Elements.RESHAPED:
                return False
            new = [result for result in user.results if result not in seen]
            seen.update(new)
            pending += new
    return True


def may_synchronise(op: Operation) -> bool:
    """Whether a memory operation can be how blocks wait for one another."""
    return isinstance(op, Atomic) or (isinstance(op, Access) and not op.is_weak)


def is_barrier(op: Operation) -> bool:
    """Whether no access may change its side of an operation, whatever memory it is to."""
    return facts.ordering(op) is Ordering.BARRIER


def waits(op: Operation) -> bool:
    """Whether an operation is a loop that may go on until another block does something."""
    return isinstance(op, scf.WhileOp) and any(_learns(inner) for inner in op.walk())


def is_pointer_access(op: Operation) -> bool:
    """Whether an access goes through a pointer or a tile of pointers."""
    return not isinstance(op.operands[0].type, T.MemrefType | T.TiledViewType)


def updates(op: Operation) -> bool:
    """Whether an operation is atomic: it reads and writes at once."""
    return isinstance(op, Atomic)


def _learns(op: Operation) -> bool:
    """Whether a memory operation can tell a block what another one has done."""
    if isinstance(op, Atomic):
        return any(result.uses for result in op.results[:1])
    return isinstance(op, Load) and not op.is_weak


def orders(op: Operation) -> bool:
    """Whether others can tell from an operation what was done before it: it orders accesses, or
    waits for them."""
    if is_barrier(op) or waits(op):
        return True
    return isinstance(op, Access) and op.semantic not in ("weak", "relaxed")
