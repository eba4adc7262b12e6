"""Loads, stores and atomics, through pointers, memrefs and tiled views.

An access to a whole tile of a view uses the view accesses of ``cuda_tile``. All others are
accesses through pointers: either given, or those of the elements that the indices select, with
out-of-bounds lanes masked off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from xdsl.ir import SSAValue

from tilewright.dialects.cuda_tile.types import Cut
from tilewright.dialects.declare import bool_values, enum_property, int_property
from tilewright.dialects.nv_tileaa import types as A
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops import extensions, memory
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.memory import Atomic, Load, Scattered, Store
from tilewright.dialects.syntax.engine import values_of
from tilewright.launching.storage import Storage, storage_of
from tilewright.launching.value_types import TileLike, tile_type
from tilewright.machine.compile import Nested, Step, SwitchPoint, Translator, implements
from tilewright.machine.faults import OUTSIDE_INDEX_SPACE, Fault
from tilewright.machine.ops import atomics as atomic_steps
from tilewright.machine.ops import memory as pointer_steps
from tilewright.machine.ops import views as view_steps
from tilewright.machine.tileaa.coroutines import pausing
from tilewright.machine.tileaa.hints import preset_tokens
from tilewright.machine.tileaa.views import TiledView, known_cut
from tilewright.machine.values import Registers, TensorView
from tilewright.machine.view_access import ViewAccess
from tilewright.numerics.arrays import Array
from tilewright.numerics.element_types import FORMATS

Lanes = Callable[[Registers], tuple[Array, Array | None]]
"""Returns the address of every element of an access, and a mask of those in bounds; None if all are."""
Make = Callable[[int, int | None], Step]
"""Builds the step of an access through pointers, given their slot and that of a mask."""

_INDEX_MASK = FORMATS["i64"].mask


@dataclass(frozen=True, slots=True)
class Parts:
    """The operands of an access by group, and the type moved."""

    op: Access
    base: SSAValue
    indices: tuple[SSAValue, ...]
    mask: SSAValue | None
    other: SSAValue | None
    moved: TileLike

    @classmethod
    def of(cls, op: Access) -> Parts:
        """Return the parts of an operation that has its own base; absent groups are None or empty."""

        def group(name: str) -> tuple[SSAValue, ...]:
            return tuple(values_of(op, name)) if hasattr(op, name) else ()

        (base,) = group("base")
        mask, other = (next(iter(group(name)), None) for name in ("mask", "other"))
        return cls(op, base, group("indices"), mask, other, tile_type(op.moved))

    @property
    def storage(self) -> Storage:
        """How an element is stored in memory."""
        return storage_of(self.moved.element)

    @property
    def is_through_pointers(self) -> bool:
        """Whether the base is a tile of pointers rather than a memref or a view."""
        return not isinstance(self.base.type, A.MemrefType | A.TiledViewType)

    @property
    def is_gather(self) -> bool:
        """Whether tiles of indices select elements of a memref."""
        return isinstance(self.op, Scattered) and isinstance(self.base.type, A.MemrefType)

    @property
    def is_whole_tile(self) -> bool:
        """Whether the access is to exactly one tile of a view."""
        return self.mask is None and bool(self.moved.dims)

    def pointer_storage(self) -> Storage:
        """How the pointees are stored. Raises ``Fault`` if they cannot be accessed."""
        return pointer_steps.storage_behind(self.op, self.op.mnemonic(), self.base)

    def refuse_packed(self) -> None:
        """Raise ``Fault`` (unsupported) if elements are not byte-addressable."""
        if self.storage.packed:
            raise Translator.refusal(
                self.op,
                f"'{self.op.name}' of {self.storage.element} element by element: two of them share "
                "a byte",
            )


def placed(op: Access, t: Translator, step: Step) -> Step | SwitchPoint | Nested:
    """Return the step of an access with its switch point, and preset its result token."""
    preset_tokens(t, op.results)
    return pausing(t, step) if op.is_weak else SwitchPoint(step)


def _view_access(parts: Parts, t: Translator, cut: Cut) -> ViewAccess:
    promised = bool_values(parts.op.properties.get("in_bounds"))
    return ViewAccess(
        t.machine.memory,
        cut,
        parts.storage,
        t.slot(parts.base),
        t.slots(parts.indices),
        (_INDEX_MASK,) * len(parts.indices),
        # A scalar of a memref has no axes to assert bounds for.
        promised if len(promised) == len(cut.tile_dims) else (),
    )


def with_view(parts: Parts, t: Translator, make: Callable[[ViewAccess, Array], Step]) -> Step:
    """Return a step for a view access and its padding, even if the view is not known at translation."""
    ty, dims = parts.base.type, parts.moved.dims
    own = enum_property(parts.op, "padding_value")

    def made(cut: Cut, padding: str) -> Step:
        cut = _cut_for(parts, cut)
        padded = view_steps.padding_of(own or padding, cut.tile_dims, parts.moved.element)
        return make(_view_access(parts, t, cut), padded)

    if isinstance(ty, A.MemrefType):
        return made(Cut(dims or (1,) * ty.rank, tuple(range(ty.rank)), (1,) * ty.rank), "zero")
    known = known_cut(parts.base)
    if known is not None:
        return made(*known)
    steps: dict[tuple[Cut, str], Step] = {}
    slot = t.slot(parts.base)
    # Slots cannot be added while the kernel runs, so assign them now.
    t.slots((*parts.op.operands, *parts.op.results))

    def step(regs: Registers) -> None:
        view: TiledView = regs[slot]
        key = view.cut, view.padding
        if key not in steps:
            steps[key] = made(*key)
        steps[key](regs)

    return step


def _cut_for(parts: Parts, cut: Cut) -> Cut:
    """Return the cut with the sparse axis set to the one with an index for every row."""
    axes = [axis for axis, index in enumerate(parts.indices) if A.dims_of(index.type)]
    if cut.sparse_dim is not None and axes != [cut.sparse_dim]:
        raise Translator.refusal(
            parts.op,
            f"'{parts.op.name}' through a view with the sparse axis {cut.sparse_dim}: an access "
            "gives an index for each row there, and one index along every other axis",
        )
    return replace(cut, sparse_dim=axes[0]) if axes else cut


def _gathered(parts: Parts, t: Translator) -> Lanes:
    """Return the elements of a memref selected by tiles of indices; scalar indices apply to all."""
    slot, slots, mask = t.slot(parts.base), t.slots(parts.indices), t.optional(parts.mask)
    size, every = np.uint64(parts.storage.size), np.ones((), np.bool_)

    def lanes(regs: Registers) -> tuple[Array, Array | None]:
        tensor: TensorView = regs[slot]
        numbers: Array = np.zeros((), np.uint64)
        on: Array = every if mask is None else regs[mask]
        for axis, index_slot in enumerate(slots):
            index = regs[index_slot].view(np.uint64)
            outside = on & (index >= np.uint64(min(tensor.shape[axis], _INDEX_MASK)))
            if outside.any():
                wrong = int(np.broadcast_to(index, outside.shape)[outside][0])
                raise Fault(
                    OUTSIDE_INDEX_SPACE,
                    f"index {wrong} of dimension {axis} lies outside the memref, "
                    f"[0, {tensor.shape[axis]})",
                )
            numbers = np.asarray(numbers + index * np.uint64(tensor.strides[axis]))
        return np.asarray(np.uint64(tensor.base) + numbers * size), None

    return lanes


def _scratch(t: Translator) -> tuple[int, int]:
    """Reserve slots for pointers and a mask, at translation."""
    return t.new_slot(), t.new_slot()


def _through_lanes(
    parts: Parts, t: Translator, lanes: Lanes, make: Make, scratch: tuple[int, int]
) -> Step:
    """Return a step of ``make`` on the elements of an access."""
    pointers, inside = scratch
    mask, dims = t.optional(parts.mask), parts.moved.dims
    step = make(pointers, inside)

    def run(regs: Registers) -> None:
        addresses, within = lanes(regs)
        regs[pointers] = addresses.reshape(dims)
        on = np.ones(dims, np.bool_) if within is None else within.reshape(dims)
        regs[inside] = on if mask is None else on & regs[mask]
        step(regs)

    return run


@implements(memory.LoadOp, memory.TiledLoadOp, memory.GatherLoadOp)
def _load(op: Load, t: Translator) -> Step | SwitchPoint | Nested:
    """With ``multimem``, there is only one replica to combine."""
    parts, weak = Parts.of(op), op.is_weak
    result = t.slot(op.moved)
    mask, other = t.optional(parts.mask), t.optional(parts.other)

    def through_pointers(storage: Storage, pointers: int, on: int | None) -> Step:
        return pointer_steps.load_step(t, storage, pointers, result, parts.moved, on, other)

    def whole_tile(access: ViewAccess, padding: Array) -> Step:
        return view_steps.load_step(t, access, result, padding, is_weak=weak)

    if parts.is_through_pointers:
        step = through_pointers(parts.pointer_storage(), t.slot(parts.base), mask)
    elif parts.is_gather:
        parts.refuse_packed()
        make = partial(through_pointers, parts.storage)
        step = _through_lanes(parts, t, _gathered(parts, t), make, _scratch(t))
    elif parts.is_whole_tile:
        step = with_view(parts, t, whole_tile)
    else:
        parts.refuse_packed()
        slots = _scratch(t), t.new_slot()
        step = with_view(parts, t, partial(_load_lanes, parts, t, *slots))
    return placed(op, t, step)


def _load_lanes(
    parts: Parts,
    t: Translator,
    scratch: tuple[int, int],
    background: int,
    access: ViewAccess,
    padding: Array,
) -> Step:
    """Return a load that is masked or yields a scalar. Out-of-bounds elements are padding, masked-off
    ones ``other``."""
    result, padding = t.slot(parts.op.moved), padding.reshape(parts.moved.dims)
    mask, other = t.optional(parts.mask), t.optional(parts.other)

    def make(pointers: int, inside: int | None) -> Step:
        return pointer_steps.load_step(
            t, access.storage, pointers, result, parts.moved, inside, background
        )

    step = _through_lanes(parts, t, access.addresses, make, scratch)

    def run(regs: Registers) -> None:
        regs[background] = padding
        if mask is not None:
            off = np.zeros((), padding.dtype) if other is None else regs[other]
            regs[background] = np.where(regs[mask], padding, off)
        step(regs)

    return run


@implements(memory.StoreOp, memory.TiledStoreOp, memory.ScatterStoreOp)
def _store(op: Store, t: Translator) -> Step | SwitchPoint | Nested:
    """With ``multimem``, the single replica is written."""
    parts = Parts.of(op)
    value, mask, rank = t.slot(op.moved), t.optional(parts.mask), parts.moved.rank

    def through_pointers(storage: Storage, pointers: int, on: int | None) -> Step:
        return pointer_steps.store_step(t, storage, pointers, value, on, rank=rank)

    def whole_tile(access: ViewAccess, padding: Array) -> Step:
        return view_steps.store_step(t, access, value)

    if parts.is_through_pointers:
        step = through_pointers(parts.pointer_storage(), t.slot(parts.base), mask)
    elif parts.is_gather:
        parts.refuse_packed()
        make = partial(through_pointers, parts.storage)
        step = _through_lanes(parts, t, _gathered(parts, t), make, _scratch(t))
    elif parts.is_whole_tile:
        step = with_view(parts, t, whole_tile)
    else:
        parts.refuse_packed()
        step = with_view(parts, t, _each_lane(parts, t, partial(through_pointers, parts.storage)))
    return placed(op, t, step)


def _each_lane(parts: Parts, t: Translator, make: Make) -> Callable[[ViewAccess, Array], Step]:
    """Return accesses without padding, element by element."""
    scratch = _scratch(t)

    def made(access: ViewAccess, padding: Array) -> Step:
        return _through_lanes(parts, t, access.addresses, make, scratch)

    return made


@implements(memory.AtomicRMWOp, memory.TiledAtomicRMWOp)
def _atomic_rmw(op: Atomic, t: Translator) -> Step | SwitchPoint | Nested:
    parts = Parts.of(op)
    ty, machine_memory = parts.moved, t.machine.memory
    combine = atomic_steps.combination(enum_property(op, "rmw_mode"), ty.element, t.arithmetic)
    argument, result = t.slot(op.moved), t.slot(op.results[0])

    def update(pointers: int, inside: int | None) -> Step:
        return atomic_steps.update_step(
            machine_memory,
            parts.storage,
            combine,
            pointers,
            argument,
            inside,
            result,
            rank=ty.rank,
        )

    return placed(op, t, _atomic(parts, t, update))


@implements(memory.AtomicCasOp)
def _atomic_cas(op: memory.AtomicCasOp, t: Translator) -> Step | SwitchPoint | Nested:
    parts, machine_memory = Parts.of(op), t.machine.memory
    wanted, value, result = t.slots((op.compare, op.replacement, op.result))

    def swap(pointers: int, inside: int | None) -> Step:
        return atomic_steps.swap_step(
            machine_memory,
            parts.storage,
            pointers,
            wanted,
            value,
            inside,
            result,
            rank=parts.moved.rank,
        )

    return placed(op, t, _atomic(parts, t, swap))


def _atomic(parts: Parts, t: Translator, make: Make) -> Step:
    if parts.is_through_pointers:
        parts.pointer_storage()
        return make(t.slot(parts.base), t.optional(parts.mask))
    return with_view(parts, t, _each_lane(parts, t, make))


@implements(extensions.AllocaOp)
def _alloca(op: extensions.AllocaOp, t: Translator) -> Step:
    count, alignment = int_property(op, "num_elem"), int_property(op, "alignment")
    return pointer_steps.alloca_step(t, op.result, count, alignment, shared=is_set(op, "global"))
