"""Atomic read-modify-write operations.

Every lane is a separate transaction. Lanes take effect in row-major order: those with distinct
addresses together, those that share an address one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

from tilewright.dialects.cuda_tile.ops import atomics, multimem
from tilewright.dialects.declare import enum_property
from tilewright.launching import accesses
from tilewright.launching.storage import Storage
from tilewright.machine.compile import Step, SwitchPoint, Translator, implements, tile_type
from tilewright.machine.memory import Memory
from tilewright.machine.ops.memory import pointer_storage, scalar_cell
from tilewright.machine.ops.views import access_of
from tilewright.machine.values import TOKEN, Registers
from tilewright.machine.view_access import ViewAccess
from tilewright.numerics.arithmetic import Arithmetic
from tilewright.numerics.arrays import Array
from tilewright.numerics.semantics import ELEMENTWISE

Combine = Callable[[Array, Array], Array]


def _exchange(old: Array, new: Array) -> Array:
    return new


def _named(mnemonic: str, **attributes: str | bool) -> Callable[[str], Combine]:
    return lambda element: partial(ELEMENTWISE[mnemonic], element=element, **attributes)


_INTEGER_MODES: Mapping[str, Callable[[str], Combine]] = MappingProxyType(
    {
        "and": _named("andi"),
        "or": _named("ori"),
        "xor": _named("xori"),
        "add": _named("addi"),
        "max": _named("maxi", signedness="signed"),
        "min": _named("mini", signedness="signed"),
        "umax": _named("maxi", signedness="unsigned"),
        "umin": _named("mini", signedness="unsigned"),
    }
)
_FLOAT_MODES: Mapping[str, Callable[[str], Combine]] = MappingProxyType(
    {"addf": _named("addf"), "add": _named("addf")}
)
_flushing_addf = _named("addf", flush_to_zero=True)


def combination(mode: str, element: str, arithmetic: Arithmetic) -> Combine:
    """Return the function of (memory, argument) whose result an atomic writes.

    ``mode`` is spelled as in Tile IR (``atomic_rmw_tko``); both arrays hold elements of the type. ``max`` and ``min``
    read signed, ``umax`` and ``umin`` unsigned.
    """
    if mode == "xchg":
        return _exchange
    if arithmetic.flush_denormal_addf and element == "f32" and mode in ("addf", "add"):
        return _flushing_addf(element)
    modes = _INTEGER_MODES if element.startswith("i") else _FLOAT_MODES
    return modes[mode](element)


def _rounds(addresses: Array) -> Iterator[Array]:
    """Yield groups of flat lane positions that may take effect together, in order."""
    if addresses.size < 2:
        yield np.arange(addresses.size)
        return
    order = np.argsort(addresses, kind="stable")
    sorted_addresses = addresses[order]
    starts = np.flatnonzero(np.r_[True, sorted_addresses[1:] != sorted_addresses[:-1]])
    if starts.size == addresses.size:
        yield np.arange(addresses.size)
        return
    counts = np.diff(np.r_[starts, addresses.size])
    for turn in range(int(counts.max())):
        yield order[starts[counts > turn] + turn]


def update(
    memory: Memory, storage: Storage, addresses: Array, argument: Array, combine: Combine
) -> Array:
    """Combine the memory at flat addresses with flat arguments. Returns the old elements.

    Of lanes at one address each sees what the one before has written. Raises ``Fault`` for addresses that may not be
    accessed.
    """
    old = np.empty(argument.shape, argument.dtype)
    for lanes in _rounds(addresses):
        where = addresses[lanes]
        before = storage.to_tile(memory.load(where, storage))
        old[lanes] = before
        after = storage.from_tile(np.asarray(combine(before, argument[lanes])))
        _write(memory, storage, where, storage.from_tile(before), after)
    return old


def _write(memory: Memory, storage: Storage, addresses: Array, before: Array, after: Array) -> None:
    """Store elements. Writing equal values does not count as a change of memory."""
    version = memory.version
    memory.store(addresses, storage, after)
    if before.tobytes() == after.tobytes():
        memory.version = version


def _set(memory: Memory, cell: Array, before: Array, after: Array) -> None:
    """Write one element. Writing an equal value does not count as a change of memory."""
    if before.tobytes() != after.tobytes():
        memory.version += 1
        cell[...] = after


@implements(atomics.AtomicRMWTkoOp)
def _atomic_rmw(op: atomics.AtomicRMWTkoOp, t: Translator) -> SwitchPoint:
    storage = pointer_storage(op, "pointers")
    combine = combination(enum_property(op, "mode"), tile_type(op.arg).element, t.arithmetic)

    t.preset(op.result_token, TOKEN)
    slots = t.slot(op.pointers), t.slot(op.arg), t.optional(op.mask), t.slot(op.result)
    rank = tile_type(op.pointers).rank
    return SwitchPoint(update_step(t.machine.memory, storage, combine, *slots, rank=rank))


def update_step(
    memory: Memory,
    storage: Storage,
    combine: Combine,
    pointers: int,
    argument: int,
    mask: int | None,
    result: int,
    *,
    rank: int,
) -> Step:
    """Combines the memory behind pointers with a tile; the result is the old elements."""

    def step(regs: Registers) -> None:
        given = regs[argument]
        old = np.zeros(given.shape, given.dtype)
        lanes = np.ones(given.shape, np.bool_) if mask is None else regs[mask]
        old[lanes] = update(memory, storage, regs[pointers][lanes], given[lanes], combine)
        regs[result] = old

    def scalar(regs: Registers) -> None:
        cell = scalar_cell(memory, regs[pointers].item(), storage)
        raw = cell.copy()
        old = storage.to_tile(raw)
        _set(memory, cell, raw, storage.from_tile(np.asarray(combine(old, regs[argument]))))
        regs[result] = old

    return step if rank or mask is not None else scalar


@implements(atomics.AtomicCASTkoOp)
def _atomic_cas(op: atomics.AtomicCASTkoOp, t: Translator) -> SwitchPoint:
    storage = pointer_storage(op, "pointers")
    t.preset(op.result_token, TOKEN)
    pointers, wanted, value, result = t.slots((op.pointers, op.cmp, op.val, op.result))
    mask, rank = t.optional(op.mask), tile_type(op.pointers).rank
    memory = t.machine.memory
    return SwitchPoint(swap_step(memory, storage, pointers, wanted, value, mask, result, rank=rank))


def swap_step(
    memory: Memory,
    storage: Storage,
    pointers: int,
    wanted: int,
    value: int,
    mask: int | None,
    result: int,
    *,
    rank: int,
) -> Step:
    """Writes ``value`` where memory holds the bits of ``wanted``; the result is the old elements."""
    bits = np.dtype(f"u{storage.size}")

    def swap(where: Array, expected: Array, replacement: Array) -> Array:
        old = np.empty(expected.shape, bits)
        for lanes in _rounds(where):
            before = memory.load(where[lanes], storage).view(bits)
            old[lanes] = before
            equal = before == expected[lanes]
            if equal.any():
                after = replacement[lanes][equal]
                _write(
                    memory,
                    storage,
                    where[lanes][equal],
                    before[equal],
                    after.view(storage.raw),
                )
        return old

    def step(regs: Registers) -> None:
        expected = regs[wanted]
        old = expected.copy()
        lanes = np.ones(expected.shape, np.bool_) if mask is None else regs[mask]
        raw = swap(
            regs[pointers][lanes],
            storage.from_tile(expected)[lanes].view(bits),
            storage.from_tile(regs[value])[lanes].view(bits),
        )
        old[lanes] = storage.to_tile(raw.view(storage.raw))
        regs[result] = old

    def scalar(regs: Registers) -> None:
        cell = scalar_cell(memory, regs[pointers].item(), storage)
        raw = cell.copy()
        if raw.tobytes() == regs[wanted].tobytes():
            _set(memory, cell, raw, storage.from_tile(regs[value]))
        regs[result] = storage.to_tile(raw)

    return step if rank or mask is not None else scalar


@implements(atomics.AtomicRedViewTkoOp)
def _atomic_red_view(op: atomics.AtomicRedViewTkoOp, t: Translator) -> SwitchPoint:
    return _reduce_into_view(op, t, enum_property(op, "mode"), t.slot(op.value))


@implements(multimem.MultimemReduceViewTkoOp)
def _multimem_reduce(op: multimem.MultimemReduceViewTkoOp, t: Translator) -> SwitchPoint:
    """Updates the single replica."""
    return _reduce_into_view(op, t, enum_property(op, "reduction"), t.slot(op.tile))


def _reduce_into_view(
    op: accesses.ViewAccess, t: Translator, mode: str, argument: int
) -> SwitchPoint:
    access, storage = access_of(op, t)
    combine = combination(mode, storage.element, t.arithmetic)
    t.preset(op.results[0], TOKEN)
    return SwitchPoint(view_update_step(access, combine, argument))


def view_update_step(
    access: ViewAccess,
    combine: Combine,
    argument: int,
) -> Step:
    """Combines the in-bounds elements of a view's tile with those of another tile."""
    memory, storage = access.memory, access.storage

    def step(regs: Registers) -> None:
        addresses, inside = access.addresses(regs)
        given = regs[argument]
        lanes = np.ones(given.shape, np.bool_) if inside is None else inside
        update(memory, storage, addresses[lanes], given[lanes], combine)

    return step
