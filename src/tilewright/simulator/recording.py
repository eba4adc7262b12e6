"""Records what a kernel's operations do in some blocks of a launch, to predict the time of the whole.

A recorder is passed to ``Program.simulate``. Only its blocks run, and stores to arrays that cannot be written are
dropped, so none of the caller's data changes. Long counted loops are truncated: the first iterations, one that stands
for those left out, and the last ones. The number left out is a multiple of ``period``, so that rings of barriers find
the phases they expect. What kernels compute is then wrong; the addresses they access are right, unless addresses or
branches depend on data that they compute.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from tilewright.numerics.arrays import Array
    from tilewright.simulator.state import Warp

BlockIndex = tuple[int, int, int]
SECTOR = 32
_WARP = 32
#: The number of distinct addresses of atomic updates that are recorded for an operation.
_MOST_ADDRESSES = 10_000
#: The iterations at the start and at the end of a loop that are never omitted.
_FIRST, _LAST = 3, 2


@dataclass(slots=True)
class Accesses:
    """The accesses of an operation: totals over the warps of a block.

    ``waves`` of shared memory, of which ``least_waves`` are the minimum for the data; ``sectors`` of 32 bytes of global
    memory; ``whole``, the bytes that would be accessed if all lanes were active; ``bulk``, bytes of bulk copies;
    ``updates``, atomic updates by address, in ``updating`` instructions of warps.
    """

    count: float = 0
    waves: float = 0
    least_waves: float = 0
    sectors: float = 0
    whole: float = 0
    bulk: float = 0
    updates: Counter[int] = field(default_factory=Counter[int])
    updating: float = 0

    @property
    def wave_factor(self) -> float:
        """The ratio of the waves to their minimum; 1 without bank conflicts."""
        return self.waves / self.least_waves if self.least_waves else 1.0

    @property
    def sector_factor(self) -> float:
        """The bytes of sectors per byte that full warps would access; 1 for coalesced accesses."""
        return self.sectors * SECTOR / self.whole if self.whole else 1.0


@dataclass(slots=True)
class BlockRecord:
    """The record of one block. ``turns`` (iterations) and ``entries`` of loops are totals over warps."""

    accesses: dict[Operation, Accesses] = field(default_factory=lambda: defaultdict(Accesses))
    turns: Counter[Operation] = field(default_factory=Counter)
    entries: Counter[Operation] = field(default_factory=Counter)
    complete: bool = False

    def turns_of(self, loop: Operation) -> float | None:
        """The iterations of a loop per entry; None if it was not entered."""
        return self.turns[loop] / self.entries[loop] if self.entries[loop] else None


@dataclass(slots=True, eq=False)
class Recorder:
    """Records the ``blocks`` of a launch.

    ``period``: the number of iterations omitted is a multiple of it; with 0 none are omitted. ``records`` has each
    block that was started.
    """

    blocks: Sequence[BlockIndex]
    period: int = 1
    records: dict[BlockIndex, BlockRecord] = field(default_factory=dict)
    events: int = 0
    """The number of events so far, a measure of progress that does not depend on the host's speed."""
    _now: BlockRecord = field(default_factory=BlockRecord)

    def begin(self, corner: BlockIndex) -> None:
        """Start the record of the cluster at this corner of the grid."""
        self._now = self.records[corner] = BlockRecord()

    def end(self) -> None:
        """Mark the block as complete."""
        self._now.complete = True

    # Accesses

    def shared(self, warp: Warp, op: Operation, waves: int, least: int, count: int) -> None:
        """Record an access to shared memory by ``count`` warps: its waves, and their minimum."""
        found = self._now.accesses[op]
        self.events += 1
        found.count += count * warp.weight
        found.waves += waves * warp.weight
        found.least_waves += least * warp.weight

    def bulk(self, warp: Warp, op: Operation, size: int) -> None:
        """Record a copy by the TMA unit of ``size`` bytes."""
        found = self._now.accesses[op]
        found.count += warp.weight
        found.bulk += size * warp.weight

    def updated(self, warp: Warp, op: Operation, addresses: Array) -> None:
        """Record atomic updates, of which several may be to one address."""
        found = self._now.accesses[op]
        found.updating += max(1, warp.size // _WARP) * warp.weight
        held = found.updates
        if len(held) < _MOST_ADDRESSES:
            for address, count in zip(*np.unique(addresses, return_counts=True), strict=True):
                held[int(address)] += int(count) * warp.weight  # pyright: ignore[reportArgumentType]

    def global_bytes(self, warp: Warp, op: Operation, starts: Any, size: int) -> None:
        """Record an access of ``size`` bytes at ``starts``: a number for all lanes, (lanes,) or (lanes, n)."""
        starts = np.asarray(starts)
        if not starts.ndim:
            self.global_elements(warp, op, starts.reshape(1), None, size)
            return
        each = starts.shape[1] if starts.ndim == 2 else 1
        numbers = np.arange(len(starts))
        if not warp.full and len(starts) == warp.size:
            starts, numbers = starts[warp.mask], numbers[warp.mask]
        self.global_elements(warp, op, starts.reshape(-1), numbers.repeat(each), size, each)

    def global_elements(
        self,
        warp: Warp,
        op: Operation,
        starts: Array,
        who: Array | None,
        size: int,
        each: int = 1,
    ) -> None:
        """Record an access of ``size`` bytes at each of ``starts``, up to ``each`` of them per lane.

        ``who`` is the lane of each, None for all lanes in order.
        """
        found = self._now.accesses[op]
        self.events += 1
        warps = max(1, warp.size // _WARP)
        found.count += warps * warp.weight
        found.whole += warp.size * each * size * warp.weight
        first, last = starts // SECTOR, (starts + (size - 1)) // SECTOR
        tag = 0 if who is None else (who // _WARP) << 48
        sectors = np.unique(first + tag)
        if (last != first).any():
            span = np.arange(int((last - first).max()) + 1)
            all_of = np.minimum(first[:, None] + span, last[:, None])
            sectors = np.unique(all_of + (tag if who is None else np.asarray(tag)[:, None]))
        found.sectors += sectors.size * (warps if who is None else 1) * warp.weight

    # Loops

    def enter(self, warp: Warp, op: Operation) -> None:
        """Record the start of a loop, for each warp."""
        self._now.entries[op] += len(warp.members)

    def step(self, warp: Warp, op: Operation) -> None:
        """Record an iteration of a loop."""
        self.events += 1
        self._now.turns[op] += len(warp.members) * warp.weight  # pyright: ignore[reportArgumentType]

    def turns(
        self,
        warp: Warp,
        op: Operation,
        numbers: range,
        at: int | None,
        leave_out: Callable[[int], None],
    ) -> Sequence[int]:
        """The iterations of a counted loop that run; with ``at``, the loop resumes after that one.

        ``leave_out`` is called with the number of omitted iterations at the point where they would run.
        """
        if at is None:
            self.enter(warp, op)
        count = len(numbers)
        left_out = 0
        if self.period:
            left_out = (count - _FIRST - _LAST) // self.period * self.period
        if left_out <= 0:
            return Turns(warp, numbers, [1.0] * count, at)
        kept = [*numbers[:_FIRST], *numbers[_FIRST + left_out :]]
        weights = [1.0] * len(kept)
        # The last of the first iterations represents those that are omitted.
        weights[_FIRST - 1] += left_out
        gap = _Gap(kept[_FIRST], left_out, leave_out)
        return Turns(warp, kept, weights, at, gap)


@dataclass(frozen=True, slots=True)
class _Gap:
    """Iterations that are omitted before that of value ``before``."""

    before: int
    count: int
    leave_out: Callable[[int], None]


class Turns(Sequence[int]):
    """The values of a loop variable. Iterating over them sets how many iterations each represents."""

    def __init__(
        self,
        warp: Warp,
        values: Sequence[int],
        weights: Sequence[float],
        at: int | None = None,
        gap: _Gap | None = None,
    ):
        self._warp, self._values, self._weights, self._gap = warp, values, weights, gap
        self._around = warp.weight
        if at is not None:
            self._around /= weights[values.index(at)]

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Turns: ...
    def __getitem__(self, place: int | slice) -> int | Turns:
        if isinstance(place, int):
            return self._values[place]
        rest = Turns(self._warp, self._values[place], self._weights[place], gap=self._gap)
        rest._around = self._around
        return rest

    def __iter__(self) -> Iterator[int]:
        for value, weight in zip(self._values, self._weights, strict=True):
            if self._gap is not None and value == self._gap.before:
                self._gap.leave_out(self._gap.count)
            self._warp.set_weight(self._around * weight)
            yield value
        self._warp.set_weight(self._around)
