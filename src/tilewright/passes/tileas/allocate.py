"""``tileas-allocate``: assign shared-memory offsets to storages and to the scratch memory of operations that exchange
elements between threads.

Storages with disjoint live ranges share bytes. Scratch memory lies behind the storages that are live at that point.
Two successive small exchanges alternate between two scratch areas: by the barrier inside the second exchange, every
thread has read what the first one wrote, so no further barrier is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.agents import AgentSwitchOp
from tilewright.dialects.nv_tileas.storage import last_uses, lifetimes, storage_bytes
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.shared_conversions import SCRATCH, exchanged_bytes, threads_of
from tilewright.passes.tileas.target import LEAST_SHARED_BYTES

#: What a storage begins at a multiple of: the period of the widest swizzle, in bytes.
ALIGNMENT = 1024
#: The bytes in which exchanges take turns.
MOST_IN_TURN = 8 << 10
#: The discardable attribute of a function in which all has its place.
ALLOCATED = "nv_tileas.allocated"

Range: TypeAlias = tuple[int, int]
"""The first byte and the one behind the last."""


@dataclass(frozen=True)
class Allocate(FunctionPass):
    """Assigns an offset in shared memory to every storage.

    ``shared_bytes``: the shared memory that a block may take, in bytes. It is not exceeded where there is a choice; a
    kernel that needs more is refused when it is compiled. Passes that make storages come before.
    """

    name: ClassVar[str] = "tileas-allocate"

    shared_bytes: int = LEAST_SHARED_BYTES

    def rewrite_function(self, func: FuncOp) -> None:
        allocate(func, self.shared_bytes)


def allocate(
    func: FuncOp,
    shared_bytes: int = LEAST_SHARED_BYTES,
    remarks: Remarks | None = None,
    threads: int | None = None,
) -> None:
    """Give each storage of a function its offset in shared memory, in place: the first that is free while needed.

    Scratch memory lies behind, within ``shared_bytes`` where there is a choice. ``threads`` are those of a block that
    have tiles, by default those that layouts speak of. What was allocated before is placed anew.
    """
    placed = _places(func)
    for op in func.walk():
        if isinstance(op, S.AllocTensorOp):
            op.properties["offset"] = b.IntegerAttr(placed[op.result][0], b.i64)
    _Scratch(func, placed, shared_bytes, threads or threads_of(func)).place()
    func.attributes[ALLOCATED] = b.UnitAttr()
    saved = sum(end - start for start, end in placed.values()) - peak(func)
    if saved and remarks is not None:
        remarks.add(
            "storage",
            f"allocations with disjoint live ranges share {saved / 1024:g} KiB",
            func,
            bytes=saved,
        )


def peak(func: FuncOp, without: Collection[SSAValue] = ()) -> int:
    """The bytes that the storages of a function take together, as ``allocate`` places them: all but those ``without`` which
    it shall do."""
    return max((end for _, end in _places(func, without).values()), default=0)


def end_of(func: FuncOp, storage: SSAValue) -> int:
    """The offset of the first byte behind a storage in shared memory, where ``allocate`` places it."""
    return _places(func)[storage][1]


def _places(func: FuncOp, without: Collection[SSAValue] = ()) -> dict[SSAValue, Range]:
    """Where each storage of a function begins and ends."""
    live = lifetimes(func)
    placed: dict[SSAValue, Range] = {}
    for op in func.walk():
        if isinstance(op, S.AllocTensorOp) and op.result not in without:
            own = op.result
            size = -(-storage_bytes(own) // ALIGNMENT) * ALIGNMENT
            taken = [place for other, place in placed.items() if live[other].meets(live[own])]
            offset = _first_free(sorted(taken), size)
            placed[own] = offset, offset + size
    return placed


def _first_free(taken: list[Range], size: int) -> int:
    """The lowest offset of ``size`` bytes that none of the ranges holds, given in order."""
    offset = 0
    for start, end in taken:
        if start - offset >= size:
            break
        offset = max(offset, end)
    return offset


class _Scratch:
    """Places the scratch memory of a function's operations, in the order of the text."""

    def __init__(
        self, func: FuncOp, placed: dict[SSAValue, Range], shared_bytes: int, threads: int
    ):
        self.func, self.placed, self.shared_bytes = func, placed, shared_bytes
        self.threads = threads
        #: By storage that is still needed, the operation behind which nobody uses it.
        self.needed = last_uses(func)
        self.start = self._behind_storage()
        self.previous: Range | None = None
        #: Of the loop at hand the first exchange, and the operation that makes the last one.
        self.first: Range | None = None
        self.last: Operation | None = None
        self.sizes: dict[Operation, int | None] = {}

    def _behind_storage(self) -> int:
        return max((self.placed[storage][1] for storage in self.needed), default=0)

    def place(self) -> None:
        self._in_block(self.func.body.block)

    def _in_block(self, block: Block) -> None:
        for op in block.ops:
            op.attributes.pop(SCRATCH, None)
            size = self._size(op)
            if size != 0:
                op.attributes[SCRATCH] = b.DenseArrayBase.from_list(b.i64, self._take(op, size))
            elif isinstance(op, scf.ForOp | scf.WhileOp):
                self._in_loop(op)
            elif isinstance(op, scf.IfOp | AgentSwitchOp):
                self._in_regions(op)
            ended = [storage for storage, last in self.needed.items() if last is op]
            for storage in ended:
                del self.needed[storage]
            if ended:
                self.start = self._behind_storage()

    def _in_regions(self, op: Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                self._in_block(block)

    def _in_loop(self, loop: Operation) -> None:
        """The last exchange of an iteration comes before the first one of the next."""
        outer = self.first, self.last
        made = [op for op in loop.walk() if self._size(op)]
        self.first, self.last = None, made[-1] if len(made) > 1 else None
        self._in_regions(loop)
        self.first, self.last = outer

    def _size(self, op: Operation) -> int | None:
        if op not in self.sizes:
            self.sizes[op] = exchanged_bytes(op, self.threads)
        return self.sizes[op]

    def _take(self, op: Operation, size: int | None) -> Sequence[int]:
        """Where an operation has ``size`` bytes; from where on, where the size is not known."""
        if size is None:
            self.previous = None
            return (self.start,)
        used = [self.previous] if self.previous is not None else []
        if op is self.last and self.first is not None:
            used.append(self.first)
        most = min(self.start + MOST_IN_TURN, self.shared_bytes)
        found = self.start
        for begin in sorted({self.start, *(end for _, end in used)}):
            free = all(begin + size <= one or begin >= end for one, end in used)
            if free and self.start <= begin and (begin == self.start or begin + size <= most):
                found = begin
                break
        self.previous = found, found + size
        if self.first is None:
            self.first = self.previous
        return self.previous
