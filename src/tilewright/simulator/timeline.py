"""The timeline of a block's warps, and a drawing of it.

Times come from a simple model: each operation takes one unit, copies and products take what the constants here say, and
a wait lasts until what it waits for has ended. They show which stage waits for which, not how fast a GPU is.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilewright.diagnostics import Span
from tilewright.dialects.cuda_tile.debug_info import source_position
from tilewright.dialects.source_map import location_of

#: In units of time: the latency of a copy; the bytes it transfers per unit; the multiplications of a tensor core per
#: unit.
LATENCY, COPY_BYTES, PRODUCT_RATE = 500.0, 32.0, 1024.0
#: Per multiprocessor. Warps are assigned by number.
TENSOR_CORES = 4
MAX_EVENTS = 20_000
#: Kinds of events with a separate row for each warp.
_COPIES = frozenset({"copy", "store"})


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a row; a row is a warp or the copies that it starts.

    ``kind`` is one of ``timeline_drawing.KINDS``; ``what`` is the operation and its line; ``block`` is the block if a
    launch has several. ``file`` and ``line`` are its source location: in the text of the module, or in the Python
    program.
    """

    row: str
    kind: str
    what: str
    start: float
    end: float
    warp: int = 0
    block: str = ""
    file: str = ""
    line: int = 0


@dataclass(slots=True)
class TensorCores:
    """The busy intervals of each tensor core of a block, disjoint and ascending.

    Warps do not run in the order of their times, so a product may start before one that was requested earlier.
    """

    busy: list[list[tuple[float, float]]] = field(
        default_factory=lambda: [[] for _ in range(TENSOR_CORES)]
    )

    def take(self, warp: int, earliest: float, multiplications: float) -> tuple[float, float]:
        """Reserve the first free interval for a product of a warp; returns its start and end, in the timeline's
        units.
        """
        busy, length = self.busy[warp % TENSOR_CORES], multiplications / PRODUCT_RATE
        place = len(busy)
        while place and busy[place - 1][1] > earliest:
            place -= 1
        start = earliest
        while place < len(busy) and busy[place][0] < start + length:
            start = busy[place][1]
            place += 1
        end = start + length
        if place and busy[place - 1][1] == start:
            busy[place - 1] = (busy[place - 1][0], end)
        else:
            busy.insert(place, (start, end))
        return start, end


@dataclass(slots=True)
class Timeline:
    """The events of the first blocks of a launch. ``truncated`` if there were more than are kept.

    Times are in units of the model's steps, not in seconds. ``blocks`` is how many blocks of the first cluster are
    followed, ``sources`` holds the lines of each file that an event names.
    """

    blocks: int = 1
    events: list[Event] = field(default_factory=list)
    truncated: bool = False
    sources: dict[str, list[str]] = field(default_factory=dict, repr=False)
    _names: dict[Operation, tuple[str, str, int]] = field(default_factory=dict, repr=False)

    def add(self, warp: object, kind: str, op: Operation, start: float, end: float) -> None:
        """Add an event of a warp, if it is in one of the first blocks.

        ``kind`` is one of ``timeline_drawing.KINDS``; ``start`` and ``end`` are in the timeline's units. Beyond
        ``MAX_EVENTS`` it only sets ``truncated``.
        """
        block = warp.block  # pyright: ignore[reportAttributeAccessIssue]
        if block.rank >= self.blocks or block.cluster.index != (0, 0, 0):
            return
        if len(self.events) >= MAX_EVENTS:
            self.truncated = True
            return
        row = warp.name()  # pyright: ignore[reportAttributeAccessIssue]
        if kind in _COPIES:
            row += " (copies)"
        named = self._names.get(op)
        if named is None:
            named = self._names[op] = self._name(op)
        what, file, line = named
        is_one = block.cluster.launch.grid == (1, 1, 1)
        where = "" if is_one else f"block {block.index}"
        index = warp.index  # pyright: ignore[reportAttributeAccessIssue]
        self.events.append(Event(row, kind, what, start, end, index, where, file, line))

    def _name(self, op: Operation) -> tuple[str, str, int]:
        """The name of an operation with its line, and its location; keeps the text of the file."""
        location = location_of(op)
        if isinstance(location, Span):
            file, line = location.file_name, location.line
            if file not in self.sources:
                self.sources[file] = location.file.text.splitlines()
        elif (position := source_position(op.location)) is not None:
            file, line, _ = position
            if file not in self.sources:
                self.sources[file] = linecache.getlines(file)
        else:
            return op.name, "", 0
        return f"{op.name}, line {line}", file, line

    def to_svg(self) -> str:
        """The drawing as one SVG element, without a document around it."""
        from tilewright.simulator.timeline_drawing import drawn

        return drawn(self.events)

    def _repr_html_(self) -> str:
        """The drawing, for notebooks."""
        return self.to_svg()

    def to_html(self, title: str = "Timeline") -> str:
        """A self-contained HTML page with the drawing."""
        from tilewright.simulator.timeline_page import page

        return page(self.events, title, truncated=self.truncated, sources=self.sources)
