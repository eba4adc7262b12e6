"""Unordered conflicting accesses to global memory by the warps of a block.

Each block records what its warps read and wrote, by memrefs and by pointers, and looks for conflicts when it ends: two
warps access one address, one of them writes, and the later one has not seen the earlier one's clock. Two writes of the
same value are harmless. Accesses by memrefs are not compared with accesses by pointers. Programs with atomic updates or
fences may order accesses in ways that clocks do not know; nothing is reported about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from tilewright.analysis.preorder import operations
from tilewright.numerics.arrays import Array, unsigned_view
from tilewright.simulator import codes
from tilewright.simulator.atomics import is_atomic
from tilewright.simulator.faults import DiagnosticCollector, note_at

if TYPE_CHECKING:
    from tilewright.simulator.address_space import Region
    from tilewright.simulator.memory import Buffer
    from tilewright.simulator.state import Warp

#: The elements that a block keeps at most; blocks that access more are not checked.
MAX_KEPT = 1 << 22
#: How many earlier accesses to an address each is compared with.
_DEPTH = 64
_ORDERING = frozenset({"llvm.fence", "llvm.inline_asm"})


@lru_cache(16)
def _orders_by_memory(module: Operation) -> bool:
    """Whether a module has operations by which warps may synchronize through memory."""
    return any(op.name in _ORDERING or is_atomic(op) for op in operations(module))


def _root(op: Operation) -> Operation:
    while (parent := op.parent_op()) is not None:
        op = parent
    return op


@dataclass(frozen=True, slots=True, eq=False)
class _Moment:
    """A warp at one time: its own clock entry, and its vector clock."""

    name: str
    clock_index: int
    clock: int
    seen: Array


@dataclass(frozen=True, slots=True, eq=False)
class _Note:
    """An instruction of a warp, or of the warps of a group with ``each`` lanes.

    ``values`` are those written to ``place``, None for a read; ``lanes`` are the active lanes, None for all.
    """

    op: Operation
    moments: tuple[_Moment, ...]
    each: int
    place: Array
    size: int
    values: Array | None
    lanes: Array | None

    def accesses(self) -> Iterator[_Access]:
        """The access of each warp."""
        for number, moment in enumerate(self.moments):
            rows: Any = slice(None)
            if len(self.moments) > 1 and self.place.ndim:
                first, end = number * self.each, (number + 1) * self.each
                if self.lanes is not None:
                    first, end = np.searchsorted(self.lanes, (first, end))
                rows = slice(first, end)
            place = self.place[rows] if self.place.ndim else self.place
            values = None
            if self.values is not None:
                values = unsigned_view(np.ascontiguousarray(self.values[rows])).reshape(-1)
            yield _Access(self.op, moment, place.reshape(-1) * self.size, self.size, values)


@dataclass(frozen=True, slots=True, eq=False)
class _Access:
    """What a warp accessed at once: the addresses of elements of ``size`` bytes, and the values written."""

    op: Operation
    moment: _Moment
    addresses: Array
    size: int
    values: Array | None


@dataclass(slots=True)
class GlobalLog:
    """The accesses of a block, by memory."""

    kept: dict[Buffer | Region, list[_Note]] = field(default_factory=dict)
    count: int = 0
    is_open: bool | None = None
    _moments: dict[int, tuple[int, _Moment]] = field(default_factory=dict)

    def note(
        self,
        warp: Warp,
        buffer: Buffer | Region,
        place: Any,
        size: int,
        op: Operation,
        values: Array | None = None,
        lanes: Array | None = None,
    ) -> None:
        """Note an access to elements of ``size`` bytes at ``place``, by all lanes or those in ``lanes``.

        ``values`` are those written; None for a read.
        """
        if self.is_open is None:
            self.is_open = not _orders_by_memory(_root(op))
        if not self.is_open:
            return
        place = np.asarray(place)
        self.count += place.size
        if self.count > MAX_KEPT:
            self.is_open = False
            self.kept.clear()
            return
        members = warp.members
        moments = tuple([self._moment(member) for member in members])
        note = _Note(op, moments, warp.size // len(members), place, size, values, lanes)
        self.kept.setdefault(buffer, []).append(note)

    def _moment(self, warp: Warp) -> _Moment:
        """The warp at this time; the same object while its clock does not change."""
        found = self._moments.get(warp.clock_index)
        if found is None or found[0] != warp.version:
            clock = warp.clock
            moment = _Moment(
                warp.name(), warp.clock_index, int(clock[warp.clock_index]), clock.copy()
            )
            found = self._moments[warp.clock_index] = warp.version, moment
        return found[1]

    def check(self, collector: DiagnosticCollector) -> None:
        """Report conflicts, once for each pair of operations."""
        for buffer, notes in self.kept.items():
            clock_indices = {moment.clock_index for note in notes for moment in note.moments}
            if len(clock_indices) > 1 and any(note.values is not None for note in notes):
                _check(buffer, notes, collector)


def _expanded(place: Array, size: int, unit: int) -> Array:
    """The addresses of the ``unit``-byte parts of elements."""
    if size == unit:
        return place.reshape(-1) * size
    return (place.reshape(-1, 1) * size + np.arange(0, size, unit)).reshape(-1)


def _check(buffer: Buffer | Region, notes: list[_Note], collector: DiagnosticCollector) -> None:
    unit = min(note.size for note in notes)
    every = np.concatenate([_expanded(note.place, note.size, unit) for note in notes])
    every.sort()
    # A position that all warps of a note share is listed once.
    shared = any(not note.place.ndim and len(note.moments) > 1 for note in notes)
    if shared or (every[1:] == every[:-1]).any():
        _compare(buffer, [each for note in notes for each in note.accesses()], unit, collector)


def _compare(
    buffer: Buffer | Region, accesses: list[_Access], unit: int, collector: DiagnosticCollector
) -> None:
    parts = [_expanded(access.addresses // access.size, access.size, unit) for access in accesses]
    which = np.repeat(np.arange(len(accesses)), [part.size for part in parts])
    addresses = np.concatenate(parts)
    order = np.argsort(addresses, kind="stable")
    addresses, which = addresses[order], which[order]
    values = _values(accesses, parts, unit)[order]
    clock_indices = np.array([access.moment.clock_index for access in accesses])
    clocks = np.array([access.moment.clock for access in accesses])
    writes = np.array([access.values is not None for access in accesses])
    seen = np.stack([access.moment.seen for access in accesses])
    for distance in range(1, min(_DEPTH, addresses.size - 1) + 1):
        same = np.flatnonzero(addresses[distance:] == addresses[:-distance])
        if not same.size:
            return
        one, other = which[same], which[same + distance]
        equal = writes[one] & writes[other] & (values[same] == values[same + distance])
        bad = (writes[one] | writes[other]) & (clock_indices[one] != clock_indices[other]) & ~equal
        bad &= seen[other, clock_indices[one]] < clocks[one]
        for place in np.flatnonzero(bad)[:1]:
            earlier, later = accesses[one[place]], accesses[other[place]]
            _report(buffer, int(addresses[same[place]]), earlier, later, collector)


def _values(accesses: list[_Access], parts: list[Array], unit: int) -> Array:
    """The values written at each address; the parts of a wider element get a number unique to the access."""
    found: list[Array] = []
    for number, (access, part) in enumerate(zip(accesses, parts)):
        if access.values is not None and access.size == unit:
            found.append(access.values.astype(np.uint64))
        else:
            found.append(np.full(part.size, (1 << 63) + number, np.uint64))
    return np.concatenate(found)


def _report(
    buffer: Buffer | Region,
    address: int,
    earlier: _Access,
    later: _Access,
    collector: DiagnosticCollector,
) -> None:
    verbs = [("reads", "writes")[access.values is not None] for access in (earlier, later)]
    collector.add(
        codes.RACE,
        f"{later.op.name} of {later.moment.name} {verbs[1]} byte {address} of {buffer.name}, which "
        f"{earlier.moment.name} {verbs[0]}, unordered",
        later.op,
        other=earlier.op,
        notes=[note_at(f"{earlier.moment.name}: {verbs[0]} here", earlier.op)],
        help="put a barrier between the two accesses, or give each warp its own memory",
    )
