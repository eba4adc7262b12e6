"""Draws a timeline: warps by role, their stages, and the copies they start."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import floor, log10

from tilewright.simulator.timeline import Event


@dataclass(frozen=True, slots=True)
class Kind:
    """The appearance of a kind of event, and its text in the legend."""

    fill: str
    text: str
    meaning: str


KINDS = {
    "product": Kind("#2f8f4e", "#ffffff", "tensor cores multiply"),
    "copy": Kind("#3f76d8", "#ffffff", "a copy to shared memory is in flight"),
    "store": Kind("#8a4fc4", "#ffffff", "a copy from shared memory is in flight"),
    # A page may override the colours of waits, which would be too bright on a dark background.
    "wait": Kind(
        "var(--svg-wait,#dfe3e8)",
        "var(--svg-wait-ink,#3c4450)",
        "the warp waits for a phase or for copies",
    ),
    "wait for product": Kind(
        "var(--svg-owed,#c9e6d2)", "var(--svg-owed-ink,#245a37)", "the warp waits for a product"
    ),
    "barrier": Kind("#f3cf7a", "#5c4303", "the warp waits at a barrier of the block"),
}
#: The drawing order: work is drawn over the wait for it.
_ORDER = ("wait", "barrier", "wait for product", "copy", "store", "product")

_LEFT, _WIDTH, _RIGHT = 150, 1080, 30
_ROW, _BAR, _LANE, _HEAD, _AXIS = 20, 14, 8, 24, 26
_CHARACTER = 5.4
_TICKS = 8
# A page may override these; by default the drawing is dark on white.
_INK, _FAINT = "var(--svg-ink,#20262e)", "var(--svg-faint,#5f6875)"
_GRID, _PAGE = "var(--svg-grid,#e9ecf0)", "var(--svg-page,#ffffff)"
_RULE = "var(--svg-rule,#aab2bd)"


@dataclass(slots=True)
class _Line:
    """A row: a warp, or its copies in as many lanes as are in flight at once."""

    label: str
    events: list[Event] = field(default_factory=list)
    lanes: list[int] = field(default_factory=list)
    is_copies: bool = False

    @property
    def height(self) -> int:
        return max(max(self.lanes, default=0) + 1, 1) * _LANE + 4 if self.is_copies else _ROW


def _put_into_lanes(line: _Line) -> None:
    """Assign each copy to the first lane that is free when it starts."""
    line.events.sort(key=lambda event: (event.start, event.end))
    free: list[float] = []
    for event in line.events:
        lane = next((i for i, end in enumerate(free) if end <= event.start), len(free))
        free[lane : lane + 1] = [event.end]
        line.lanes.append(lane)


def _role(events: Sequence[Event], some_multiply: bool) -> str:
    """The role of a warp, if warps differ in it."""
    kinds = {event.kind for event in events}
    if "product" in kinds:
        return "multiply" if not kinds & {"copy"} else ""
    return "copy" if some_multiply and kinds & {"copy"} else ""


_ROLES = {"copy": "producers", "multiply": "consumers", "": ""}


def _groups(events: Sequence[Event]) -> Iterator[tuple[str, list[_Line]]]:
    """The rows in groups of adjacent warps with the same role, each with a title."""
    for block in dict.fromkeys(event.block for event in events):
        own = [event for event in events if event.block == block]
        multiplies = any(event.kind == "product" for event in own)
        warps = sorted({event.warp for event in own})
        by_warp = {warp: [event for event in own if event.warp == warp] for warp in warps}
        roles = {warp: _role(by_warp[warp], multiplies) for warp in warps}
        whole = len(set(roles.values())) == 1
        group: list[_Line] = []
        for position, warp in enumerate(warps):
            group += _lines(warp, by_warp[warp])
            following = warps[position + 1] if position + 1 < len(warps) else None
            if following is None or roles[following] != roles[warp]:
                name = "" if whole else _ROLES[roles[warp]]
                yield " · ".join(filter(None, (block, name))), group
                group = []


def _lines(warp: int, events: Sequence[Event]) -> list[_Line]:
    own, copies = _Line(f"warp {warp}"), _Line("its copies", is_copies=True)
    for event in events:
        (copies if event.kind in ("copy", "store") else own).events.append(event)
    own.events.sort(key=lambda event: (_ORDER.index(event.kind), event.start))
    own.lanes = [0] * len(own.events)
    _put_into_lanes(copies)
    return [own, copies] if copies.events else [own]


def _labels(what: str) -> tuple[str, ...]:
    """Candidate labels for a bar, the longest first: the operation without its dialect, the line."""
    return what.partition(".")[2], what.partition(", ")[2]


def _uncovered(event: Event, line: _Line) -> float:
    """The end of the visible part of an event: a product is drawn over the wait for it."""
    if event.kind != "wait for product":
        return event.end
    covering = [e.start for e in line.events if e.kind == "product" and e.end > event.start]
    return max(event.start, min([event.end, *covering]))


class _Canvas:
    def __init__(self, last: float):
        self.scale = _WIDTH / last
        self.parts: list[str] = []
        self.y = 4

    def text(self, x: float, y: float, text: str, style: str = "") -> None:
        """Draw text; ``style`` are further attributes."""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{style}>{html.escape(text)}</text>')

    def bar(self, event: Event, y: float, height: float, seen: float = 0.0) -> None:
        """Draw an event, with a label if the visible part is wide enough."""
        kind = KINDS[event.kind]
        x, width = _LEFT + event.start * self.scale, (event.end - event.start) * self.scale
        title = html.escape(f"{event.what} ({event.kind}): {event.start:.0f} to {event.end:.0f}")
        self.parts.append(
            f'<rect class="stage" x="{x:.2f}" y="{y:.1f}" width="{max(width, 1):.2f}" '
            f'height="{height}" fill="{kind.fill}" stroke="{_PAGE}" stroke-width="0.5" '
            f'data-start="{event.start:g}" data-end="{event.end:g}"{_key(event)}>'
            f"<title>{title}</title></rect>"
        )
        room = (seen - event.start) * self.scale - 8
        label = next((t for t in _labels(event.what) if len(t) * _CHARACTER < room), "")
        if label:
            style = (
                f' fill="{kind.text}" font-size="9" pointer-events="none" '
                f'data-start="{event.start:g}" data-shift="4"'
            )
            self.text(x + 4, y + height - 4, label, style)

    def line(self, line: _Line) -> None:
        """Draw a row. A thin rule shows when the warp issues operations."""
        if line.is_copies:
            self.text(
                20, self.y + line.height / 2 + 4, line.label, f' class="label" fill="{_FAINT}"'
            )
            for event, lane in zip(line.events, line.lanes):
                self.bar(event, self.y + 2 + lane * _LANE, _LANE - 1)
        else:
            self.text(8, self.y + 14, line.label, ' class="label"')
            last = max((event.end for event in line.events), default=0)
            end = _LEFT + last * self.scale
            self.parts.append(
                f'<line x1="{_LEFT}" x2="{end:.1f}" y1="{self.y + _ROW / 2}" '
                f'y2="{self.y + _ROW / 2}" stroke="{_RULE}" data-start="0" data-end="{last:g}"/>'
            )
            for event in line.events:
                self.bar(event, self.y + 3, _BAR, _uncovered(event, line))
        self.y += line.height


def _key(event: Event) -> str:
    """The attribute that links an event to its source line."""
    return f' data-key="{html.escape(f"{event.file}:{event.line}")}"' if event.line else ""


def _step(last: float) -> float:
    """The distance of marks on the axis: 1, 2 or 5 times a power of 10."""
    rough = last / _TICKS
    power = 10 ** floor(log10(rough)) if rough > 0 else 1
    return next(n * power for n in (1, 2, 5, 10) if n * power >= rough)


def drawn(events: Sequence[Event]) -> str:
    """The drawing as one SVG element, with a rectangle of class ``stage`` for each event."""
    last = max((event.end for event in events), default=1.0) or 1.0
    canvas = _Canvas(last)
    for title, lines in _groups(events):
        if title:
            canvas.text(8, canvas.y + _HEAD - 8, title, ' class="label" font-weight="600"')
            canvas.y += _HEAD
        for line in lines:
            canvas.line(line)
        canvas.y += 4
    grid: list[str] = []
    step, mark = _step(last), 0.0
    while mark <= last:
        x = _LEFT + mark * canvas.scale
        grid.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="2" y2="{canvas.y}" stroke="{_GRID}" '
            f'data-start="{mark:g}" data-end="{mark:g}"/>'
            f'<text x="{x:.1f}" y="{canvas.y + 14}" text-anchor="middle" fill="{_FAINT}" '
            f'data-start="{mark:g}">'
            f"{mark:.0f}</text>"
        )
        mark += step
    canvas.text(8, canvas.y + 14, "units of time", f' fill="{_FAINT}"')
    width, height = _LEFT + _WIDTH + _RIGHT, canvas.y + _AXIS
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="11" '
        f'fill="{_INK}" data-left="{_LEFT}" data-width="{_WIDTH}" data-right="{_RIGHT}" '
        f'data-last="{last:g}">'
        f'<rect class="ground" width="{width}" height="{height}" fill="{_PAGE}"/>'
        + "\n".join([*grid, *canvas.parts])
        + "</svg>"
    )
