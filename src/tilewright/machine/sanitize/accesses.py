"""Memory operations as events: histories, races, and uninitialized values at the border.

Runs behind each operation, when it has taken effect: the addresses follow from its operands.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops import atomics, memory, misc, multimem, views
from tilewright.dialects.declare import enum_property
from tilewright.launching import accesses
from tilewright.machine.accesses import access_site
from tilewright.machine.hooks import Hook
from tilewright.machine.sanitize.areas import Area, area_finder
from tilewright.machine.sanitize.events import EMPTY
from tilewright.machine.sanitize.guards import guard_of
from tilewright.machine.sanitize.reporting import Origin, Taint, join
from tilewright.machine.sanitize.rules import after
from tilewright.machine.sanitize.translator import SanitizingTranslator, history_of
from tilewright.machine.values import ARENA, Registers
from tilewright.numerics.arrays import Array

_NO_MASK_PADDING = "elements are masked off and the load has no padding operand"
_NO_VIEW_PADDING = "elements are outside the tensor and the view has no padding value"
# So many areas are kept before those that have ended their life are looked for.
_MIN_FRESH = 1 << 10
_FRESH = "the memory was allocated but never written"
_NO_ATOMIC = "elements are masked off"


class _Event:
    """What happens around every dynamic execution of one memory operation."""

    def __init__(self, op: accesses.MemoryAccess, t: SanitizingTranslator):
        site = access_site(op, t)
        assert site is not None
        self.op, self.t, self.storage = op, t, site.storage
        self.area = area_finder(site, t.machine.memory)
        self.guard = guard_of(op, t)
        self.reads, self.writes = site.reads, site.writes
        self.ordering = enum_property(op, "memory_ordering_semantics")
        self.scope = enum_property(op, "memory_scope")
        self.token = t.optional(op.token)
        token = op.results[-1]
        self.result_token = None if token.first_use is None else t.slot(token)
        # Lanes of one operation that share a byte by halves do not meet.
        self.may_repeat = site.writes and not site.storage.packed

    def record(
        self, regs: Registers, area: Area, uncertain: Taint | None, wrote: Array | None = None
    ) -> None:
        """Tell the race detector, and set the history of the result token.

        Elements that are uncertain to take part cannot be said to meet anything.
        """
        t = self.t
        detector = t.detector
        if detector is None:
            return
        history = EMPTY if self.token is None else history_of(regs[self.token])
        block = t.machine.memory.current_block
        assert block is not None
        event = detector.event(
            block,
            self.op,
            ordering=self.ordering,
            scope=self.scope,
            size=self.storage.size,
            reads=self.reads,
            writes=self.writes,
        )
        if uncertain is not None:
            area = area.without(uncertain.mask)
        history = area.record(detector, event, history, may_repeat=self.may_repeat, wrote=wrote)
        if self.result_token is not None:
            regs[self.result_token] = history.including(event)


def _load_hook(
    event: _Event, result: SSAValue, padding: SSAValue | None, reason: str | None
) -> Hook:
    """Behind a load: its event, and which elements it leaves uninitialized.

    ``reason`` tells why elements that take no part are uninitialized; None where they are not.
    """
    t, op, find = event.t, event.op, event.area
    slot = t.taint(result)
    padding_taint = None if padding is None else t.taint(padding)

    # Where nobody asks what a load has touched, it is not looked for.
    is_asked = t.detector is not None or reason is not None or padding_taint is not None

    def hook(regs: Registers) -> None:
        uncertain = event.guard.uncertain(regs)
        if not is_asked and not t.fresh and uncertain is None:
            regs[slot] = None
            return
        area = find(regs)
        event.record(regs, area, uncertain)
        taints: list[Taint | None] = []
        lanes = area.taking_part() if reason is not None or padding_taint is not None else None
        if uncertain is not None:
            # Where an access was at fault for certain, it is reported: the result is not, again.
            taints.append(event.guard.whether(regs))
            lanes = None if lanes is None else lanes | uncertain.mask
        if lanes is not None:
            if reason is not None:
                taints.append(Taint(~lanes, (Origin(op, reason),)))
            elif padding_taint is not None:
                padded: Taint | None = regs[padding_taint]
                if padded is not None:
                    taints.append(padded.mapped(lambda mask: mask & ~lanes))
        if t.fresh and (unwritten := area.unwritten(t.fresh)) is not None:
            taints.append(Taint(unwritten, (Origin(op, _FRESH),)))
        regs[slot] = join(taints) if taints else None

    return hook


def _store_hook(event: _Event, value: SSAValue, what: str) -> Hook:
    """Behind a store or an atomic without result: its event; uninitialized values are reported."""
    t, op, find = event.t, event.op, event.area
    slot, collector = t.taint(value), t.collector

    def hook(regs: Registers) -> None:
        area, uncertain = find(regs), event.guard.uncertain(regs)
        taint = regs[slot]
        if taint is not None:
            lanes = area.taking_part()
            mask = taint.mask if lanes is None else taint.mask & lanes
            if uncertain is not None:
                mask = mask & ~uncertain.mask
            if mask.any():
                collector.uninitialized(op, taint, mask, what)
        event.record(regs, area, uncertain)
        if t.fresh:
            area.mark_written(t.fresh)

    return hook


@after(memory.LoadPtrTkoOp)
def _load_ptr(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, memory.LoadPtrTkoOp)
    reason = _NO_MASK_PADDING if op.paddingValue is None else None
    return _load_hook(_Event(op, t), op.result, op.paddingValue, reason)


@after(memory.StorePtrTkoOp)
def _store_ptr(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, memory.StorePtrTkoOp)
    return _store_hook(_Event(op, t), op.value, "a stored value")


@after(views.LoadViewTkoOp)
def _load_view(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, views.LoadViewTkoOp)
    ty = op.view.type
    assert isinstance(ty, T.TileViewType)
    reason = _NO_VIEW_PADDING if ty.padding is None else None
    return _load_hook(_Event(op, t), op.tile, None, reason)


@after(multimem.MultimemLoadReduceViewTkoOp)
def _multimem_load(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, multimem.MultimemLoadReduceViewTkoOp)
    ty = op.view.type
    assert isinstance(ty, T.TileViewType)
    reason = _NO_VIEW_PADDING if ty.padding is None else None
    return _load_hook(_Event(op, t), op.reduced_values, None, reason)


@after(views.StoreViewTkoOp, multimem.MultimemStoreViewTkoOp)
def _store_view(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, views.StoreViewTkoOp | multimem.MultimemStoreViewTkoOp)
    return _store_hook(_Event(op, t), op.tile, "a stored value")


@after(atomics.AtomicRedViewTkoOp, multimem.MultimemReduceViewTkoOp)
def _reduce_view(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, atomics.AtomicRedViewTkoOp | multimem.MultimemReduceViewTkoOp)
    value = op.value if isinstance(op, atomics.AtomicRedViewTkoOp) else op.tile
    event = _Event(op, t)
    return _store_hook(event, value, "an operand of an atomic")


@after(atomics.AtomicRMWTkoOp)
def _rmw(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, atomics.AtomicRMWTkoOp)
    event = _Event(op, t)
    store = _store_hook(event, op.arg, "an operand of an atomic")
    mask, result = t.optional(op.mask), t.taint(op.result)

    def hook(regs: Registers) -> None:
        store(regs)
        if mask is None or regs[mask].all():
            regs[result] = None
        else:
            regs[result] = Taint(np.logical_not(regs[mask]), (Origin(op, _NO_ATOMIC),))

    return hook


@after(atomics.AtomicCASTkoOp)
def _cas(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, atomics.AtomicCASTkoOp)
    event = _Event(op, t)
    storage = event.storage
    result, wanted = t.slots((op.result, op.cmp))
    sinks = [t.sink(op, value, "an operand of an atomic") for value in (op.cmp, op.val)]
    taint = t.taint(op.result)

    def hook(regs: Registers) -> None:
        for sink in sinks:
            sink(regs)
        area = event.area(regs)
        equal = storage.from_tile(regs[result]) == storage.from_tile(regs[wanted])
        event.record(regs, area, event.guard.uncertain(regs), np.asarray(equal))
        if t.fresh:
            area.mark_written(t.fresh)
        regs[taint] = None

    return hook


@after(memory.AllocaOp)
def _alloca(op: TileOp, t: SanitizingTranslator) -> Hook:
    sweep_at = _MIN_FRESH

    def hook(regs: Registers) -> None:
        nonlocal sweep_at
        allocation = regs[ARENA][-1]
        if len(t.fresh) >= sweep_at:
            live = t.machine.memory.live_bases()
            for base in t.fresh.keys() - live:
                del t.fresh[base]
            sweep_at = max(_MIN_FRESH, 2 * len(t.fresh))
        t.fresh[allocation.base] = np.ones(allocation.buffer.size, np.bool_)

    return hook


@after(memory.JoinTokensOp)
def _join(op: TileOp, t: SanitizingTranslator) -> Hook:
    sources, result = t.slots(op.operands), t.slot(op.results[0])

    def hook(regs: Registers) -> None:
        first, *others = (history_of(regs[slot]) for slot in sources)
        regs[result] = first.joined(others)

    return hook


@after(
    memory.GdcLaunchDependentsTkoOp,
    memory.GdcWaitTkoOp,
    memory.MemoryFenceAliasTkoOp,
    misc.PrintTkoOp,
)
def _pass_on(op: TileOp, t: SanitizingTranslator) -> Hook:
    """Ordered by tokens, but touching no memory."""
    assert isinstance(op, memory.TokenOrdered | memory.MemoryFenceAliasTkoOp)
    token = t.optional(op.token)
    result = t.slot(op.results[-1])

    def hook(regs: Registers) -> None:
        regs[result] = EMPTY if token is None else history_of(regs[token])

    return hook
