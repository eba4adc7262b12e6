"""Records what tile blocks did: operations, their results, and the memory they accessed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from xdsl.ir import Attribute, Operation

from tilewright.diagnostics.render_html import preformatted
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops.misc import AssumeOp
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.dialects.cuda_tile.ops.reductions import ReduceOrScan
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.declare import enum_property
from tilewright.launching.entry_names import has_authors_names
from tilewright.machine.accesses import AccessSite, access_site, allocations_of
from tilewright.machine.compile import Translator
from tilewright.machine.hooks import Hook
from tilewright.machine.inspect.breakpoints import block_id
from tilewright.machine.inspect.stats import TileStats, numbers_of, tile_stats
from tilewright.machine.inspect.stops import (
    When,
    describe_location,
    describe_source,
    describe_value,
    element_name,
    format_elements,
    look_at,
    named_values,
)
from tilewright.machine.memory import Memory
from tilewright.machine.schedules import BlockId
from tilewright.machine.tensors import ArrayNames, Elements
from tilewright.machine.values import Registers, TensorView

Values = Literal["none", "summary", "full"]
Event = Literal["op", "enter", "leave"]

DEFAULT_LIMIT = 10_000
DEFAULT_ELEMENT_LIMIT = 1_000_000
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class ValueRecord:
    """A result. ``text`` is how it is printed; ``stats`` are a tile's statistics; ``elements`` are
    nested lists, if requested."""

    name: str
    type: str
    text: str
    stats: TileStats | None = None
    elements: object = None


@dataclass(frozen=True, slots=True)
class AccessRecord:
    """Elements that an operation read, wrote or both.

    ``kind`` is ``load``, ``store`` or ``atomic``; ``ordering`` is spelled as in Tile IR.
    """

    kind: str
    ordering: str
    elements: Elements

    def __str__(self) -> str:
        about = "" if self.elements.is_exact else ", not all of them"
        return f"{self.kind} {self.ordering} {self.elements}{about}"


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One execution of an operation by a tile block.

    ``event`` is ``op``. An operation with a body, except reduce and scan, instead has an ``enter``
    before the body and a ``leave`` after it, which has the results. ``depth`` is the number of
    operations around it in the kernel.
    """

    event: Event
    block: BlockId
    op: str
    place: str
    source: str | None
    depth: int
    results: tuple[ValueRecord, ...] = ()
    accesses: tuple[AccessRecord, ...] = ()


@dataclass(slots=True)
class Trace:
    """What to record, and what a run has recorded.

    ``blocks``: the tile blocks to follow, or ``all``. ``values``: of results keep ``none``, a
    ``summary``, or ``full`` elements. ``limit`` bounds the number of records, ``element_limit`` the
    elements kept by ``full``. What exceeds the limits is counted and reported, and values beyond it
    are summarized. Each run with the trace starts it anew.
    """

    blocks: Sequence[int | Sequence[int]] | Literal["all"] = (0,)
    values: Values = "summary"
    limit: int = DEFAULT_LIMIT
    element_limit: int = DEFAULT_ELEMENT_LIMIT
    records: list[OpRecord] = field(default_factory=list[OpRecord])
    left_out: int = 0
    summarised: int = 0
    launch: dict[str, object] = field(default_factory=dict[str, object])

    @property
    def notices(self) -> tuple[str, ...]:
        """Messages about what the limits have kept out of the trace."""
        found: list[str] = []
        if self.left_out:
            found.append(
                f"the trace is cut after {self.limit} records; {self.left_out} more are left out"
            )
        if self.summarised:
            found.append(
                f"the trace has kept {self.element_limit} elements; {self.summarised} more values "
                "are summaries"
            )
        return tuple(found)

    def to_json_lines(self) -> str:
        """Return one JSON object per line: the launch, the records, and what was left out (docs/json.md)."""
        lines = [{"event": "launch", **self.launch}, *map(_record_json, self.records)]
        if self.notices:
            lines.append({"event": "cut", "left_out": self.left_out, "summarised": self.summarised})
        return "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)

    def to_text(self) -> str:
        """Return the records as text, indented by nesting."""
        lines = [line for record in self.records for line in _record_lines(record)]
        lines += [f"({notice})" for notice in self.notices]
        return "".join(f"{line}\n" for line in lines)

    def _repr_html_(self) -> str:
        """Return :meth:`to_text` for notebooks."""
        return preformatted(self.to_text().rstrip("\n") or "(an empty trace)")


class Recorder:
    """Fills a trace while a kernel runs, as an observer of its operations."""

    def __init__(
        self,
        trace: Trace,
        kernel: EntryOp,
        grid: BlockId,
        seed: int,
        names: Mapping[int, str],
        arrays: ArrayNames,
    ):
        if trace.values not in ("none", "summary", "full"):
            raise ValueError(f"values are 'none', 'summary' or 'full', not {trace.values!r}")
        self._trace, self._kernel, self._names, self._arrays = trace, kernel, names, arrays
        self._blocks = (
            None if trace.blocks == "all" else {block_id(block, grid) for block in trace.blocks}
        )
        self._elements_left = trace.element_limit
        self._leaves_out_assumptions = has_authors_names(kernel)
        trace.records, trace.left_out, trace.summarised = [], 0, 0
        trace.launch = {"format": 1, "entry": kernel.symbol, "grid": list(grid), "seed": seed}

    def hook(self, op: Operation, t: Translator, when: When) -> Hook | None:
        """Return a hook that records an operation when it ends; with regions, when it is entered and left.

        None for assumptions that are left out, and before an operation without regions.
        """
        if self._leaves_out_assumptions and isinstance(op, AssumeOp):
            return None
        nests = bool(op.regions) and not isinstance(op, ReduceOrScan)
        if when == "before":
            return self._hook(op, t, "enter") if nests else None
        return self._hook(op, t, "leave" if nests else "op")

    def _hook(self, op: Operation, t: Translator, event: Event) -> Hook:
        machine, trace = t.machine, self._trace
        place, source, depth = describe_location(op), describe_source(op), self._depth(op)
        mnemonic = op.name.rpartition(".")[2]
        site = access_site(op, t) if event == "op" else None
        values = {} if event == "enter" else named_values(tuple(op.results), self._names)
        slots = [(name, value.type, t.slot(value)) for name, value in values.items()]

        def hook(regs: Registers) -> None:
            block = machine.block
            if self._blocks is not None and block not in self._blocks:
                return
            if len(trace.records) >= trace.limit:
                trace.left_out += 1
                return
            results = tuple(self._value(name, ty, regs[slot]) for name, ty, slot in slots)
            accesses = () if site is None else self._accesses(op, site, regs, machine.memory)
            trace.records.append(
                OpRecord(event, block, mnemonic, place, source, depth, results, accesses)
            )

        return hook

    def _depth(self, op: Operation) -> int:
        depth, parent = 0, op.parent_op()
        while parent is not None and parent is not self._kernel:
            depth, parent = depth + 1, parent.parent_op()
        return depth

    def _value(self, name: str, ty: Attribute, register: object) -> ValueRecord:
        shown, value = format_type(ty), look_at(register)
        if value is None or self._trace.values == "none":
            return ValueRecord(name, shown, shown)
        if isinstance(value, TensorView):
            return ValueRecord(name, shown, describe_value(value, ty))
        element = element_name(ty)
        stats = tile_stats(value, element=element)
        if self._trace.values == "full":
            if value.size <= self._elements_left:
                self._elements_left -= value.size
                text = f"{shown} = {format_elements(value, element)}"
                elements = _json_elements(numbers_of(value, element))
                return ValueRecord(name, shown, text, stats, elements)
            self._trace.summarised += 1
        return ValueRecord(name, shown, describe_value(value, ty), stats)

    def _accesses(
        self, op: Operation, site: AccessSite, regs: Registers, memory: Memory
    ) -> tuple[AccessRecord, ...]:
        assert isinstance(op, TileOp)
        addresses, size = site.addresses(regs), site.storage.size
        ordering = enum_property(op, "memory_ordering_semantics")
        found: list[AccessRecord] = []
        for allocation, lanes in allocations_of(memory, addresses, size):
            some = addresses if lanes is None else addresses[lanes]
            offsets = (some - np.uint64(allocation.base)).astype(np.int64)
            elements = self._arrays.locate(allocation, offsets, size)
            found.append(AccessRecord(site.kind, ordering, elements))
        return tuple(found)


def _json_elements(numbers: np.ndarray) -> object:
    """Return nested lists; nan, inf and -inf are strings, since JSON has no such numbers."""
    if numbers.dtype.kind != "f" or bool(np.isfinite(numbers).all()):
        return numbers.tolist()
    exact = numbers.astype(object)
    wrong = ~np.isfinite(numbers)
    exact[wrong] = [str(value) for value in numbers[wrong].tolist()]
    return exact.tolist()


def _record_json(record: OpRecord) -> dict[str, object]:
    return {
        "event": record.event,
        "block": list(record.block),
        "op": record.op,
        "place": record.place,
        "source": record.source,
        "depth": record.depth,
        "results": [_value_json(value) for value in record.results],
        "accesses": [
            {"kind": access.kind, "ordering": access.ordering, **access.elements.to_json()}
            for access in record.accesses
        ],
    }


def _value_json(value: ValueRecord) -> dict[str, object]:
    found: dict[str, object] = {"name": value.name, "type": value.type}
    if value.stats is not None:
        found["stats"] = value.stats.to_json()
    if value.elements is not None:
        found["elements"] = value.elements
    return found


def _record_lines(record: OpRecord) -> list[str]:
    indent = _INDENT * record.depth
    what = record.op if record.event == "op" else f"{record.event} {record.op}"
    where = record.place if record.source is None else f"{record.place} ({record.source})"
    lines = [f"{record.block} {indent}{what}  {where}"]
    details = [f"{value.name}: {value.text}" for value in record.results]
    details += map(str, record.accesses)
    return lines + [f"{_INDENT * 2}{indent}{detail}" for detail in details]
