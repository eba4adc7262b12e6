"""Remarks: what passes report about their decisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

from xdsl.ir import Operation

from tilewright.diagnostics import ByteSpan, NamedLocation, SourceLocation
from tilewright.diagnostics.render_json import location_to_json
from tilewright.dialects.cuda_tile.debug_info import source_position
from tilewright.dialects.source_map import location_of

Figure: TypeAlias = int | float | str


@dataclass(frozen=True, slots=True)
class Alternative:
    """A choice that the performance model compared, such as ``3 stages``. ``clocks``: of an iteration of its loop;
    ``blocks``: how many share a multiprocessor, None where all alternatives have the same."""

    choice: str
    clocks: float
    blocks: int | None = None

    def __str__(self) -> str:
        told = f"{self.choice}: {round(self.clocks)} clocks per iteration"
        if self.blocks is None:
            return told
        return f"{told}, {self.blocks} {'block' if self.blocks == 1 else 'blocks'}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the performance model says of the alternatives of a decision, on a GPU. Its text is the part of a message
    that gives the reason."""

    gpu: str
    alternatives: tuple[Alternative, ...]

    def __str__(self) -> str:
        return f"modelled on {self.gpu}, {'; '.join(map(str, self.alternatives))}"


@dataclass(frozen=True, slots=True)
class Remark:
    """A decision of ``kind`` and its reason, at a location of the source.

    ``made_by`` is the pass that decided; empty for what no pass decides, such as what becomes of hints. ``figures`` are
    the numbers of the message by name, in order: counts, and sizes in bytes. ``compared`` is what the performance model said,
    if it was asked.

    Kinds for GPUs: ``layout`` (a layout conversion through shared memory), ``product`` (the instruction of a product),
    ``grid`` (its grid of warps), ``ring`` (prefetched tiles), ``pipeline`` (why there are none), ``early`` (hoisted
    loads), ``tma`` (what is stored by tensor maps, and why others are not used), ``rule`` (an operation without a
    scheduled lowering), ``warps`` (how many), ``agents`` (warp specialization), ``in-flight`` (asynchronous products, and
    why others are not), ``storage`` (shared bytes), ``block-order``, ``residency`` (blocks per multiprocessor), ``hint``
    (what becomes of one), ``fallback`` (lowered without a schedule). For the CPU: ``buffer`` (a materialized tile),
    ``gather`` (elements loaded or stored one by one), ``loop`` (scalar or unrolled loops), ``stride``, ``strip`` (fused
    blocks), ``order`` (of blocks). For both: ``atomic`` (ordered updates, privatization), ``reduction`` (order of
    elements), ``power`` (no product or root).
    """

    kind: str
    message: str
    location: SourceLocation | None = None
    made_by: str = ""
    figures: tuple[tuple[str, Figure], ...] = ()
    compared: Comparison | None = None


@dataclass(slots=True)
class Remarks:
    """Collects remarks, in order, each once. ``made_by`` is the pass that adds them now."""

    found: list[Remark] = field(default_factory=list)
    made_by: str = ""
    _seen: set[Remark] = field(default_factory=set[Remark])

    def add(
        self,
        kind: str,
        message: str,
        op: Operation | None = None,
        compared: Comparison | None = None,
        **figures: Figure,
    ) -> None:
        """Add a remark at an operation, unless the same one at the same location was added before.

        ``kind`` is one of ``docs/schemas/remarks.schema.json``; ``figures`` are what the message says in numbers.
        """
        location = None if op is None else _place(op)
        remark = Remark(kind, message, location, self.made_by, tuple(figures.items()), compared)
        if remark not in self._seen:
            self._seen.add(remark)
            self.found.append(remark)

    def add_instead(self, kind: str, message: str, op: Operation) -> None:
        """Add a remark that replaces those of its kind at its location: a later pass decided otherwise."""
        place = _place(op)
        if place is not None:
            self.found = [
                told for told in self.found if (told.kind, told.location) != (kind, place)
            ]
        self.add(kind, message, op)


def to_json(remarks: Iterable[Remark]) -> list[dict[str, object]]:
    """Return one object per remark, in order: ``docs/schemas/remarks.schema.json``."""
    return [
        {
            "kind": remark.kind,
            "pass": remark.made_by or None,
            "message": remark.message,
            "figures": dict(remark.figures),
            "compared": None if remark.compared is None else asdict(remark.compared),
            **location_to_json(remark.location),
        }
        for remark in remarks
    ]


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
