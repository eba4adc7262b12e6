"""The band order of tile blocks that ``tileas-order-blocks`` applies.

A GPU starts blocks in grid order, first axis fastest. Where one operand of a product moves along the first axis and the
other one along the second, a row of n blocks loads n tiles of the first operand and one of the second. In bands
that are a few blocks wide along the first axis, the blocks in flight cover a rectangle and load only two of its sides. Tile blocks may run
in any order, so the pass permutes block indices: two divisions on grids that are wide enough, one comparison elsewhere.
"""

from __future__ import annotations

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.traits import is_side_effect_free

from tilewright.diagnostics import TileIRError, define_code
from tilewright.dialects import arith
from tilewright.dialects.arith.constants import scalar_value
from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp, ReturnOp
from tilewright.dialects.nv_tileaa.ops.memory import Atomic, AtomicCasOp, Load
from tilewright.dialects.nv_tileaa.ops.queues import GetNumProgramsOp, GetProgramIdOp
from tilewright.passes.tileas.decisions import WIDEST_BAND
from tilewright.passes.tileas.schedule_builder import BELOW_UNSIGNED, ScheduleBuilder

BAD_BAND = define_code(
    "bad-block-band",
    "The width of a band is 2 to 1024 blocks.",
    "A band is that many blocks wide along the first axis of the grid, and spans the second one.",
)
#: The largest extents of grids whose blocks get other places: numbers have 31 bits then.
WIDEST, LONGEST = 0x7FFF, 0xFFFF
_CONTROL = (scf.ForOp, scf.IfOp, scf.YieldOp, ReturnOp)


def check_band(band: int) -> None:
    """Raises ``TileIRError`` (``bad-block-band``) unless a band can be ``band`` blocks wide."""
    if not 2 <= band <= WIDEST_BAND:
        raise TileIRError.single(
            BAD_BAND, f"expected a band of 2 to {WIDEST_BAND} blocks, got {band}"
        )


def order_matters(func: FuncOp) -> str:
    """Why the blocks of a kernel keep the order of the grid; empty where nothing says so: they may wait for one another, tell
    something, get what others have left in memory, or have an order of their own."""
    if not func.is_kernel:
        return "it is not a kernel"
    for op in func.walk():
        if isinstance(op, GetNumProgramsOp):
            return "it reads the size of the grid and may order blocks itself"
        if isinstance(op, GetProgramIdOp) and op.program_id is not None:
            return "its blocks take over work from other blocks"
        if isinstance(op, Atomic) and _is_seen(op):
            return f"the effect or result of '{op.name}' depends on the block order"
        if isinstance(op, Access):
            if isinstance(op, Load) and not op.is_weak:
                return f"its blocks may wait for each other at '{op.name}'"
        elif op is not func and not isinstance(op, _CONTROL) and not is_side_effect_free(op):
            return f"'{op.name}' may observe the block order"
    return ""


def _is_seen(op: Atomic) -> bool:
    """Whether one can see in which order an atomic operation was done, but by how sums are rounded."""
    exchanges = isinstance(op, AtomicCasOp) or enum_property(op, "rmw_mode") == "xchg"
    return exchanges or op.results[0].first_use is not None


def order_blocks(func: FuncOp, band: int, limit: int = 0) -> bool:
    """Give the blocks of a kernel places in bands, on grids with more than ``limit`` blocks along the first axis; whether it
    asks for its place along one of the first two axes, so that there is anything to do."""
    asked = [op for op in func.walk() if isinstance(op, GetProgramIdOp) and _axis(op) < 2]
    if not asked:
        return False
    first = func.body.block.first_op
    assert first is not None
    places = _Places(ScheduleBuilder(InsertPoint.before(first), asked[0]), band, max(band, limit))
    for axis, value in enumerate(places.made()):
        value.name_hint = "xy"[axis]
        for op in asked:
            if _axis(op) == axis:
                op.result.replace_all_uses_with(value)
    for op in asked:
        op.detach()
        op.erase()
    return True


def _axis(op: GetProgramIdOp) -> int:
    return int_property(op, "axis")


class _Places:
    """Writes the code that computes the place of a block in bands."""

    def __init__(self, builder: ScheduleBuilder, band: int, limit: int):
        self._at, self._band, self._limit = builder, band, limit
        self._flags = arith.overflow_attr("no_wrap")

    def made(self) -> tuple[SSAValue, SSAValue]:
        x, y = (self._asked(GetProgramIdOp, axis) for axis in (0, 1))
        across, along = (self._asked(GetNumProgramsOp, axis) for axis in (0, 1))
        above = self._sum(arith.SubiOp, across, self._number(self._limit + 1), wraps=True)
        is_wide = self._below(above, self._number(max(WIDEST - self._limit, 0)))
        is_short = self._below(along, self._number(LONGEST + 1))
        outer = self._at
        yes, no = Block(), Block()
        self._at = ScheduleBuilder(InsertPoint.at_end(yes), outer.origin)
        self._end(self._in_bands(x, y, across, along))
        self._at = ScheduleBuilder(InsertPoint.at_end(no), outer.origin)
        self._end((x, y))
        self._at = outer
        condition = outer.one(arith.AndIOp, (is_wide, is_short), b.i1)
        chosen = outer.add(scf.IfOp(condition, [b.i32, b.i32], Region(yes), Region(no)))
        return chosen.results[0], chosen.results[1]

    def _in_bands(
        self, x: SSAValue, y: SSAValue, across: SSAValue, along: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """The place of a block along both axes: the number of its band, and its place there, row by row."""
        band = self._number(self._band)
        number = self._sum(arith.AddiOp, self._sum(arith.MuliOp, y, across), x)
        size = self._sum(arith.MuliOp, band, along)
        which = self._at.one(arith.DivUIOp, (number, size), b.i32)
        inside = self._at.one(arith.RemUIOp, (number, size), b.i32)
        start = self._sum(arith.MuliOp, which, band)
        # The last band may be narrower.
        width = self._at.one(arith.MinUIOp, (self._sum(arith.SubiOp, across, start), band), b.i32)
        row = self._at.one(arith.DivUIOp, (inside, width), b.i32)
        column = self._at.one(arith.RemUIOp, (inside, width), b.i32)
        # Which analyses know by this to be no less than 0.
        column = self._at.one(arith.MaxSIOp, (column, self._number(0)), b.i32)
        return self._sum(arith.AddiOp, start, column), row

    def _asked(self, kind: type[Operation], axis: int) -> SSAValue:
        properties = {"axis": b.IntegerAttr(axis, b.i32)}
        return self._at.add(kind.create(result_types=(b.i32,), properties=properties)).results[0]

    def _number(self, value: int) -> SSAValue:
        properties = {"value": scalar_value(b.i32, value)}
        made = arith.ConstantOp.create(result_types=(b.i32,), properties=properties)
        return self._at.add(made).results[0]

    def _sum(
        self, kind: type[Operation], one: SSAValue, other: SSAValue, wraps: bool = False
    ) -> SSAValue:
        """A sum, difference or product, which does not wrap."""
        properties = {} if wraps or self._flags is None else {"overflowFlags": self._flags}
        made = kind.create(operands=(one, other), result_types=(b.i32,), properties=properties)
        return self._at.add(made).results[0]

    def _below(self, one: SSAValue, other: SSAValue) -> SSAValue:
        return self._at.compare(BELOW_UNSIGNED, one, other)

    def _end(self, values: tuple[SSAValue, SSAValue]) -> None:
        self._at.add(scf.YieldOp(*values))
