"""Which memory operations may concern the same memory, and so must keep their order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from tilewright.cpu.codegen import traits
from tilewright.dialects.nv_tileaa import types as T

if TYPE_CHECKING:
    from tilewright.cpu.codegen.plan import Plan

_LOADS = frozenset({"nv_tileaa.load", "nv_tileaa.tiled_load", "nv_tileaa.gather_load"})
_STORES = frozenset({"nv_tileaa.store", "nv_tileaa.tiled_store", "nv_tileaa.scatter_store"})
_ATOMICS = frozenset({"nv_tileaa.atomic_cas", "nv_tileaa.atomic_rmw", "nv_tileaa.tiled_atomic_rmw"})
#: What runs other code, or lets it run, beside what orders accesses.
_BARRIERS = frozenset(
    f"nv_tileaa.{name}"
    for name in (
        *("ext.fence", "ext.grid_dependency", "call", "execute", "queue.put", "queue.get"),
        *("plugin", "inject_ir", "launch_func", "extern_elementwise", "elementwise_inline_asm"),
        "call_elementwise_intrinsic",
    )
)
#: Operations whose result points where their first operand does.
_FROM_FIRST = frozenset(
    f"nv_tileaa.{name}"
    for name in (
        "addptr",
        "bitcast",
        "view",
        "splat",
        "broadcast",
        "expand_dims",
        "permute",
        "extract",
        "extract_slice",
        "assume",
        "make_memref",
        "block_tile",
    )
)

#: How many operations in a row are compared to see that two values are made in the same way.
_DEPTH = 8

Root = object
"""A parameter of the function, the name of a global, or an operation that makes memory."""


def root_of(value: SSAValue) -> Root | None:
    """Whose memory a pointer, memref or view points into; None where that is not known."""
    while True:
        owner = value.owner
        if isinstance(owner, Block):
            parent = owner.parent_op()
            return value if parent is not None and parent.name == "nv_tileaa.func" else None
        if owner.name == "nv_tileaa.get_global":
            symbol = owner.properties["symbol"]
            return symbol.string_value() if isinstance(symbol, SymbolRefAttr) else str(symbol)
        if owner.name == "nv_tileaa.ext.alloca":
            return owner
        if owner.name not in _FROM_FIRST:
            return None
        value = owner.operands[0]


class Memory:
    """The memory operations of a function, and where in the plan those that write do their work.

    Asking for one load looks at few of the writes: they are sorted by what they may change.
    """

    def __init__(self, ops: list[Operation], plan: Plan, distinct_arguments: bool):
        self._plan = plan
        self._distinct = distinct_arguments
        self._all = _Writes()
        self._anything = _Writes()
        """Those that may concern any memory, or order others."""
        self._of_parameters = _Writes()
        self._by_root: dict[Root, _Writes] = {}
        for op in ops:
            if self._orders_or_writes(op):
                self._add(op)

    @staticmethod
    def _orders_or_writes(op: Operation) -> bool:
        if op.name in _STORES or op.name in _ATOMICS or op.name in _BARRIERS:
            return True
        return op.name in _LOADS and not traits.is_weak(op)

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

    @staticmethod
    def is_load(op: Operation) -> bool:
        return op.name in _LOADS

    def may_change(self, load: Operation, readers: list[Operation]) -> bool:
        """Whether what a load reads may be overwritten before its last reader has it."""
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
        )

    def _that_may_conflict(self, load: Operation) -> list[_Writes]:
        root = root_of(load.operands[0])
        if root is None:
            return [self._all]
        found = [self._anything]
        if isinstance(root, SSAValue) and not self._distinct:
            return [*found, self._of_parameters]
        return [*found, self._by_root[root]] if root in self._by_root else found


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
    if write.name in _STORES:
        return not traits.is_weak(write)
    return write.name not in _ATOMICS or _orders(write)


def stores_never_read(ops: list[Operation], distinct_arguments: bool) -> set[Operation]:
    """Stores of tiles to memory from which the function reads nothing, if it orders nothing either."""
    if not distinct_arguments or any(may_synchronise(op) or op.name in _BARRIERS for op in ops):
        return set()
    read = {root_of(op.operands[0]) for op in ops if op.name in _LOADS}
    stores = [op for op in ops if op.name == "nv_tileaa.tiled_store"]
    written = {op: root_of(op.operands[0]) for op in stores}
    if None in read:
        return set()
    return {op for op, root in written.items() if root is not None and root not in read}


def may_write(op: Operation, root: Root | None) -> bool:
    """Whether an operation may change memory of a root, if others are distinct from it."""
    if op.name not in _STORES and op.name not in _ATOMICS:
        return False
    written = root_of(op.operands[0])
    return written is None or root is None or written == root


def _orders(op: Operation) -> bool:
    semantic = op.properties.get("mem_semantic")
    return semantic is not None and semantic.data.value != "relaxed"  # pyright: ignore[reportAttributeAccessIssue]


def _same_tile(load: Operation, store: Operation) -> bool:
    """Whether a load and a store go through the same view at the same indices."""
    if load.name != "nv_tileaa.tiled_load" or store.name != "nv_tileaa.tiled_store":
        return False
    rank = len(load.results[0].type.dims)  # pyright: ignore[reportAttributeAccessIssue]
    return (
        _reaches_by_elements(load.results[0], store)
        and same_value(load.operands[0], store.operands[0])
        and all(map(same_value, load.operands[1 : 1 + rank], store.operands[2 : 2 + rank]))
    )


def same_value(one: SSAValue, other: SSAValue, depth: int = _DEPTH) -> bool:
    """Whether two values are the same, or made in the same way of the same values: frontends make
    a view anew for each access."""
    if one is other:
        return True
    first, second = one.owner, other.owner
    if isinstance(first, Block) or isinstance(second, Block) or not depth:
        return False
    return (
        first.name == second.name
        and not first.regions
        and is_side_effect_free(first)
        and first.properties == second.properties
        and [r.type for r in first.results] == [r.type for r in second.results]
        and len(first.operands) == len(second.operands)
        and list(first.results).index(one) == list(second.results).index(other)  # pyright: ignore[reportArgumentType]
        and all(
            same_value(a, b, depth - 1)
            for a, b in zip(first.operands, second.operands, strict=True)
        )
    )


def _reaches_by_elements(value: SSAValue, reader: Operation) -> bool:
    """Whether a reader computes each element from the element of the value at the same place."""
    pending, seen = [value], {value}
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if user is reader or not traits.is_lazy(user):
                continue
            if not traits.is_elementwise(user):
                return False
            new = [result for result in user.results if result not in seen]
            seen.update(new)
            pending += new
    return True


def may_synchronise(op: Operation) -> bool:
    """Whether a memory operation can be how blocks wait for one another."""
    if op.name in _ATOMICS:
        return True
    return (op.name in _LOADS or op.name in _STORES) and not traits.is_weak(op)


def waits(op: Operation) -> bool:
    """Whether an operation is a loop that may go on until another block does something."""
    return op.name == "scf.while" and any(_learns(inner) for inner in op.walk())


def is_pointer_access(op: Operation) -> bool:
    """Whether an access goes through a pointer or a tile of pointers."""
    return not isinstance(op.operands[0].type, T.MemrefType | T.TiledViewType)


def updates(op: Operation) -> bool:
    """Whether an operation is atomic: it reads and writes at once."""
    return op.name in _ATOMICS


def _learns(op: Operation) -> bool:
    """Whether a memory operation can tell a block what another one has done."""
    if op.name in _ATOMICS:
        return any(result.uses for result in op.results[:1])
    return op.name in _LOADS and not traits.is_weak(op)


def orders(op: Operation) -> bool:
    """Whether others can tell from an operation what was done before it: it orders accesses, or
    waits for them."""
    if op.name in _BARRIERS or waits(op):
        return True
    semantic = op.properties.get("mem_semantic")
    return semantic is not None and semantic.data.value not in ("weak", "relaxed")  # pyright: ignore[reportAttributeAccessIssue]
