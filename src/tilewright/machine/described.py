"""Maps arguments that a client has already described into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tilewright.launching.described import (
    ArrayValue,
    ListValue,
    Value,
    host_bytes,
)
from tilewright.machine.memory import Memory, Placed
from tilewright.numerics.arrays import Array

# The alignment that clients assume of addresses. Mapped addresses equal the host's modulo this.
_HOST_ALIGNMENT = 16
_MAX_PLACEMENTS = 16


class Placements:
    """The addresses of launch arrays in the machine's memory.

    Programs launch on the same arrays repeatedly, so their placement is cached.
    """

    def __init__(self, memory: Memory):
        self._memory = memory
        self._known: dict[object, tuple[Placed, list[Sequence[Array]]]] = {}

    def parameters(self, values: Sequence[Value]) -> list[Array]:
        """Return the kernel's parameters as tiles, with all arrays placed in the machine's memory."""
        memory = self._memory
        where = tuple(map(_where, values))
        known = self._known.get(where)
        if known is None:
            mark = memory.mark()
            tiles = placed_tiles(memory, values)
            if len(self._known) >= _MAX_PLACEMENTS:
                self._known.clear()
            self._known[where] = memory.placed_since(mark), tiles
        else:
            placed, tiles = known
            memory.place_again(placed)
        found: list[Array] = []
        for value, own in zip(values, tiles, strict=True):
            if own:
                found += own
            else:
                assert isinstance(value, np.ndarray)
                found.append(value)
        return found


def _where(value: Value) -> object:
    """Return the part of an argument that determines its placement; None for a number."""
    if type(value) is ArrayValue:
        return value.placement
    if type(value) is ListValue:
        return tuple(item.placement for item in value.items)
    return None


def placed_tiles(memory: Memory, values: Sequence[Value]) -> list[Sequence[Array]]:
    """Map all arrays into the machine's memory. Returns the parameters that stand for each value.

    There are none for a number. Arrays that share bytes share addresses.
    """
    arrays: list[ArrayValue] = []
    for value in values:
        if type(value) is ArrayValue:
            arrays.append(value)
        elif type(value) is ListValue:
            arrays += value.items
    addresses = iter(_place(memory, arrays))
    found: list[Sequence[Array]] = []
    for value in values:
        if type(value) is ArrayValue:
            found.append((np.array(next(addresses), np.uint64), *value.layout.tiles))
        elif type(value) is ListValue:
            table = np.array(_place_table(memory, value, addresses), np.uint64)
            found.append((table, np.array(len(value.items), np.int32)))
        else:
            found.append(())
    return found


def _place(memory: Memory, arrays: Sequence[ArrayValue]) -> list[int]:
    """Place arrays in the machine's memory. Returns their addresses."""
    spans = sorted([(a.address + a.layout.low, a.layout.size, i) for i, a in enumerate(arrays)])
    reach = -1
    for low, size, _ in spans:
        if low < reach:
            return _place_overlapping(memory, arrays, spans)
        reach = low + size
    addresses: list[int] = []
    for array in arrays:
        layout = array.layout
        low, size = array.address + layout.low, layout.size
        skipped = low % _HOST_ALIGNMENT
        base = memory.reserve(size + skipped) + skipped
        memory.place(base, host_bytes(low, size), array.name, writable=array.is_writable)
        addresses.append(base - layout.low)
    return addresses


def _place_overlapping(
    memory: Memory, arrays: Sequence[ArrayValue], spans: Sequence[tuple[int, int, int]]
) -> list[int]:
    """Place arrays of which some share bytes; ``spans`` are (first byte, size, index), ascending."""
    runs: list[list[tuple[int, int, int]]] = []
    reach = -1
    for span in spans:
        low, size, _ = span
        if not runs or low >= reach:
            runs.append([])
        runs[-1].append(span)
        reach = max(reach, low + size)
    addresses = [0] * len(arrays)
    for run in sorted(runs, key=lambda run: min(index for _, _, index in run)):
        members = [arrays[index] for _, _, index in sorted(run, key=lambda span: span[2])]
        low, high = run[0][0], max(first + size for first, size, _ in run)
        # A run must be writable as a whole if one of its arrays is.
        writable = any(array.is_writable for array in members)
        name = " and ".join(array.name for array in members)
        skipped = low % _HOST_ALIGNMENT
        base = memory.reserve(high - low + skipped) + skipped
        memory.place(base, host_bytes(low, high - low), name, writable=writable)
        for _, _, index in run:
            addresses[index] = base + arrays[index].address - low
    return addresses


def _place_table(memory: Memory, value: ListValue, addresses: Iterator[int]) -> int:
    """Place the table of records that represents a list of arrays. Returns its address."""
    records = [[next(addresses), *item.layout.shape, *item.layout.strides] for item in value.items]
    buffer = np.array(records, np.int64).reshape(-1).view(np.uint8)
    return memory.allocate(buffer, f"the list {value.name}", writable=False).base
