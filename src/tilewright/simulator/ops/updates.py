"""``llvm``: atomic updates of global memory, in the order of the lanes; fences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.dialects.upstream.llvm.atomics import AtomicRMWOp
from tilewright.numerics.arrays import Array
from tilewright.numerics.semantics import ELEMENTWISE
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.global_memory import ADDRESS, Access
from tilewright.simulator.state import Warp
from tilewright.simulator.values import Element, lanes

_SIGNED, _UNSIGNED = {"signedness": "signed"}, {"signedness": "unsigned"}
_UPDATES: dict[str, tuple[str, dict[str, Any]]] = {
    "add": ("addi", {}),
    "sub": ("subi", {}),
    "_and": ("andi", {}),
    "_or": ("ori", {}),
    "_xor": ("xori", {}),
    "max": ("maxi", _SIGNED),
    "min": ("mini", _SIGNED),
    "umax": ("maxi", _UNSIGNED),
    "umin": ("mini", _UNSIGNED),
    "fadd": ("addf", {}),
    "fsub": ("subf", {}),
    "fmax": ("maxf", {}),
    "fmin": ("minf", {}),
}


def _unsigned(array: Array) -> Array:
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def _count_up(old: Array, limit: Array) -> Array:
    return np.where(_unsigned(old) >= _unsigned(limit), np.zeros_like(old), old + old.dtype.type(1))


def _count_down(old: Array, limit: Array) -> Array:
    wraps = (old == 0) | (_unsigned(old) > _unsigned(limit))
    return np.where(wraps, limit, old - old.dtype.type(1))


_OTHERS: dict[str, Callable[[Array, Array], Array]] = {
    "xchg": lambda old, new: new,
    "nand": lambda old, new: ~(old & new),
    "uinc_wrap": _count_up,
    "udec_wrap": _count_down,
}


def _combination(keyword: str, element: Element) -> Callable[[Array, Array], Array]:
    if keyword in _OTHERS:
        return _OTHERS[keyword]
    name, keywords = _UPDATES[keyword]
    function = ELEMENTWISE[name]
    return lambda old, new: function(old, new, element.name, **keywords)


def _turns(addresses: Array) -> list[Array]:
    """Partition elements into rounds without duplicate addresses. Elements of one address are in order."""
    order = np.argsort(addresses, kind="stable")
    ascending = addresses[order]
    begins = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]])
    if begins.size == addresses.size:
        return [np.arange(addresses.size)]
    counts = np.diff(np.r_[begins, addresses.size])
    turn = np.arange(addresses.size) - np.repeat(begins, counts)
    return [order[turn == number] for number in range(int(counts.max()))]


def _update(
    access: Access,
    warp: Warp,
    address: Any,
    change: Callable[[Array, Array], Array],
) -> Array:
    """Update the elements at the addresses of active lanes, one lane after the other.

    ``change`` takes the old elements and the lanes. Returns the old element of each lane.
    """
    active = np.flatnonzero(warp.mask)
    addresses = lanes(address, ADDRESS, warp.size)[active]
    access.check_aligned(warp, addresses, lambda: active)
    if (recorder := warp.launch.recorder) is not None:
        recorder.updated(warp, access.op, addresses)
    old = np.zeros(warp.size, access.element.dtype)
    for turn in _turns(addresses):
        _one_turn(access, warp, addresses[turn], active[turn], change, old)
    return old


def _one_turn(
    access: Access,
    warp: Warp,
    addresses: Array,
    who: Array,
    change: Callable[[Array, Array], Array],
    old: Array,
) -> None:
    """The updates of lanes ``who``, whose addresses are distinct."""
    found = access.read(warp, addresses, lambda: who)
    old[who] = found
    access.update(warp, addresses, found, change(found, who), lambda: who)


#: Integer updates that are associative: the operation that combines their operands, or "" for none. Floats are rounded
#: at each update, in the order of lanes, and so are not combined.
_GROUPED = {"sub": "add", "nand": "", "uinc_wrap": "", "udec_wrap": ""}


def _grouped(keyword: str, element: Element) -> Callable[[Array, Array], Array] | None:
    if element.is_float and keyword != "xchg":
        return None
    keyword = _GROUPED.get(keyword, keyword)
    return _combination(keyword, element) if keyword else None


def _update_together(
    access: Access,
    warp: Warp,
    address: Any,
    values: Array,
    combine: Callable[[Array, Array], Array],
    grouped: Callable[[Array, Array], Array],
) -> Array:
    """As ``_update``, for associative updates: each address is read and written once."""
    active = np.flatnonzero(warp.mask)
    addresses = lanes(address, ADDRESS, warp.size)[active]
    access.check_aligned(warp, addresses, lambda: active)
    if (recorder := warp.launch.recorder) is not None:
        recorder.updated(warp, access.op, addresses)
    order = np.argsort(addresses, kind="stable")
    where, who = addresses[order], active[order]
    begins = np.r_[True, where[1:] != where[:-1]]
    first = np.maximum.accumulate(np.where(begins, np.arange(where.size), 0))
    rank = np.arange(where.size) - first
    # A prefix combination per address, by steps of doubling length.
    total, step = values[who], 1
    while step <= int(rank.max()):
        later = np.flatnonzero(rank >= step)
        total[later] = grouped(total[later - step], total[later])
        step *= 2
    ends = np.r_[np.flatnonzero(begins)[1:], where.size] - 1
    found = access.read(warp, where[begins], lambda: who[begins])
    before = found[np.cumsum(begins) - 1]
    old = np.zeros(warp.size, access.element.dtype)
    later = np.flatnonzero(~begins)
    old[who[begins]] = found
    old[who[later]] = combine(before[later], total[later - 1])
    made = combine(found, total[ends])
    access.update(warp, where[begins], found, made, lambda: who[begins])
    again = addresses.size - ends.size
    warp.launch.counters.global_bytes_read += again * access.size
    warp.launch.counters.global_bytes_written += again * access.size
    return old


@implements("llvm.atomicrmw", wide=True)
def _atomicrmw(op: AtomicRMWOp, t: Translator) -> Step:
    """An atomic update per lane, in ascending order; the result is the old value."""
    pointer, value, result = t.slot(op.ptr), t.slot(op.val), t.slot(op.res)
    access = Access(op, op.ptr.type, op.val.type, "updates")
    combine = _combination(op.keyword, access.element)
    grouped = _grouped(op.keyword, access.element)

    def step(warp: Warp) -> None:
        r = warp.regs
        values = lanes(r[value], access.element.dtype, warp.size)
        if grouped is not None:
            r[result] = _update_together(access, warp, r[pointer], values, combine, grouped)
            return
        r[result] = _update(access, warp, r[pointer], lambda old, who: combine(old, values[who]))

    return step


@implements("llvm.cmpxchg", wide=True)
def _cmpxchg(op: Any, t: Translator) -> Step:
    """A compare-and-exchange per lane; the result is the pair of the old value and whether it was exchanged."""
    pointer, wanted, value = t.slot(op.ptr), t.slot(op.cmp), t.slot(op.val)
    result = t.slot(op.res)
    access = Access(op, op.ptr.type, op.val.type, "updates")
    dtype = access.element.dtype

    def step(warp: Warp) -> None:
        r = warp.regs
        expected = lanes(r[wanted], dtype, warp.size)
        values = lanes(r[value], dtype, warp.size)
        exchanged = np.zeros(warp.size, np.bool_)

        def change(old: Array, who: Array) -> Array:
            same = _unsigned(old) == _unsigned(expected[who])
            exchanged[who] = same
            return np.where(same, values[who], old)

        old = _update(access, warp, r[pointer], change)
        r[result] = (old, exchanged)

    return step


@implements("llvm.extractvalue", wide=True)
def _extractvalue(op: Any, t: Translator) -> Step:
    """A member of a structure."""
    source, result = t.slot(op.container), t.slot(op.res)
    numbers = tuple(int(n) for n in op.properties["position"].get_values())

    def step(warp: Warp) -> None:
        found = warp.regs[source]
        for number in numbers:
            found = found[number]
        warp.regs[result] = found

    return step


@implements("llvm.fence", wide=True)
def _fence(op: Operation, t: Translator) -> None:
    """Nothing: accesses happen in program order."""
