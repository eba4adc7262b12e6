"""Scans: within registers, then across lanes by shuffles, then across warps through shared memory.

Each thread first scans the lowest bits of the coordinate that lie in its registers. The totals are scanned in turn, one run
of bits with the same home (register, lane or warp) at a time. From the first bit that selects a warp on, threads exchange the totals of their parts
through shared memory, once. Finally each element is combined with everything before its part. Elements keep their
order, and no identity takes part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import builtin as b
from xdsl.dialects.arith import AddiOp, AndIOp, OrIOp, ShLIOp, ShRUIOp, SubiOp, XOrIOp
from xdsl.ir import SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.contraction import ScanOp
from tilewright.layouts import Layout
from tilewright.layouts.reductions import IndexBit, index_bits_along, leading, totals_layout
from tilewright.lowering.nvgpu.reductions import combine
from tilewright.lowering.nvgpu.types import I1
from tilewright.lowering.scheduled.conversions import converted_together
from tilewright.lowering.scheduled.shuffles import Mode, from_lanes
from tilewright.lowering.scheduled.state import ScheduledKernel
from tilewright.lowering.scheduled.table import lowers

Carried: TypeAlias = tuple[list[SSAValue], SSAValue]
"""What comes before each part, and whether something does."""


@lowers("scan")
def scan(low: ScheduledKernel, op: ScanOp) -> None:
    """Within registers, lanes and warps in turn, in the order of the elements."""
    found = _Scan(low, op).results()
    for result, value in zip(op.results, found, strict=True):
        low.bind(result, value)


@dataclass(frozen=True, slots=True)
class _Scan:
    low: ScheduledKernel
    op: ScanOp

    @property
    def backwards(self) -> bool:
        return is_set(self.op, "reverse")

    @property
    def layout(self) -> Layout:
        return self.low.layout_of(self.op.operands[0].type)

    def ordered(self, count: int) -> range:
        """The numbers of parts in the order of the scan."""
        return range(count - 1, -1, -1) if self.backwards else range(count)

    def combined(self, later: Sequence[SSAValue], earlier: Sequence[SSAValue]) -> list[SSAValue]:
        return combine(self.low, self.op, later, earlier)

    def chosen(
        self, condition: SSAValue, yes: Sequence[SSAValue], no: Sequence[SSAValue]
    ) -> list[SSAValue]:
        low = self.low
        return [low.select(condition, one, other) for one, other in zip(yes, no, strict=True)]

    def results(self) -> list[SSAValue]:
        low, op = self.low, self.op
        dims, axis = T.dims_of(op.operands[0].type), int_property(op, "axis")
        places = index_bits_along(self.layout, dims, axis)
        if places is None:
            raise low.refuse("its layout mixes bits of the axis")
        own = leading(places, "register")
        registers = list(range(len(self.layout.register)))
        rows = [_parted(low, value, registers, own) for value in low.values(op.operands)]
        before: list[SSAValue] | None = None
        for number in self.ordered(1 << len(own)):
            if before is not None:
                before = self.combined([row[number] for row in rows], before)
                for row, value in zip(rows, before, strict=True):
                    row[number] = value
            else:
                before = [row[number] for row in rows]
        assert before is not None
        values = [_whole(low, row, registers, own) for row in rows]
        carried = self.carried(before, places[len(own) :], _without(registers, own))
        if carried is None:
            return values
        parts, condition = carried
        copies = 1 << len(own)
        parts = [_whole(low, [part] * copies, registers, own) for part in parts]
        condition = _whole(low, [condition] * copies, registers, own)
        return self.chosen(condition, self.combined(values, parts), values)

    def carried(
        self, totals: list[SSAValue], places: Sequence[IndexBit], registers: Sequence[int]
    ) -> Carried | None:
        """What comes before each part along the axis; ``places`` tell the parts apart, and ``registers``
        are the bits of the vectors' places."""
        if not places:
            return None
        if places[0].kind == "warp":
            return self.over_warps(totals, places, registers)
        low = self.low
        run = leading(places, places[0].kind)
        above = places[len(run) :]
        if run[0].kind == "lane":
            inner = self.over_lanes(totals, run)
            last = inner[2]
            if above and above[0].kind == "register":
                last = self.last_lane(last, run)
            outer = self.carried(last, above, registers)
        else:
            inner = self.over_registers(totals, run, registers)
            outer = self.carried(inner[2], above, _without(registers, run))
            if outer is not None:
                parts, condition = outer
                copies = 1 << len(run)
                outer = (
                    [_whole(low, [part] * copies, registers, run) for part in parts],
                    _whole(low, [condition] * copies, registers, run),
                )
        near, some_near, _ = inner
        if outer is None:
            return near, some_near
        far, some_far = outer
        both = self.chosen(some_far, self.combined(near, far), near)
        return self.chosen(some_near, both, far), low.binary(OrIOp, some_near, some_far)

    def over_registers(
        self, totals: list[SSAValue], run: Sequence[IndexBit], registers: Sequence[int]
    ) -> tuple[list[SSAValue], SSAValue, list[SSAValue]]:
        """What comes before each part, whether something does, and what all come to."""
        low = self.low
        rows = [_parted(low, total, registers, run) for total in totals]
        count = len(rows[0])
        width = rows[0][0].type.get_shape()[0]  # pyright: ignore[reportAttributeAccessIssue]
        before: list[list[SSAValue]] = [[] for _ in range(count)]
        some: list[SSAValue] = [low.constant(1, b.VectorType(I1, [width]))] * count
        so_far: list[SSAValue] | None = None
        for number in self.ordered(count):
            mine = [row[number] for row in rows]
            if so_far is None:
                before[number], so_far = mine, mine
                some[number] = low.constant(0, b.VectorType(I1, [width]))
            else:
                before[number], so_far = so_far, self.combined(mine, so_far)
        assert so_far is not None
        found = [
            _whole(low, [parts[at] for parts in before], registers, run)
            for at in range(len(totals))
        ]
        return found, _whole(low, some, registers, run), so_far

    def over_lanes(
        self, totals: list[SSAValue], run: Sequence[IndexBit]
    ) -> tuple[list[SSAValue], SSAValue, list[SSAValue]]:
        """What comes before each lane, whether something does, and what comes up to each lane."""
        low = self.low
        width = totals[0].type.get_shape()[0]  # pyright: ignore[reportAttributeAccessIssue]
        targets = [0] * len(self.layout.thread)
        for at, place in enumerate(run):
            targets[place.bit] = 1 << at
        number = low.thread_part(targets)
        with low.building(low.prologue):
            passed = low.binary(XOrIOp, number, (1 << len(run)) - 1) if self.backwards else number
        for at in range(len(run)):
            follows = low.splat(self.reaches(passed, 1 << at), width)
            others = [self.lane_before(total, run, number, 1 << at) for total in totals]
            totals = self.chosen(follows, self.combined(totals, others), totals)
        before = [self.lane_before(total, run, number, 1) for total in totals]
        return before, low.splat(self.reaches(passed, 1), width), totals

    def reaches(self, passed: SSAValue, distance: int) -> SSAValue:
        with self.low.building(self.low.prologue):
            return self.low.compare("uge", passed, distance)

    def lane_before(
        self, value: SSAValue, run: Sequence[IndexBit], number: SSAValue, distance: int
    ) -> SSAValue:
        """The value of the lane so far before this one, which is that ``number`` along the axis."""
        low = self.low
        if all(place.bit == run[0].bit + at for at, place in enumerate(run)):
            mode = Mode.DOWN if self.backwards else Mode.UP
            return from_lanes(low, value, mode, distance << run[0].bit)
        with low.building(low.prologue):
            kind = AddiOp if self.backwards else SubiOp
            moved = low.binary(kind, number, distance)
            mask = sum(1 << place.bit for place in run)
            lane = low.binary(AndIOp, low.thread(), ~mask & 31)
            for at, place in enumerate(run):
                bit = low.binary(AndIOp, low.binary(ShRUIOp, moved, at), 1)
                lane = low.binary(OrIOp, lane, low.binary(ShLIOp, bit, place.bit))
        return from_lanes(low, value, Mode.IDX, lane)

    def last_lane(self, values: Sequence[SSAValue], run: Sequence[IndexBit]) -> list[SSAValue]:
        """What the last lane along the axis has."""
        low, mask = self.low, sum(1 << place.bit for place in run)
        with low.building(low.prologue):
            lane = low.binary(AndIOp, low.thread(), ~mask & 31)
            if not self.backwards:
                lane = low.binary(OrIOp, lane, mask)
        return [from_lanes(low, value, Mode.IDX, lane) for value in values]

    def over_warps(
        self, totals: list[SSAValue], places: Sequence[IndexBit], registers: Sequence[int]
    ) -> Carried:
        """Each thread reads what all parts come to, and combines them as far as its own one."""
        low, op = self.low, self.op
        dims, axis = T.dims_of(op.operands[0].type), int_property(op, "axis")
        own, everything = totals_layout(self.layout, dims, axis, places)
        whole = index_bits_along(self.layout, dims, axis)
        assert whole is not None
        below = [place.bit for place in whole[: -len(places)] if place.kind == "lane"]
        last = 0 if self.backwards else sum(1 << bit for bit in below)
        read = converted_together(low, totals, own, everything, last)
        count = 1 << len(places)
        width = everything.registers // count
        parts = [list(row) for row in zip(*(low.cut(value, width) for value in read), strict=True)]
        return self.up_to_mine(parts, places, registers)

    def up_to_mine(
        self, parts: Sequence[list[SSAValue]], places: Sequence[IndexBit], registers: Sequence[int]
    ) -> Carried:
        """From all parts along the axis what comes before each of the thread's own ones."""
        low = self.low
        inside = [place for place in places if place.kind == "register"]
        in_thread = sum(1 << at for at, place in enumerate(places) if place.kind != "register")
        targets = [0] * len(self.layout.thread)
        for at, place in enumerate(places):
            if place.kind != "register":
                targets[place.bit + (5 if place.kind == "warp" else 0)] = 1 << at
        mine = low.thread_part(targets)
        width = parts[0][0].type.get_shape()[0]  # pyright: ignore[reportAttributeAccessIssue]
        rows: dict[int, list[SSAValue]] = {}
        so_far: list[SSAValue] | None = None
        first, *others = self.ordered(len(parts))
        for before, number in zip((first, *others), others, strict=False):
            part = parts[before]
            so_far = part if so_far is None else self.combined(part, so_far)
            row = number & ~in_thread
            if row in rows:
                here = low.splat(self.is_part(mine, number & in_thread), width)
                rows[row] = self.chosen(here, so_far, rows[row])
            else:
                rows[row] = so_far
        order = [
            sum(1 << places.index(place) for at, place in enumerate(inside) if number >> at & 1)
            for number in range(1 << len(inside))
        ]
        yes = low.constant(1, b.VectorType(I1, [width]))
        some = [yes] * len(order)
        with low.building(low.prologue):
            at_first = self.is_part(mine, first & in_thread)
            some[order.index(first & ~in_thread)] = low.splat(
                low.binary(XOrIOp, at_first, 1), width
            )
        found = [
            _whole(low, [rows[row][at] for row in order], registers, inside)
            for at in range(len(parts[0]))
        ]
        return found, _whole(low, some, registers, inside)

    def is_part(self, mine: SSAValue, number: int) -> SSAValue:
        with self.low.building(self.low.prologue):
            return self.low.compare("eq", mine, number)


def _without(registers: Sequence[int], places: Sequence[IndexBit]) -> list[int]:
    gone = [place.bit for place in places]
    return [bit for bit in registers if bit not in gone]


def _parted(
    low: ScheduledKernel, value: SSAValue, registers: Sequence[int], places: Sequence[IndexBit]
) -> list[SSAValue]:
    """For each number that ``places`` say a vector of the elements that have it. ``registers`` are the
    bits of the vector's places, in order."""
    outer = _without(registers, places)
    return [
        low.picked(
            value,
            [
                _number(registers, [place.bit for place in places], part)
                | _number(registers, outer, rest)
                for rest in range(1 << len(outer))
            ],
        )
        for part in range(1 << len(places))
    ]


def _whole(
    low: ScheduledKernel,
    parts: Sequence[SSAValue],
    registers: Sequence[int],
    places: Sequence[IndexBit],
) -> SSAValue:
    """The reverse of ``_parted``."""
    order = [*_without(registers, places), *(place.bit for place in places)]
    return low.picked(
        low.joined(parts),
        [_number(order, registers, number) for number in range(1 << len(registers))],
    )


def _number(registers: Sequence[int], bits: Sequence[int], number: int) -> int:
    """The place in a vector whose place's bits are ``registers`` where ``bits`` say ``number``."""
    return sum(1 << registers.index(bit) for at, bit in enumerate(bits) if number >> at & 1)
