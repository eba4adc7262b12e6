"""When the warps of a block did what, and a drawing of it.

Times come from a simple model: each operation takes one unit, copies and products take what
``COSTS`` says, and waits last until what is waited for has ended. They show which stage waits for
which, not how fast a GPU is.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.dialects.source_map import place_of

if TYPE_CHECKING:
    from xdsl.ir import Operation

#: Units of time: until the first byte of a copy comes, bytes for each unit afterwards, and the
#: multiplications that the tensor cores of a block do in one.
LATENCY, COPY_BYTES, PRODUCT_RATE = 500.0, 32.0, 4096.0
MAX_EVENTS = 20_000
#: Kinds of stages and their colours.
KINDS = {
    "wait": "#d0d0d0",
    "barrier": "#b0b0b0",
    "copy": "#4c8bf5",
    "load": "#4c8bf5",
    "store": "#a15ce0",
    "product": "#3aa757",
    "memory": "#f2a33a",
}
_ROW, _LEFT, _WIDTH = 22, 150, 1100


@dataclass(frozen=True, slots=True)
class Event:
    """A stage of a row, which is a warp or a unit; ``what`` names the operation and its line."""

    row: str
    kind: str
    what: str
    start: float
    end: float


@dataclass(slots=True)
class Timeline:
    """The stages of the first blocks of a launch. ``truncated`` where there were too many."""

    blocks: int = 1
    events: list[Event] = field(default_factory=list)
    truncated: bool = False

    def add(self, warp: object, kind: str, op: Operation, start: float, end: float) -> None:
        """Note a stage of a warp of one of the first blocks."""
        block = warp.block  # pyright: ignore[reportAttributeAccessIssue]
        if block.rank >= self.blocks or block.cluster.index != (0, 0, 0):
            return
        if len(self.events) >= MAX_EVENTS:
            self.truncated = True
            return
        row = warp.name()  # pyright: ignore[reportAttributeAccessIssue]
        row += {"copy": " (copies)", "store": " (copies)"}.get(kind, "")
        place = place_of(op)
        line = getattr(place, "line", None)
        what = op.name + (f", line {line}" if line else "")
        self.events.append(Event(row, kind, what, start, end))

    @property
    def rows(self) -> list[str]:
        """The rows in the order of warps, copies behind the warp that starts them."""

        def order(row: str) -> tuple[int, str]:
            return int(row.split()[1]), row

        return sorted({event.row for event in self.events}, key=order)

    def to_svg(self) -> str:
        """The drawing as one SVG element."""
        rows = {row: i for i, row in enumerate(self.rows)}
        last = max((event.end for event in self.events), default=1.0) or 1.0
        scale = _WIDTH / last
        height = _ROW * (len(rows) + 1)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" '
            f'height="{height}" font-family="sans-serif" font-size="11">'
        ]
        for row, i in rows.items():
            parts.append(f'<text x="4" y="{i * _ROW + 15}">{html.escape(row)}</text>')
        for event in self.events:
            x = _LEFT + event.start * scale
            width = max((event.end - event.start) * scale, 0.5)
            title = f"{event.what}: {event.start:.0f} to {event.end:.0f}"
            parts.append(
                f'<rect x="{x:.2f}" y="{rows[event.row] * _ROW + 3}" width="{width:.2f}" '
                f'height="{_ROW - 6}" fill="{KINDS[event.kind]}"><title>{html.escape(title)}'
                "</title></rect>"
            )
        parts.append(
            f'<text x="{_LEFT}" y="{height - 6}">0</text><text x="{_LEFT + _WIDTH - 60}" '
            f'y="{height - 6}">{last:.0f} units</text></svg>'
        )
        return "\n".join(parts)

    def to_html(self, title: str = "Timeline") -> str:
        """A page that needs nothing else."""
        legend = " ".join(
            f'<span style="background:{colour};padding:2px 8px">{kind}</span>'
            for kind, colour in KINDS.items()
        )
        cut = "<p>Later stages are left out.</p>" if self.truncated else ""
        return (
            f'<!doctype html><meta charset="utf-8"><title>{html.escape(title)}</title>'
            f"<h1>{html.escape(title)}</h1><p>{legend}</p>{self.to_svg()}{cut}\n"
        )
