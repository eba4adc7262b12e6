"""Remarks: what passes report about their decisions."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilewright.diagnostics import ByteSpan, NamedLocation, SourceLocation
from tilewright.dialects.cuda_tile.debug_info import source_position
from tilewright.dialects.source_map import location_of


@dataclass(frozen=True, slots=True)
class Remark:
    """A decision of ``kind`` and the reason for it, at a place of the source.

    Kinds: ``layout`` (a tile changes its layout), ``product`` (which instruction), ``ring`` (copies ahead),
    ``pipeline`` (why there are none), ``tma`` (what is stored by tensor maps, and why other tiles do not go by them), ``rule`` (an operation is lowered as
    without a schedule), ``warps`` (why so many), ``agents`` (which
    of them fill pipelines), ``in-flight`` (which products go on, and why others do not), ``storage`` (what shares bytes), ``hint`` (what becomes of one), ``fallback`` (the kernel is
    lowered without a schedule), ``residency`` (how many blocks a multiprocessor holds). Of the CPU: ``buffer`` (a tile is kept), ``gather`` (elements are loaded or
    stored apart), ``loop`` (one element after the other), ``atomic`` (updates stay ordered, or go to memory at
    once), ``reduction`` (the order of elements is kept), ``power`` (no product or root), ``order`` (how tile blocks follow one
    another).
    """

    kind: str
    message: str
    location: SourceLocation | None = None


@dataclass(slots=True)
class Remarks:
    """Collects remarks, in order, each once."""

    found: list[Remark] = field(default_factory=list)
    _seen: set[Remark] = field(default_factory=set[Remark])

    def add(self, kind: str, message: str, op: Operation | None = None) -> None:
        """Tell a decision, at an operation; the same one at the same place is told once."""
        remark = Remark(kind, message, None if op is None else _place(op))
        if remark not in self._seen:
            self._seen.add(remark)
            self.found.append(remark)

    def add_instead(self, kind: str, message: str, op: Operation) -> None:
        """Add a remark in the stead of those of its kind at its place: a later pass has decided otherwise."""
        place = _place(op)
        if place is not None:
            self.found = [
                told for told in self.found if (told.kind, told.location) != (kind, place)
            ]
        self.add(kind, message, op)


def _place(op: Operation) -> SourceLocation | None:
    """Where an operation comes from: the line of the author's program that debug information names, for what was
    read from bytecode."""
    place = location_of(op)
    if isinstance(place, ByteSpan):
        around: Operation | None = op
        while around is not None:
            location = getattr(around, "location", None)
            if location is not None and (found := source_position(location)) is not None:
                return NamedLocation(found[0], found[1], 0)
            around = around.parent_op()
    return place
