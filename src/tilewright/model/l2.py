"""L2 misses: an LRU cache over what the blocks in flight load, in the order in which they run.

Blocks start in grid order, as many as the GPU holds at once, and run side by side. What each loads is known from its
code: the map and coordinates of bulk copies, the first lane's address of other loads. Two loads of the same address are
the same data. Where addresses change evenly over the grid, blocks are extrapolated from a few of them; otherwise each
is walked through. Long loops are truncated, and the cache with them.
"""

from __future__ import annotations

import math
import operator
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from tilewright.model.traces import Event
from tilewright.model.walk import Walker

BlockIndex = tuple[int, int, int]
#: The numbers that identify the data of a load; none if they are unknown.
_Data = tuple[int, ...]
#: Limits: of all loads, of waves of blocks, and of blocks that are walked if needed.
_MOST_LOADS, _ROUNDS, _MOST_WALKS = 80_000, 3, 160
#: The limit of loads until each instruction has loaded.
_MOST_LOADS_OF_ALL = 4 * _MOST_LOADS
#: The loads per block in flight that L2 holds at least.
_TOGETHER = 2
#: The basic blocks per walk of a warp, and those if some load comes late.
SHORT, LONG = 100, 1600


@dataclass(frozen=True, slots=True)
class Misses:
    """The share of loaded bytes that miss L2.

    ``late``: the share of bytes that come from memory, or wait for data that another block has just requested, once
    loops are in steady state; ``first``: the same for the first loads of blocks. ``known``: the share of loads with
    known addresses.
    """

    share: float
    late: float
    first: float
    known: float


@dataclass(frozen=True, slots=True)
class Loads:
    """The loads of a launch: by instruction the executions per block and the bytes; the warps that load, the blocks in
    flight, and the size of L2 in bytes.
    """

    executions: Mapping[int, float]
    sizes: Sequence[float]
    warps: Sequence[int]
    in_flight: int
    l2_bytes: float


def misses(grid: BlockIndex, walker: Walker, loads: Loads, band: int = 0) -> Misses | None:
    """Simulate L2; None if too few of the loads are known.

    ``walker`` records load addresses in the first basic blocks of a warp. ``band``: simulate bands of this width along
    the first axis instead of grid order; then also None if addresses do not change evenly.
    """
    base = _stream(walker, (0, 0, 0), loads)
    whole = sum(loads.sizes[index] for index, _, _ in base)
    known = sum(loads.sizes[index] for index, where, _ in base if where)
    if not whole or known < whole / 2:
        return None
    count = math.prod(grid)
    in_flight = min(count, loads.in_flight)
    # Each instruction must have loaded, even if that leaves few waves.
    needed = _loads_of_all(base, loads)
    if is_late(needed, len(base)):
        # A later loop may find what an earlier one has loaded.
        needed = min(len(base), _MOST_LOADS_OF_ALL)
    if needed * in_flight > _MOST_LOADS_OF_ALL:
        # Simulate some of the blocks in flight, with their share of L2.
        some = max(1, _MOST_LOADS_OF_ALL // needed)
        loads = replace(loads, in_flight=some, l2_bytes=loads.l2_bytes * some / in_flight)
        in_flight = some
    fitting = _MOST_LOADS // (needed * in_flight)
    rounds = max(1, min(2, _MOST_LOADS_OF_ALL // (needed * in_flight)), min(_ROUNDS, fitting))
    blocks = min(count, rounds * in_flight)
    kept = max(1, min(len(base), max(needed, _MOST_LOADS // blocks)))
    make_stream = _even(walker, grid, loads, base[:kept])
    if make_stream is None:
        if band:
            return None
        blocks = min(blocks, _MOST_WALKS)
        found = _walked(walker, [_place(number, grid) for number in range(blocks)], loads)
        kept = min(kept, *(len(stream) for stream in found))
        make_stream = found.__getitem__
    order = [in_bands(number, grid, band) for number in range(blocks)] if band else range(blocks)
    streams = [make_stream(number)[:kept] for number in order]
    # Even in short streams, blocks that run side by side share what they load at nearly the same time.
    together = _TOGETHER * in_flight * max(loads.sizes[index] for index, _, _ in base)
    cut = loads.l2_bytes * min(1.0, kept / sum(loads.executions.values()))
    cache = _Cache(max(cut, min(loads.l2_bytes, together)))
    shares = [
        cache.run(streams[first : first + loads.in_flight], loads)
        for first in range(0, blocks, loads.in_flight)
    ]
    weights = [min(loads.in_flight, blocks - first) for first in range(0, blocks, loads.in_flight)]
    # Each later wave is like the last one simulated.
    weights[-1] += count - blocks
    share, late, first = (
        sum(map(operator.mul, each, weights)) / count for each in zip(*shares, strict=True)
    )
    return Misses(share, late, first, known / whole)


def is_late(first: int, count: int) -> bool:
    """Whether a load that is first executed as number ``first`` of ``count`` is in a later part of the kernel.

    Its data may then have been brought into L2 by earlier loads.
    """
    return 4 * first > count


def _loads_of_all(base: Sequence[_Entry], loads: Loads) -> int:
    """How many of the first loads of a block include one of each instruction by each warp."""
    firsts = {index: number for number, (index, _, _) in reversed(list(enumerate(base)))}
    return min(len(base), max(firsts.values()) + len(loads.warps))


def _place(number: int, grid: BlockIndex) -> BlockIndex:
    x, y, _ = grid
    return number % x, number // x % y, number // (x * y)


def in_bands(number: int, grid: BlockIndex, band: int) -> int:
    """The number in grid order (x fastest) of the ``number``-th block in band order.

    A band is ``band`` blocks wide along x, the last one what is left, and runs along all of y. Planes of z follow
    each other.
    """
    x, y, _ = grid
    plane, rest = divmod(number, x * y)
    first, inside = divmod(rest, band * y)
    width = min(band, x - first * band)
    row, column = divmod(inside, width)
    return plane * x * y + row * x + first * band + column


_Entry = tuple[int, _Data, float]


def _stream(walker: Walker, place: BlockIndex, loads: Loads) -> list[_Entry]:
    """The interleaved loads of a block's warps: instruction, data (empty if unknown), and time."""
    found: list[_Entry] = []
    for warp in loads.warps:
        path = walker.walk(warp, place)
        events = [event for event in path.events if event.executed]
        found += [
            (event.index, _where(event), number / len(events))
            for number, event in enumerate(events)
        ]
    found.sort(key=lambda entry: entry[2])
    return found


def _walked(walker: Walker, places: Sequence[BlockIndex], loads: Loads) -> list[list[_Entry]]:
    """The loads of these blocks, each of which is walked.

    If in three of the blocks the warps' loads are at the same distances, these hold for all blocks, and only the first
    warp is walked.
    """
    first, *others = ([warp] for warp in loads.warps)
    alone = replace(loads, warps=first)

    def shifts(place: BlockIndex, lead: list[_Entry]) -> list[list[tuple[int, ...]]] | None:
        found: list[list[tuple[int, ...]]] = []
        for warp in others:
            stream = _stream(walker, place, replace(loads, warps=warp))
            if not _same_code(lead, stream):
                return None
            found.append([_minus(b[1], a[1]) for a, b in zip(lead, stream, strict=True)])
        return found

    leads = [_stream(walker, place, alone) for place in places]
    some = {0, len(places) // 2, len(places) - 1}
    told = [shifts(places[number], leads[number]) for number in some] if others else [[]]
    far = told[0]
    if far is None or any(each != far for each in told):
        return [_stream(walker, place, loads) for place in places]
    if any(len(lead) != len(shift) for lead in leads for shift in far):
        return [_stream(walker, place, loads) for place in places]
    for lead in leads:
        moved = [
            (index, tuple(map(operator.add, where, by)), when)
            for shift in far
            for (index, where, when), by in zip(lead, shift, strict=True)
        ]
        lead.extend(moved)
        lead.sort(key=lambda entry: entry[2])
    return leads


def _where(event: Event) -> tuple[int, ...]:
    """The numbers that identify the data of a load; empty if one is unknown."""
    known = tuple(number for number in event.where if number is not None)
    return known if len(known) == len(event.where) else ()


def _even(
    walker: Walker, grid: BlockIndex, loads: Loads, base: Sequence[_Entry]
) -> Callable[[int], list[_Entry]] | None:
    """A function for the loads of blocks whose addresses change evenly along each axis; None if they do not."""
    steps: list[list[int] | None] = []
    for axis, extent in enumerate(grid):
        if extent == 1:
            steps.append(None)
            continue
        next_one = _stream(walker, _along(axis, 1), loads)[: len(base)]
        if not _same_code(base, next_one):
            return None
        steps.append(list(map(operator.sub, _numbers(next_one), _numbers(base))))
    start = _numbers(base)
    ends = list(accumulate(len(where) for _, where, _ in base))
    parts = [
        (index, slice(end - len(where), end), when)
        for (index, where, when), end in zip(base, ends, strict=True)
    ]

    def at(number: int) -> list[_Entry]:
        numbers = start
        for far, step in zip(_place(number, grid), steps, strict=True):
            if far and step:
                numbers = [value + far * each for value, each in zip(numbers, step, strict=True)]
        made = tuple(numbers)
        return [(index, made[part], when) for index, part, when in parts]

    count = math.prod(grid)
    for number in {count - 1, count // 2, count * 2 // 3}:
        seen = _stream(walker, _place(number, grid), loads)
        seen = seen[: len(base)]
        if not _same_code(base, seen) or [e[1] for e in seen] != [e[1] for e in at(number)]:
            return None
    return at


def _numbers(stream: Sequence[_Entry]) -> list[int]:
    """The numbers of all loads, one behind the other."""
    return [number for _, where, _ in stream for number in where]


def _along(axis: int, far: int) -> BlockIndex:
    x, y, z = (far if axis == other else 0 for other in range(3))
    return x, y, z


def _same_code(a: Sequence[_Entry], b: Sequence[_Entry]) -> bool:
    return len(a) == len(b) and all(
        x[0] == y[0] and len(x[1]) == len(y[1]) for x, y in zip(a, b, strict=True)
    )


def _minus(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return tuple(x - y for x, y in zip(a, b, strict=True))


class _Cache:
    """An LRU cache with a size in bytes."""

    def __init__(self, size: float) -> None:
        self._size, self._used = size, 0.0
        self._round = 0
        #: What is held, the least recently used first: its size, and the round that has brought it.
        self._held: OrderedDict[_Data, tuple[float, int]] = OrderedDict()

    def run(self, streams: Sequence[Sequence[_Entry]], loads: Loads) -> tuple[float, float, float]:
        """Run the loads of blocks side by side; returns the shares of bytes that miss, that are late, and that are late
        among the first loads.

        Instructions are weighted by their executions in a whole block.
        """
        held, sizes = self._held, loads.sizes
        # By instruction.
        missed, late, seen, timed = ([0] * len(sizes) for _ in range(4))
        half, first = min(map(len, streams)) // 2, 0.0
        for number, together in enumerate(zip(*streams, strict=False)):
            self._round += 1
            if number == 1:
                first = sum(late) / len(streams)
            if number == half:
                # The first loads of loops say little about later iterations.
                for again in {entry[0] for stream in streams for entry in stream[half:]}:
                    late[again] = timed[again] = 0
            for index, where, _ in together:
                seen[index] += 1
                timed[index] += 1
                if (known := held.get(where)) is not None:
                    late[index] += known[1] == self._round
                    held.move_to_end(where)
                    continue
                missed[index] += 1
                late[index] += 1
                if not where:
                    continue
                held[where] = sizes[index], self._round
                self._used += sizes[index]
                while self._used > self._size and held:
                    self._used -= held.popitem(last=False)[1][0]
        weights = {
            index: sizes[index] * loads.executions.get(index, 0.0)
            for index, count in enumerate(seen)
            if count
        }
        whole = sum(weights.values()) or 1.0
        share, after = (
            sum(weight * found[index] / of[index] for index, weight in weights.items()) / whole
            for found, of in ((missed, seen), (late, timed))
        )
        return share, after, first
