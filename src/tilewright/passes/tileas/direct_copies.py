"""``tileas-direct-copies``: copy loaded tiles to shared memory without taking them through registers.

A tile that is loaded only to be copied to storage, and that no ring holds, is brought there by asynchronous copies of threads
(``cp.async``), which are waited for where the tile is read first. That takes half of the instructions, and no registers while
the tile is on its way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Block, Operation
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load, LoadOp, TiledLoadOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.asynchronous import AsyncCopy, AsyncGroupOp, AsyncWaitOp
from tilewright.dialects.nv_tileas.storage import at_level
from tilewright.dialects.nv_tileas.types import ASYNC_TOKEN, TiledViewType
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.allocate import peak
from tilewright.passes.tileas.element_accesses import goes_by_element
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.prefetched_loads import (
    Loads,
    PrefetchedLoad,
    TileLoad,
    padding_of,
    read_from,
    readers_of,
    stage_of,
)
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.schedule_builder import ScheduleBuilder
from tilewright.passes.tileas.shared_conversions import threads_of
from tilewright.passes.tileas.target import LEAST_SHARED_BYTES

#: The bytes of a copy from which on it pays: with fewer, threads load more at once than they copy.
LEAST_BYTES = 16
#: The registers of a thread that tiles may take on their way: for fewer nothing is gained.
FEW_REGISTERS = 64


@dataclass(frozen=True)
class DirectCopies(FunctionPass):
    """Copies tiles to shared memory without taking them through registers.

    ``shared_bytes``: the shared memory that a block may take, in bytes. ``registers``: those of a thread that the
    tiles of a block of operations must take at least.
    """

    name: ClassVar[str] = "tileas-direct-copies"

    shared_bytes: int = LEAST_SHARED_BYTES
    registers: int = FEW_REGISTERS

    def rewrite_function(self, func: FuncOp) -> None:
        direct_copies(func, self.shared_bytes, registers=self.registers)


def direct_copies(
    func: FuncOp,
    shared_bytes: int,
    remarks: Remarks | None = None,
    registers: int = FEW_REGISTERS,
) -> None:
    """Let the tiles of a function that are loaded for storage alone be copied there by ``cp.async``, in place.

    Only if that fits into ``shared_bytes`` bytes, and if those of a block of operations would take more than
    ``registers`` registers of a thread. Rings must have been made (``tileas-pipeline``).
    """
    remarks = Remarks() if remarks is None else remarks
    loads, room = Loads(func), 4 * registers * threads_of(func)
    found = list(_candidates(func, loads))
    held: Counter[Block | None] = Counter()
    for each in found:
        held[each.load.parent] += each.bytes
    found = [each for each in found if held[each.load.parent] > room]
    copies = [
        loads.copy(
            each.load,
            each.readers[0].storage,
            each.width,
            ordered=loads.follows_access(each.load) or loads.leads_access(each.load),
        )
        for each in found
    ]
    waits: list[AsyncWaitOp] = []
    for each, copy in zip(found, copies, strict=True):
        start = _start(func, each, shared_bytes)
        if start is not None:
            name = each.load.result.name_hint or "a tile"
            remarks.add("copy", f"'{name}' is copied to shared memory past registers", each.load)
            waits.append(_rewrite(func, each, copy, start))
    for wait in waits:
        wait.properties["pending"] = b.IntegerAttr(_pending(wait), b.i64)


def _candidates(func: FuncOp, loads: Loads) -> Iterator[PrefetchedLoad]:
    """The loads whose tiles go to storage alone, by copies of 16 bytes."""
    ringed = _blocks_with_rings(func)
    for load in func.walk():
        if not isinstance(load, TiledLoadOp | LoadOp) or load.parent in ringed:
            continue
        readers = readers_of(load)
        if not readers or not _can_be_copied(load, loads):
            continue
        if any(isinstance(user, S.CopyOp) for reader in readers for user in reader.users):
            continue
        target = stage_of(load, readers[0])
        width = loads.width(load, target)
        if width * element_bytes(target.element_type) >= LEAST_BYTES:
            yield PrefetchedLoad(load, target, readers, (), width)


def _blocks_with_rings(func: FuncOp) -> set[Block | None]:
    """The blocks of loops that prefetch by threads, and those in them: what is waited for there is all that is in flight."""
    found: set[Block | None] = set()
    for op in func.walk():
        loop = op.parent_op()
        if isinstance(op, AsyncGroupOp) and isinstance(loop, scf.ForOp):
            found |= {block for inner in loop.walk() for r in inner.regions for block in r.blocks}
    return found


def _can_be_copied(load: TileLoad, loads: Loads) -> bool:
    """Whether copies can do what a load does: pad with zeros, and move whole bytes."""
    if goes_by_element(load) or padding_of(load) is not None:
        return False
    if FORMATS[T.element_name(T.element_of(load.result.type))].storage_bits < 8:
        return False
    if isinstance(load, TiledLoadOp):
        is_view = isinstance(load.base.type, T.TiledViewType)
        return load.mask is None and is_view and loads.padding(load) in ("", "zero")
    return isinstance(T.element_of(load.base.type), T.PtrType) and isinstance(
        load.base.type, T.TileType
    )


def _start(func: FuncOp, found: PrefetchedLoad, shared_bytes: int) -> Operation | None:
    """The operation in front of which the copies of a load start: itself, or, where its storage must not be taken as early, the
    first that writes that; None where an access that orders others, or changes memory, stands between the two."""
    load = found.load
    first = _first_copy(found)
    between: list[Operation] = []
    op = load.next_op
    while op is not None and op is not first:
        between.append(op)
        op = op.next_op
    if not any(map(_uses_storage, between)) or peak(func) + found.bytes <= shared_bytes:
        return load
    accesses = (inner for op in between for inner in op.walk() if isinstance(inner, Access))
    # A weak load may come behind them: it changes nothing, and orders nothing.
    return first if all(isinstance(each, Load) and each.is_weak for each in accesses) else None


def _first_copy(found: PrefetchedLoad) -> Operation:
    """The first copy of a loaded tile to storage."""
    block = found.load.parent
    assert block is not None
    copies = {reader.copy for reader in found.readers}
    return next(op for op in block.ops if op in copies)


def _first_reader(found: PrefetchedLoad) -> Operation:
    """The operation beside a load in which its tile is read first."""
    block = found.load.parent
    assert block is not None
    # The copy that is to be put in has no place yet.
    readers = {at_level(user, block) for user in found.users if user.parent is not None}
    return next(op for op in block.ops if op in readers)


def _uses_storage(op: Operation) -> bool:
    return any(
        isinstance(value.type, TiledViewType) for inner in op.walk() for value in inner.operands
    )


def _pending(wait: AsyncWaitOp) -> int:
    """The groups that are started behind the one that is waited for, as far as that is known."""
    found = 0
    op = wait.prev_op
    while op is not None and op is not wait.token.owner:
        if any(isinstance(inner, AsyncGroupOp) for region in op.regions for inner in region.walk()):
            return 0
        found += isinstance(op, AsyncGroupOp)
        op = op.prev_op
    return found


def _rewrite(func: FuncOp, found: PrefetchedLoad, copy: AsyncCopy, start: Operation) -> AsyncWaitOp:
    """Start the copies of a load in front of ``start``, and wait for them where the tile is read first; the wait."""
    first = _first_reader(found)
    target = found.target
    ty = TiledViewType((1, *target.dims), target.element_type, target.residency.data, target.layout)
    storage = S.AllocTensorOp.create(result_types=(ty,))
    inherit_location(storage, found.load)
    Rewriter.insert_op(storage, InsertPoint.at_start(func.body.block))
    early = ScheduleBuilder(InsertPoint.before(start), found.load)
    slot = early.index(0)
    copy.operands = [*copy.operands[:-1], early.stage(storage.result, slot, target)]
    early.add(copy)
    token = early.one(AsyncGroupOp, (), ASYNC_TOKEN)
    late = ScheduleBuilder(InsertPoint.before(first), first)
    pending = {"pending": b.IntegerAttr(0, b.i64)}
    wait = AsyncWaitOp.create(operands=(token,), properties=pending)
    late.add(wait)
    stage = late.stage(storage.result, slot, found.seen)
    for dead in read_from(late, found, stage):
        dead.detach()
        dead.erase()
    return wait
