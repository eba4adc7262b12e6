"""``tileas-tma-stores``: store tiles by tensor maps where a store would otherwise convert their layout through shared memory.

Without this pass, ::

    convert the accumulator to the layout of an access, store it

makes threads read back what they wrote to shared memory, and compute an address and a bounds check for each 16 bytes. It becomes ::

    write the accumulator to storage in the order of boxes; start the store; wait until it has read the storage

and one thread does the last two steps. ``tileas-tma`` selects such stores earlier, before rings replace loads and hide
the order of accesses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from tilewright.analysis.tileaa import Facts, is_effect, must_stay
from tilewright.analysis.tileaa.order import synchronises, writes
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledStoreOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import stores as W
from tilewright.dialects.nv_tileas.storage import storage_bytes
from tilewright.dialects.nv_tileas.types import SharedAttr, TiledViewType, layout_of
from tilewright.layouts import plan_conversion
from tilewright.layouts.conversions import WIDEST, ordered_for
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.allocate import end_of, peak
from tilewright.passes.tileas.element_accesses import goes_by_element
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.hoist_views import hoist_views
from tilewright.passes.tileas.induction_variables import close_inductions
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.schedule_builder import ScheduleBuilder
from tilewright.passes.tileas.target import LEAST_SHARED_BYTES, Target
from tilewright.passes.tileas.tma_boxes import Box, tile_box

#: The ``atom`` of a store that was chosen; ``again``: what it writes an earlier iteration may have written.
_ATOM, _AGAIN = "tma_store", "tma_store_again"
#: The bytes of a thread from which on a tensor map pays: a block cannot end before copies have read its storage,
#: while stores of threads go on behind it, and a thread saves one store and one load for each 16 bytes.
_LEAST_BYTES = 128
#: Shared memory beside storages and exchanges: barriers, parts of reductions.
_BESIDE = 1024


@dataclass(frozen=True)
class TmaStores(FunctionPass):
    """Stores the selected tiles by tensor maps.

    ``shared_bytes``: the shared memory that a block may take, in bytes.
    """

    name: ClassVar[str] = "tileas-tma-stores"

    shared_bytes: int = LEAST_SHARED_BYTES

    def rewrite_function(self, func: FuncOp) -> None:
        store_by_maps(func, self.shared_bytes)


# What can be stored by tensor maps.


def choose_tma_stores(func: FuncOp, target: Target, remarks: Remarks | None = None) -> None:
    """Mark the stores of a function that tensor maps can make, and for which they are not worse: their tiles of any shape go
    through shared memory anyway, and a thread holds 128 bytes of them or more.

    The mark is the attribute ``atom``, which ``store_by_maps`` reads: accesses are asked for their order here, while all
    of them are still in the function. Remarks (``tma``) name each other store and what is against it. Without TMA on ``target``
    nothing is marked.
    """
    remarks = Remarks() if remarks is None else remarks
    if not target.has_tma:
        return
    hoist_views(func)
    close_inductions(func)
    facts: Facts | None = None
    for op in func.walk():
        if not isinstance(op, TiledStoreOp):
            continue
        facts = facts or Facts(func)
        found = _box_of_store(facts, func, op) or _place_in_order(facts, func, op)
        name = _name(op)
        if found not in (_ATOM, _AGAIN):
            remarks.add("tma", f"'{name}' is not stored by TMA: {found}", op)
            continue
        op.properties["atom"] = b.StringAttr(found)


def _name(op: TiledStoreOp) -> str:
    """What the stored tile is called."""
    value = op.value
    if isinstance(value.owner, S.ConvertLayoutOp):
        value = value.owner.source
    return value.name_hint or "a tile"


def _box_of_store(facts: Facts, func: FuncOp, op: TiledStoreOp) -> str:
    """Why no tensor map can make a store, or should not; empty where one can."""
    value, element = op.value, T.element_of(op.value.type)
    if op.mask is not None or goes_by_element(op) or is_set(op, "multimem"):
        return "it is ordered, volatile, masked or may write several arrays"
    if "allow_tma" in op.properties and not is_set(op, "allow_tma"):
        return "a hint forbids it"
    held = FORMATS.get(T.element_name(element))
    if held is None or held.storage_bits < 8:
        return "its elements are not numbers of 8 bits or more"
    if not isinstance(op.base.type, T.TiledViewType):
        return "it stores to a memref"
    if getattr(op.base.owner, "parent", None) is not func.body.block:
        return "its view is created in a loop or a branch"
    conversion = value.owner
    if not isinstance(conversion, S.ConvertLayoutOp):
        return "each thread holds the elements of its stores"
    source, target = (layout_of(end.type) for end in (conversion.source, value))
    assert source is not None and target is not None
    size = element_bytes(value.type)
    shared_conversion = plan_conversion(source, target, size).shared_conversion
    if shared_conversion is None:
        return "each thread holds the elements of its stores, up to a shuffle"
    if (bytes_each := target.registers * size) < _LEAST_BYTES:
        return f"a thread holds only {bytes_each} bytes of it, which it stores faster itself"
    if len(list(value.uses)) > 1:
        return "the tile has other users in its layout"
    found = tile_box(facts, op.base, T.dims_of(value.type), element)
    if isinstance(found, str):
        return found
    shared = found.shared(T.dims_of(value.type), element)
    ordered, _ = ordered_for(source, shared, size)
    width = shared.vector(ordered, WIDEST // size)
    if (ways := shared.waves(ordered, width, size)) > 1:
        return f"writing it in the order of boxes has {ways}-way bank conflicts"
    registers = target.registers
    by_threads = (
        registers // shared_conversion.write
        + registers // shared_conversion.read
        + bytes_each // WIDEST
    )
    if registers // width > by_threads:
        return f"in the order of boxes threads would write only {width * size} bytes at a time"
    return ""


def _place_in_order(facts: Facts, func: FuncOp, op: TiledStoreOp) -> str:
    """The atom of a store, or what in the order of accesses is against it.

    Threads reach memory by another way than tensor maps write it. Who comes behind the store would have to
    wait until it has ended, where a store by threads is done when they have met; what was written before it
    needs a fence of global memory, for which a multiprocessor stands still. Loads before it have ended when
    threads meet in front of it.
    """
    again = False
    for other in func.walk():
        if not (isinstance(other, Access) or is_effect(other)):
            continue
        if not must_stay(op, other, facts.aliases):
            continue
        if not (is_effect(op) and is_effect(other)):
            return "it is ordered by tokens"
        if facts.tokens.ordered(op, other, around=True):
            if other is not op:
                return "a later access may touch its memory"
            again = True
        elif facts.tokens.ordered(other, op, around=True) and (
            writes(other) or synchronises(other)
        ):
            return "an earlier access writes its memory or is waited for"
    return _AGAIN if again else _ATOM


# The rewrite.


def store_by_maps(func: FuncOp, shared_bytes: int, remarks: Remarks | None = None) -> None:
    """Store what ``choose_tma_stores`` has marked by tensor maps, in place, in program order and as far as a block with
    ``shared_bytes`` bytes of shared memory has room for a whole tile.

    A store may take the room of a conversion that it replaces, never more beside other exchanges, since these lie behind all
    storages and would move up. One without room stays a store by threads, without the mark. Remarks (``tma``) say which, with
    the bytes of its storage.
    """
    remarks = Remarks() if remarks is None else remarks
    for op in list(func.walk()):
        if isinstance(op, TiledStoreOp) and (atom := _atom_of(op)):
            del op.properties["atom"]
            _Store(func, op, atom == _AGAIN, remarks).run(shared_bytes)


def _atom_of(op: TiledStoreOp) -> str:
    """The atom that ``choose_tma_stores`` gave."""
    held = op.properties.get("atom")
    found = held.data if isinstance(held, b.StringAttr) else ""
    return found if found in (_ATOM, _AGAIN) else ""


class _Store:
    """A store while it is made one by a tensor map."""

    def __init__(self, func: FuncOp, op: TiledStoreOp, again: bool, remarks: Remarks):
        self.func, self.op, self.again, self.remarks = func, op, again, remarks
        conversion = op.value.owner
        assert isinstance(conversion, S.ConvertLayoutOp)
        self.conversion, self.tile = conversion, conversion.source
        dims, element = T.dims_of(self.tile.type), T.element_of(self.tile.type)
        found = tile_box(Facts(func), op.base, dims, element)
        assert isinstance(found, Box)
        self.box = found
        self.type = TiledViewType(dims, element, "smem", SharedAttr.of(found.shared(dims, element)))

    def run(self, shared_bytes: int) -> None:
        before, others = peak(self.func), self._exchange_bytes()
        added = self._write()
        (storage,) = added[0].results
        # Exchanges lie behind the storage. Its own one was the largest, or began where it does.
        own = storage_bytes(storage)
        needs = max(peak(self.func), end_of(self.func, storage) + others)
        grows = others > 0 and needs > max(before, others, own)
        size, name = f"{own / 1024:g} KiB", _name(self.op)
        if grows or (needs > before and needs + _BESIDE > shared_bytes):
            for new in reversed(added):
                new.detach()
                new.erase()
            why = f"{size} of shared memory are not free at this point"
            self.remarks.add("tma", f"'{name}' is not stored by TMA: {why}", self.op)
            return
        self._finish()
        told = f"'{name}' is stored by TMA, from {size} of shared memory"
        self.remarks.add("tma", told, self.op, bytes=own)

    def _exchange_bytes(self) -> int:
        """What the largest other conversion takes of shared memory, which lies behind all storages."""
        found = 0
        for op in self.func.walk():
            if isinstance(op, S.ConvertLayoutOp) and op is not self.conversion:
                source, target = layout_of(op.source.type), layout_of(op.result.type)
                assert source is not None and target is not None
                size = element_bytes(op.source.type)
                if plan_conversion(source, target, size).shared_conversion is not None:
                    found = max(found, source.size * size)
        return found

    def _write(self) -> list[Operation]:
        """Put the store beside what it replaces; the operations that were added, each behind what it uses."""
        op, block = self.op, self.func.body.block
        made = [other for other in block.ops if isinstance(other, S.AllocTensorOp)]
        at = InsertPoint.after(made[-1]) if made else InsertPoint.at_start(block)
        storage = ScheduleBuilder(at, op).add(S.AllocTensorOp.create(result_types=(self.type,)))
        view, end = op.base.owner, block.last_op
        assert isinstance(view, Operation) and end is not None
        desc = ScheduleBuilder(InsertPoint.after(view), op).add(self.box.descriptor(op.base))
        here, added = ScheduleBuilder(InsertPoint.before(op), op), [storage, desc]
        (room,), (mapped,) = storage.results, desc.results
        if self._is_repeated():
            added.append(here.add(_wait(room, read=not self.again)))
        added.append(here.add(S.CopyOp.create(operands=(self.tile, room))))
        store = W.AsyncTiledTmaStoreOp.create(operands=(mapped, *op.indices, room))
        added.append(here.add(store))
        added.append(ScheduleBuilder(InsertPoint.before(end), op).add(_wait(room, read=True)))
        return added

    def _is_repeated(self) -> bool:
        """Whether a loop is around the store."""
        parent = self.op.parent_op()
        while parent is not None and parent is not self.func:
            if isinstance(parent, scf.ForOp | scf.WhileOp):
                return True
            parent = parent.parent_op()
        return False

    def _finish(self) -> None:
        """Take away what was replaced. An order behind the store has no meaning, or it had not been chosen."""
        op = self.op
        if op.result_token is not None:
            here = ScheduleBuilder(InsertPoint.before(op), op)
            order = op.token or here.one(CreateMemTokenOp, (), T.MEM_TOKEN)
            op.result_token.replace_all_uses_with(order)
        for dead in (op, self.conversion):
            dead.detach()
            dead.erase()


def _wait(storage: SSAValue, *, read: bool) -> W.AsyncStoreWaitOp:
    properties: dict[str, Attribute] = {"pending": b.IntegerAttr(0, b.i64)}
    if read:
        properties["read"] = b.UnitAttr()
    return W.AsyncStoreWaitOp.create(operands=(storage,), properties=properties)
