"""The access history of each byte of a block's shared memory: who wrote and read it, and to whom that is visible.

Every warp and every mbarrier of a cluster is a thread of execution, with an entry in the vector clocks. A warp's own
clock advances when it releases; barriers pass what was visible before an arrival on to the waiters. An access is
ordered after a write if the warp has seen the writer's clock at the write. The bytes of a TMA load belong to its
mbarrier, at the phase that they complete; bytes of copies in flight have a clock that no thread has seen.

Each byte has stamps: one of the last write, and one of each warp's last read. A stamp packs a clock, the number of a
thread of execution, and that of a site, which describes the access. Bytes that were only ever accessed together share
their stamps: a *granule* has 16 bytes until an access begins or ends inside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.faults import DiagnosticCollector, OneByOne, note_at
from tilewright.simulator.state import NEVER, Warp

if TYPE_CHECKING:
    from tilewright.simulator.groups import Group


@dataclass(frozen=True, slots=True, eq=False)
class Bytes:
    """``size`` bytes at each address of ``first``; both are multiples of ``aligned``."""

    first: Array
    size: int
    aligned: int


Where = Any
"""A slice of bytes, ``Bytes``, or an array of byte addresses."""


class Proxy(IntEnum):
    """The proxy of a write."""

    ASYNC = 0
    GENERIC = 1
    ATOMIC = 2


@dataclass(frozen=True, slots=True)
class Site:
    """A kind of access: the operation and a verb. ``who`` is None for the warp that executes it."""

    op: Operation
    what: str
    who: str | None


_ASYNC = int(Proxy.ASYNC)
_LARGEST_GRANULE = 16
#: The bits of a stamp below the clock.
_LOW_BITS = 32
_LOW = (1 << _LOW_BITS) - 1
_LAST = np.iinfo(np.int64).max


class Shadow:
    """The access history of a block's shared memory.

    ``clock_entries`` are those of its cluster; the ``warps`` of the block start at ``first_clock_index``.
    """

    def __init__(
        self,
        size: int,
        warps: int,
        first_clock_index: int,
        clock_entries: int,
        collector: DiagnosticCollector,
    ):
        self.collector = collector
        self.first_clock_index, self.warps = first_clock_index, warps
        self.sites: list[Site] = []
        self._ids: dict[tuple[Any, ...], int] = {}
        self._proxies = np.zeros(64, np.int8)
        # An index beyond the clock entries stands for the writer of bytes that nobody has written.
        self._nobody = clock_entries
        self._index_bits = clock_entries.bit_length()
        self._index_mask = (1 << self._index_bits) - 1
        self._by_clock_index: dict[int, Warp] = {}
        self._limits: dict[Any, tuple[int, Array]] = {}
        self.granule = _LARGEST_GRANULE
        self._shift = _LARGEST_GRANULE.bit_length() - 1
        granules = -(-size // _LARGEST_GRANULE)
        self.writes = np.full(granules, self._nobody, np.int64)
        self.reads = np.zeros((warps, granules), np.int64)

    def _site(self, op: Operation, what: str, who: str | None, proxy: Proxy) -> int:
        """The bits of a site in a stamp, registered on first use."""
        key = id(op), what, who, proxy
        found = self._ids.get(key)
        if found is None:
            number = len(self.sites)
            self.sites.append(Site(op, what, who))
            if number == self._proxies.size:
                self._proxies = np.concatenate((self._proxies, np.zeros_like(self._proxies)))
            self._proxies[number] = proxy
            found = self._ids[key] = number << self._index_bits
            assert found >> _LOW_BITS == 0
        return found

    def _stamp(self, warp: Warp, op: Operation, what: str, proxy: Proxy) -> int:
        """The stamp of an access of the warp at this time."""
        self._by_clock_index[warp.clock_index] = warp
        clock = int(warp.clock[warp.clock_index])
        return clock << _LOW_BITS | self._site(op, what, None, proxy) | warp.clock_index

    def _proxies_of(self, stamps: Array) -> Array:
        return self._proxies[(stamps & _LOW) >> self._index_bits]

    def granules(self, where: Where) -> Any:
        """The granules of these bytes, as a slice or a flat array of numbers."""
        if type(where) is slice:
            if (where.start | where.stop) & (self.granule - 1):
                self._refine(where.start | where.stop)
            return slice(where.start >> self._shift, where.stop >> self._shift)
        if not isinstance(where, Bytes):
            where = Bytes(np.asarray(where), 1, 1)
        first = where.first.reshape(-1)
        if where.aligned & (self.granule - 1):
            bits = int(np.bitwise_or.reduce(first, initial=where.size))
            if bits & (self.granule - 1):
                self._refine(bits)
        index = first >> self._shift
        count = where.size >> self._shift
        return index if count == 1 else (index[:, None] + _COUNTS[:count]).reshape(-1)

    def _refine(self, bits: int) -> None:
        """Split granules so that addresses with these bits are on their boundaries."""
        finer = bits & -bits
        factor = self.granule // finer
        self.granule, self._shift = finer, finer.bit_length() - 1
        self.writes = np.repeat(self.writes, factor)
        self.reads = np.repeat(self.reads, factor, axis=1)

    # Accesses of one warp.

    def read(self, where: Where, warp: Warp, op: Operation, what: str) -> None:
        """A generic read by a warp of this block: check and record it."""
        index = self.granules(where)
        self._check_read(index, warp, op, what, Proxy.GENERIC)
        stamp = self._stamp(warp, op, what, Proxy.GENERIC)
        self.reads[warp.clock_index - self.first_clock_index][index] = stamp

    def write(
        self,
        where: Where,
        warp: Warp,
        op: Operation,
        what: str,
        proxy: Proxy = Proxy.GENERIC,
    ) -> None:
        """A write by a warp: check and record it."""
        index = self.granules(where)
        self._check_write(index, warp, op, what, proxy)
        self.writes[index] = self._stamp(warp, op, what, proxy)

    def stamp(
        self,
        where: Where,
        clock_index: int,
        clock: int,
        op: Operation,
        who: str,
        what: str,
        proxy: Proxy,
    ) -> None:
        """Record a write by any thread of execution, at its clock."""
        site = self._site(op, what, who, proxy)
        self.writes[self.granules(where)] = clock << _LOW_BITS | site | clock_index

    def reading(self, where: Where, warp: Warp, number: int, op: Operation, what: str) -> None:
        """Record that asynchronous operation ``number`` of the warp starts to read."""
        site = self._site(op, what, warp.name(), Proxy.ASYNC)
        stamp = (NEVER + number) << _LOW_BITS | site | warp.clock_index
        self.reads[warp.clock_index - self.first_clock_index][self.granules(where)] = stamp

    def read_done(self, where: Where, warp: Warp, number: int) -> None:
        """Record that the warp knows of the end of that operation."""
        index = self.granules(where)
        own = self.reads[warp.clock_index - self.first_clock_index]
        stamps = own[index]
        ended = warp.clock[warp.clock_index] << _LOW_BITS | stamps & _LOW
        own[index] = np.where(stamps >> _LOW_BITS == NEVER + number, ended, stamps)

    def check_read(
        self, where: Where, warp: Warp, op: Operation, what: str, proxy: Proxy = Proxy.GENERIC
    ) -> None:
        """Report writes that do not happen before a read by the warp, or lack a fence."""
        self._check_read(self.granules(where), warp, op, what, proxy)

    def check_write(
        self, where: Where, warp: Warp, op: Operation, what: str, proxy: Proxy = Proxy.GENERIC
    ) -> None:
        """Report accesses that do not happen before a write by the warp."""
        self._check_write(self.granules(where), warp, op, what, proxy)

    def _check_read(self, index: Any, warp: Warp, op: Operation, what: str, proxy: Proxy) -> None:
        stamps = self.writes[index]
        late = stamps >= self._writes_seen(warp, 0)[stamps & self._index_mask]
        if np.count_nonzero(late):
            untouched = stamps == self._nobody
            bad = late & ~untouched
            if proxy is Proxy.ATOMIC:
                bad &= self._proxies_of(stamps) != Proxy.ATOMIC
            if bad.any():
                self._report(index, bad, warp, op, what, stamps, "wrote")
                return
            if untouched.any():
                self.collector.add(
                    codes.UNINITIALIZED,
                    f"{warp.name()} reads {self._range(index, untouched)}, which is uninitialized",
                    op,
                )
                return
        if proxy is Proxy.ASYNC:
            self._check_fence(index, stamps, warp, op, what)

    def _check_fence(self, index: Any, stamps: Array, warp: Warp, op: Operation, what: str) -> None:
        generic = (stamps != self._nobody) & (self._proxies_of(stamps) != _ASYNC)
        if not np.count_nonzero(generic):
            return
        fenced = warp.fenced.take(stamps & self._index_mask, mode="clip")
        bad = generic & (fenced < stamps >> _LOW_BITS)
        if bad.any():
            site, who = self._first_site(stamps, bad)
            self.collector.add(
                codes.PROXY_FENCE,
                f"{op.name} of {warp.name()} {what} {self._range(index, bad)} through the async "
                f"proxy; {who} wrote it through the generic proxy, without a proxy fence "
                "between",
                op,
                other=site.op,
                notes=[note_at(f"{who}: {site.what} here", site.op)],
                help="execute nvvm.fence.proxy after the write, then a barrier",
            )

    def _check_write(self, index: Any, warp: Warp, op: Operation, what: str, proxy: Proxy) -> None:
        stamps = self.writes[index]
        bad = stamps >= self._writes_seen(warp, _LAST)[stamps & self._index_mask]
        if np.count_nonzero(bad):
            if proxy is Proxy.ATOMIC:
                bad &= self._proxies_of(stamps) != Proxy.ATOMIC
            if bad.any():
                self._report(index, bad, warp, op, what, stamps, "wrote")
                return
        is_slice = isinstance(index, slice)
        reads = self.reads[:, index] if is_slice else self.reads.take(index, axis=1)
        unread = reads >= self._reads_seen(warp)[:, None]
        if np.count_nonzero(unread):
            if proxy is Proxy.ATOMIC:
                # Other atomic updates have also read.
                unread &= (self._proxies_of(stamps) != Proxy.ATOMIC)[None, :]
            if unread.any():
                row = int(unread.any(axis=1).argmax())
                stamps = self.reads[row][index]
                self._report(index, unread[row], warp, op, what, stamps, "reads")
                return
        if proxy is Proxy.ASYNC:
            self._check_fence(index, stamps, warp, op, what)

    def _writes_seen(self, warp: Warp, untouched: int) -> Array:
        """For each thread of execution, the smallest stamp of its writes that the warp has not seen.

        ``untouched`` is the limit for bytes that nobody has written: 0 to include them, else ``_LAST``.
        """
        key = warp.clock_index, untouched
        found = self._limits.get(key)
        if found is None or found[0] != warp.version:
            limits = np.append((warp.clock + 1) << _LOW_BITS, untouched)
            found = self._limits[key] = warp.version, limits
        return found[1]

    def _reads_seen(self, warp: Warp) -> Array:
        """For each warp of the block, the smallest stamp of its reads that the warp has not seen."""
        key = warp.clock_index, "reads"
        found = self._limits.get(key)
        if found is None or found[0] != warp.version:
            clocks = warp.clock[self.first_clock_index : self.first_clock_index + self.warps]
            found = self._limits[key] = warp.version, (clocks + 1) << _LOW_BITS
        return found[1]

    # Accesses of all warps of a group at once.

    def read_together(
        self, where: Where, group: Group, op: Operation, what: str, owners: Array | None = None
    ) -> None:
        """Generic reads by the warps of a group.

        ``owners`` is the group member of each address; None if all members read the same number of bytes, in order.
        Raises ``OneByOne`` if there is something to report, before anything is recorded.
        """
        index, own = self._shares(where, group, owners)
        stamps = self.writes[index]
        limits = self._together_seen(group, 0)
        if np.count_nonzero(stamps >= limits[own, stamps & self._index_mask]):
            raise OneByOne
        self.reads[group.rows[own], index] = self._stamps(group, op, what)[own]

    def write_together(
        self,
        where: Where,
        group: Group,
        op: Operation,
        what: str,
        owners: Array | None = None,
        *,
        finished: bool = True,
    ) -> None:
        """Writes by the warps of a group, as ``read_together``. If not ``finished``, they are visible to no thread.

        Raises ``OneByOne``, with nothing changed, where warps must be checked one after the other: on what may be a
        race, and where two write the same bytes.
        """
        index, own = self._shares(where, group, owners)
        before = self.writes[index]
        limits = self._together_seen(group, _LAST)
        if np.count_nonzero(before >= limits[own, before & self._index_mask]):
            raise OneByOne
        reads = self.reads.take(index, axis=1)
        if np.count_nonzero(reads >= self._together_reads(group)[:, own]):
            raise OneByOne
        stamps = self._stamps(group, op, what)[own]
        if not finished:
            stamps = NEVER << _LOW_BITS | stamps & _LOW
        self.writes[index] = stamps
        if np.count_nonzero(self.writes[index] != stamps):
            # Two warps write the same bytes.
            self.writes[index] = before
            raise OneByOne

    def _shares(self, where: Where, group: Group, owners: Array | None) -> tuple[Array, Array]:
        """Granules, and the group members that own them, in shapes that broadcast."""
        index = self.granules(where)
        if owners is None:
            count = len(group.members)
            return index.reshape(count, -1), _COUNTS[:count, None]
        each = index.size // max(owners.size, 1)
        return index, owners if each == 1 else owners.repeat(each)

    def _together_seen(self, group: Group, untouched: int) -> Array:
        """The limits of writes for each warp: warps of the group x clock entries."""
        key, version = (group.clock_indices, untouched), group.clock_version()
        found = self._limits.get(key)
        if found is None or found[0] != version:
            limits = np.stack([self._writes_seen(m, untouched) for m in group.members])
            found = self._limits[key] = version, limits
        return found[1]

    def _together_reads(self, group: Group) -> Array:
        """The limits of reads, as warps of the block x warps of the group."""
        key, version = (group.clock_indices, "reads"), group.clock_version()
        found = self._limits.get(key)
        if found is None or found[0] != version:
            limits = np.stack([self._reads_seen(m) for m in group.members], axis=1)
            found = self._limits[key] = version, limits
        return found[1]

    def _stamps(self, group: Group, op: Operation, what: str) -> Array:
        """The stamps of a generic access by each warp."""
        key, version = (group.clock_indices, "stamps"), group.clock_version()
        found = self._limits.get(key)
        if found is None or found[0] != version:
            self._by_clock_index.update((m.clock_index, m) for m in group.members)
            own = [int(m.clock[m.clock_index]) << _LOW_BITS | m.clock_index for m in group.members]
            found = self._limits[key] = version, np.array(own)
        return found[1] + self._site(op, what, None, Proxy.GENERIC)

    # Diagnostics.

    def _report(
        self,
        index: Any,
        bad: Array,
        warp: Warp,
        op: Operation,
        what: str,
        stamps: Array,
        verb: str,
    ) -> None:
        site, who = self._first_site(stamps, bad)
        place = self._range(index, bad)
        is_under_way = bool(stamps[bad].max() >> _LOW_BITS >= NEVER)
        code, why, help = _judge(site, who, is_under_way, verb)
        self.collector.add(
            code,
            f"{op.name} of {warp.name()} {what} {place} {why}",
            op,
            other=site.op,
            notes=[note_at(f"{who}: {site.what} here", site.op)],
            help=help,
        )

    def _first_site(self, stamps: Array, bad: Array) -> tuple[Site, str]:
        """The site of the first bad stamp, and the name of its thread of execution."""
        low = int(stamps[bad.argmax()]) & _LOW
        site = self.sites[low >> self._index_bits]
        return site, site.who or self._by_clock_index[low & self._index_mask].name()

    def _range(self, index: Any, bad: Array) -> str:
        if isinstance(index, slice):
            found = np.flatnonzero(bad) + index.start
        else:
            found = index[bad]
        first, last = int(found.min()), int(found.max())
        return f"shared bytes {first * self.granule} to {(last + 1) * self.granule - 1}"


_COUNTS = np.arange(1 << 16)


def _judge(site: Site, who: str, is_under_way: bool, verb: str) -> tuple[str, str, str]:
    """The code of a conflict, what is missing, and a remedy."""
    if site.what.startswith("cp.async") and is_under_way:
        return (
            codes.UNWAITED_COPY,
            f"before {who} has waited for the cp.async that writes it",
            "wait for the group of the copy, then pass a barrier of the block",
        )
    if site.what.startswith("TMA load"):
        return (
            codes.UNWAITED_COPY,
            f"before it has waited for the {site.what}",
            "wait for that phase of the barrier (try_wait.parity) before the access",
        )
    if site.what.startswith("TMA store"):
        return (
            codes.UNWAITED_COPY,
            "while a TMA store still reads it",
            "commit the store's group, wait for it with `read`, and pass a barrier",
        )
    if site.what.startswith("wgmma"):
        return (
            codes.UNWAITED_PRODUCT,
            f"while a product of {who} still reads it",
            "wait for the product's group before the memory is used again",
        )
    return (
        codes.RACE,
        f"which {who} {verb}, unordered",
        "put a barrier between the two accesses",
    )
