"""Who wrote and read each byte of a block's shared memory, and who has seen it.

Every warp and every mbarrier of a cluster is an *agent* with a clock. A warp's own clock grows when
it releases; barriers pass on what was seen before an arrival to who waits. An access is ordered
behind a write if the warp has seen the writer's clock at the write. The bytes of a TMA load belong
to the agent of its mbarrier, at the phase that they complete; bytes whose copy has not landed carry
a clock that nobody sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.simulator import codes
from tilewright.simulator.findings import Findings, note_at
from tilewright.simulator.state import NEVER

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from tilewright.numerics.arrays import Array
    from tilewright.simulator.state import Warp

Where = Any
"""A slice of bytes, or an array of byte addresses."""


class Proxy(IntEnum):
    """Through what memory was written."""

    ASYNC = 0
    GENERIC = 1
    ATOMIC = 2


@dataclass(frozen=True, slots=True)
class Site:
    """An access: who did it, where, and what kind it is of."""

    op: Operation
    who: str
    what: str


_UNTOUCHED = 0


class Shadow:
    """The history of the bytes of shared memory."""

    def __init__(self, size: int, warps: int, first_agent: int, findings: Findings):
        self.findings = findings
        self.first_agent, self.warps = first_agent, warps
        self.sites: list[Site | None] = [None]
        self._ids: dict[tuple[Any, ...], int] = {}
        self.write_agent = np.zeros(size, np.int16)
        self.write_clock = np.zeros(size, np.int64)
        self.write_site = np.zeros(size, np.int32)
        self.write_proxy = np.zeros(size, np.int8)
        self.read_clock = np.zeros((warps, size), np.int64)
        self.read_site = np.zeros((warps, size), np.int32)

    def site(self, op: Operation, who: str, what: str) -> int:
        """The number of a site."""
        key = (op, who, what)
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self.sites)
            self.sites.append(Site(op, who, what))
        return found

    def read(self, where: Where, warp: Warp, op: Operation, what: str) -> None:
        """An ordinary read by a warp of this block."""
        self.check_read(where, warp, op, what)
        row = warp.agent - self.first_agent
        self.read_clock[row, where] = warp.clock[warp.agent]
        self.read_site[row, where] = self.site(op, warp.name(), what)

    def write(
        self,
        where: Where,
        warp: Warp,
        op: Operation,
        what: str,
        proxy: Proxy = Proxy.GENERIC,
    ) -> None:
        """An ordinary write by a warp."""
        self.check_write(where, warp, op, what, proxy)
        self.stamp(where, warp.agent, int(warp.clock[warp.agent]), op, warp.name(), what, proxy)

    def stamp(
        self,
        where: Where,
        agent: int,
        clock: int,
        op: Operation,
        who: str,
        what: str,
        proxy: Proxy,
    ) -> None:
        """These bytes were written by an agent at its clock."""
        self.write_agent[where] = agent
        self.write_clock[where] = clock
        self.write_site[where] = self.site(op, who, what)
        self.write_proxy[where] = proxy

    def reading(self, where: Where, warp: Warp, number: int, op: Operation, what: str) -> None:
        """An asynchronous operation of the warp, with that number, begins to read."""
        row = warp.agent - self.first_agent
        self.read_clock[row, where] = NEVER + number
        self.read_site[row, where] = self.site(op, warp.name(), what)

    def read_done(self, where: Where, warp: Warp, number: int) -> None:
        """That operation has ended, and the warp knows."""
        row = warp.agent - self.first_agent
        clocks = self.read_clock[row, where]
        self.read_clock[row, where] = np.where(
            clocks == NEVER + number, warp.clock[warp.agent], clocks
        )

    def check_read(
        self, where: Where, warp: Warp, op: Operation, what: str, proxy: Proxy = Proxy.GENERIC
    ) -> None:
        """Report writes that are not ordered before a read by the warp, or not fenced."""
        agents, clocks = self.write_agent[where], self.write_clock[where]
        bad = warp.clock[agents] < clocks
        if proxy is Proxy.ATOMIC:
            bad &= self.write_proxy[where] != Proxy.ATOMIC
        if bad.any():
            self._report(where, bad, warp, op, what, self.write_site[where], clocks, "wrote")
        elif (untouched := self.write_site[where] == _UNTOUCHED).any():
            self.findings.add(
                codes.UNINITIALIZED,
                f"{warp.name()} reads {self._range(where, untouched)}, which nobody has written",
                op,
            )
        elif proxy is Proxy.ASYNC:
            self._check_fence(where, warp, op, what)

    def _check_fence(self, where: Where, warp: Warp, op: Operation, what: str) -> None:
        agents, clocks = self.write_agent[where], self.write_clock[where]
        generic = self.write_proxy[where] != Proxy.ASYNC
        bad = generic & (warp.fenced[agents] < clocks) & (self.write_site[where] != _UNTOUCHED)
        if bad.any():
            site = self._first_site(self.write_site[where], bad)
            assert site is not None
            self.findings.add(
                codes.PROXY_FENCE,
                f"{op.name} of {warp.name()} {what} {self._range(where, bad)} through the async "
                f"proxy; {site.who} wrote it through the generic proxy, without a proxy fence "
                "between",
                op,
                other=site.op,
                notes=[note_at(f"{site.who}: {site.what} here", site.op)],
                help="execute nvvm.fence.proxy behind the write, then a barrier",
            )

    def check_write(
        self, where: Where, warp: Warp, op: Operation, what: str, proxy: Proxy = Proxy.GENERIC
    ) -> None:
        """Report accesses that are not ordered before a write by the warp."""
        agents, clocks = self.write_agent[where], self.write_clock[where]
        bad = warp.clock[agents] < clocks
        if proxy is Proxy.ATOMIC:
            bad &= self.write_proxy[where] != Proxy.ATOMIC
        if bad.any():
            self._report(where, bad, warp, op, what, self.write_site[where], clocks, "wrote")
            return
        seen = warp.clock[self.first_agent : self.first_agent + self.warps]
        unread = self.read_clock[:, where] > seen[:, None]
        if proxy is Proxy.ATOMIC and unread.any():
            # Other atomic updates read, too.
            unread &= (self.write_proxy[where] != Proxy.ATOMIC)[None, :]
        if unread.any():
            row = int(unread.any(axis=1).argmax())
            bad, sites = unread[row], self.read_site[row, where]
            self._report(where, bad, warp, op, what, sites, self.read_clock[row, where], "reads")
        elif proxy is Proxy.ASYNC:
            self._check_fence(where, warp, op, what)

    def _report(
        self,
        where: Where,
        bad: Array,
        warp: Warp,
        op: Operation,
        what: str,
        sites: Array,
        clocks: Array,
        verb: str,
    ) -> None:
        site = self._first_site(sites, bad)
        assert site is not None
        place = self._range(where, bad)
        is_under_way = bool(clocks[bad].max() >= NEVER)
        code, why, help = _judge(site, is_under_way, verb)
        self.findings.add(
            code,
            f"{op.name} of {warp.name()} {what} {place} {why}",
            op,
            other=site.op,
            notes=[note_at(f"{site.who}: {site.what} here", site.op)],
            help=help,
        )

    def _first_site(self, sites: Array, bad: Array) -> Site | None:
        return self.sites[int(sites[bad.argmax()])]

    @staticmethod
    def _range(where: Where, bad: Array) -> str:
        if isinstance(where, slice):
            found = np.flatnonzero(bad) + where.start
        else:
            found = np.asarray(where)[bad]
        return f"shared bytes {int(found.min())} to {int(found.max())}"


def _judge(site: Site, is_under_way: bool, verb: str) -> tuple[str, str, str]:
    """The code, what is missing, and what helps."""
    if site.what.startswith("cp.async") and is_under_way:
        return (
            codes.UNWAITED_COPY,
            f"before {site.who} has waited for the cp.async that writes it",
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
            f"while a product of {site.who} still reads it",
            "wait for the product's group before the memory is used again",
        )
    return (
        codes.RACE,
        f"which {site.who} {verb}, and nothing orders the two",
        "put a barrier between the two accesses",
    )
