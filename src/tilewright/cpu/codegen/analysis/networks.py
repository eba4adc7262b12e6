"""Networks: tiles that are repeatedly cut into halves, processed and concatenated, such that each half keeps its place.

Sorting networks, butterflies and the like map tiles to tiles of one shape. Number the elements in row-major order. A
stage that cuts along bit ``b`` of the number combines only elements whose numbers differ in that bit, so runs of ``2 << b``
elements are independent. Stages with short runs are computed in registers, all of them for one run and then for the
next, and only the last one needs a buffer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.ir import Operation, SSAValue

from tilewright.cpu.codegen.analysis.known_numbers import known_number
from tilewright.cpu.codegen.ir.elements import element_of
from tilewright.dialects import facts
from tilewright.dialects.declare import int_property
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileaa.ops.shapes import CatOp, ExtractSliceOp

_MOVED = (Elements.SAME_POSITION, Elements.RESHAPED, Elements.MOVED)


@dataclass(slots=True)
class Networks:
    """The joined tiles that are stages of a network, each with the length of the runs that are computed at once,
    and those of them that stay in registers."""

    runs: dict[SSAValue, int] = field(default_factory=dict)
    inside: set[SSAValue] = field(default_factory=set)
    ends: set[SSAValue] = field(default_factory=set)
    """Stages that are computed with some before them, and written."""

    def why_kept(self, value: SSAValue, *, cut: bool) -> str:
        """Why a tile has a buffer; empty where it needs none. ``cut``: parts of it are read."""
        if value in self.ends:
            return "it ends stages that are computed in registers"
        is_read = cut and value not in self.inside
        return "parts of it are read in another order than its layout" if is_read else ""


@dataclass(frozen=True, slots=True)
class _Flow:
    """A tile on the way from a stage, or the start, to the next stage: which bits of the number of an element
    there number the elements here, the lowest one first."""

    start: SSAValue
    bits: tuple[int, ...]


def find_networks(ops: Sequence[Operation], kept: Collection[SSAValue], run_bytes: int) -> Networks:
    """The networks of a function, whose operations stand in the order of the program. ``kept`` are tiles that
    lie in buffers if they do not stay in registers; ``run_bytes`` of a tile can do that at once."""
    return _Search(kept, run_bytes).over(ops)


class _Search:
    def __init__(self, kept: Collection[SSAValue], run_bytes: int) -> None:
        self._kept, self._run_bytes = kept, run_bytes
        self._found = Networks()
        self._flows: dict[SSAValue, _Flow] = {}
        self._of_places: set[SSAValue] = set()
        """Tiles that are computed from nothing but the places of their elements."""
        self._whole: set[SSAValue] = set()
        """Stages that something reads beside one next stage."""
        self._before: dict[SSAValue, SSAValue] = {}
        """The stage, or start, before each stage."""

    def over(self, ops: Sequence[Operation]) -> Networks:
        for op in ops:
            if isinstance(op, CatOp) and (flow := self._joined(op)) is not None:
                self._stage(op, flow)
                continue
            flow = self._passed_on(op)
            if flow is not None:
                self._flows[op.results[0]] = flow
                continue
            self._whole.update(
                self._flows[each].start for each in op.operands if each in self._flows
            )
            for result in op.results:
                if result in self._kept:
                    self._flows[result] = _start(result)
                elif self._is_of_places(op):
                    self._of_places.add(result)
        found = self._found
        found.inside -= self._whole
        found.ends = {stage for stage, before in self._before.items() if before in found.inside}
        found.ends -= found.inside
        return found

    def _is_of_places(self, op: Operation) -> bool:
        kind = facts.elements(op)
        if kind is Elements.MADE:
            return facts.cost(op) <= 1
        tiles = [each for each in op.operands if T.dims_of(each.type)] if kind in _MOVED else []
        return bool(tiles) and all(each in self._of_places for each in tiles)

    def _passed_on(self, op: Operation) -> _Flow | None:
        """What becomes of a stage in an operation on the way to the next one."""
        here = [self._flows[each] for each in op.operands if each in self._flows]
        kind = facts.elements(op)
        if not here or kind not in _MOVED or len(op.results) != 1:
            return None
        if kind is Elements.RESHAPED:
            return here[0]
        if kind is Elements.MOVED:
            return _part(op, here[0]) if isinstance(op, ExtractSliceOp) else None
        others = [each for each in op.operands if each not in self._flows and T.dims_of(each.type)]
        fits = all(each in self._of_places for each in others)
        return here[0] if fits and len(set(here)) == 1 else None

    def _joined(self, op: CatOp) -> _Flow | None:
        """Two halves that have kept their places, joined to what they were cut from; else None. It is theirs."""
        lhs, rhs = self._flows.get(op.lhs), self._flows.get(op.rhs)
        dims, axis = T.dims_of(op.lhs.type), int_property(op, "axis")
        if lhs is None or lhs != rhs or dims != T.dims_of(op.rhs.type):
            return None
        if element_of(lhs.start.type) != element_of(op.result.type):
            return None
        whole = _start(lhs.start).bits
        missing = sorted(set(whole) - set(lhs.bits))
        place = prod(dims[axis:]).bit_length() - 1
        return lhs if (*lhs.bits[:place], *missing, *lhs.bits[place:]) == whole else None

    def _stage(self, op: CatOp, flow: _Flow) -> None:
        """Let a joined tile be the next stage, in registers with those before it if its runs are short."""
        result, before, runs = op.result, flow.start, self._found.runs
        own = next(bit for bit, left in enumerate((*flow.bits, -1)) if bit != left)
        run = max(2 << own, runs.get(before, 0))
        short = run * element_of(result.type).buffer_bytes <= self._run_bytes
        if short:
            runs[result], self._before[result] = run, before
        follows = short and before in runs and before not in self._found.inside
        if follows and op.parent is _block_of(before):
            self._found.inside.add(before)
        else:
            self._whole.add(before)
        self._flows[result] = _start(result)


def _start(value: SSAValue) -> _Flow:
    return _Flow(value, tuple(range(prod(T.dims_of(value.type)).bit_length() - 1)))


def _part(op: ExtractSliceOp, flow: _Flow) -> _Flow | None:
    """A part at a place that is known, and a multiple of its extents."""
    whole, part = T.dims_of(op.source.type), T.dims_of(op.result.type)
    offsets = int_list(op.properties.get("offsets")) or [known_number(each) for each in op.indices]
    bits, left = list(flow.bits), list[int]()
    for extent, size, offset in zip(
        reversed(whole), reversed(part), reversed(offsets), strict=True
    ):
        if size != extent and (offset is None or offset % size or offset + size > extent):
            return None
        left += bits[: size.bit_length() - 1]
        del bits[: extent.bit_length() - 1]
    return _Flow(flow.start, tuple(left))


def _block_of(value: SSAValue) -> object:
    owner = value.owner
    return owner.parent if isinstance(owner, Operation) else owner
