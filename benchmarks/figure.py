"""Ratios of medians as a drawing: for each work, how long others take beside the first job.

A dot plot on a logarithmic axis, as SVG that follows the reader's light or dark theme.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_WIDTH, _LABELS, _NUMBERS = 930, 380, 60
_TOP, _ROW, _BOTTOM = 74, 24, 40
_TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
#: Peers by what their names begin with, the first that fits: colour (blue, red and green that the colour
#: blind can tell apart) and mark.
_PEERS = {
    "torch.compile": ("#228833", "diamond"),
    "torch": ("#ee6677", "square"),
    "NumPy": ("#4477aa", "circle"),
}
_RATIO = "time / "
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #222 }
  .title { font-size: 15px; font-weight: 600 }
  .quiet { fill: #666 }
  .end { text-anchor: end } .middle { text-anchor: middle }
  .grid { stroke: #ddd } .one { stroke: #222; stroke-width: 1.5 }
  .ground { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd } .quiet { fill: #999 }
    .grid { stroke: #444 } .one { stroke: #ddd } .ground { fill: #16181c }
  }
"""


def figure(tables: Mapping[str, Mapping[str, Any]], machine: str) -> str | None:
    """The drawing of tables as they are recorded; None where none has ratios, or others than these peers
    take part."""
    works = [(table["title"], _ratios(table)) for table in tables.values() if _has_ratios(table)]
    works = [(title, ratios) for title, ratios in works if ratios]
    if not works or None in (_peer(name) for _, ratios in works for name, _ in ratios):
        return None
    ours = next(t["head"][3] for t in tables.values() if _has_ratios(t)).removeprefix(_RATIO)
    values = [ratio for _, ratios in works for _, ratio in ratios]
    low, high = _bounds(values)
    height = _TOP + _ROW * len(works) + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>Times of others beside {escape(ours)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{_WIDTH}" height="{height}"/>',
        f'<text class="title" x="16" y="26">Time of others / time of {escape(ours)}</text>',
        f'<text class="quiet" x="16" y="46">medians of interleaved runs on {escape(machine)}; '
        "right of 1: slower than ours</text>",
    ]
    bottom = height - _BOTTOM
    for tick in (tick for tick in _TICKS if low <= tick <= high):
        x = _place(tick, low, high)
        kind = "one" if tick == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{bottom}"/>')
        parts.append(f'<text class="quiet middle" x="{x}" y="{bottom + 16}">{tick:g}</text>')
    parts.append(f'<text class="quiet end" x="{_WIDTH - 12}" y="{_TOP - 14}">closest</text>')
    for number, (title, ratios) in enumerate(works):
        y = _TOP + _ROW * number + _ROW / 2
        parts.append(f'<text class="end" x="{_LABELS - 16}" y="{y + 4}">{escape(title)}</text>')
        for name, ratio in sorted(ratios, key=lambda pair: -pair[1]):
            parts.append(_mark(name, _place(ratio, low, high), y, f"{name}: {ratio:g}"))
        closest = min(ratio for _, ratio in ratios)
        parts.append(f'<text class="end" x="{_WIDTH - 12}" y="{y + 4}">{closest:.3g}</text>')
    parts.append(_legend([name for _, ratios in works for name, _ in ratios]))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _has_ratios(table: Mapping[str, Any]) -> bool:
    head = table["head"]
    return len(head) > 3 and head[3].startswith(_RATIO)


def _ratios(table: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The other jobs with their ratios; those that do not work have none."""
    ours = table["head"][3].removeprefix(_RATIO)
    rows = [row for row in table["rows"] if row[0] != ours and row[3]]
    return [(row[0], float(row[3])) for row in rows]


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    low = max((tick for tick in _TICKS if tick <= min(values)), default=min(values))
    high = min((tick for tick in _TICKS if tick >= max(values)), default=max(values))
    return min(low, 1), max(high, 2)


def _place(value: float, low: float, high: float) -> float:
    share = math.log(value / low) / math.log(high / low)
    return round(_LABELS + share * (_WIDTH - _LABELS - _NUMBERS), 1)


def _peer(name: str) -> str | None:
    return next((prefix for prefix in _PEERS if name.startswith(prefix)), None)


def _mark(name: str, x: float, y: float, tip: str) -> str:
    peer = _peer(name)
    assert peer is not None
    colour, shape = _PEERS[peer]
    drawn = {
        "circle": f'<circle cx="{x}" cy="{y}" r="5"/>',
        "square": f'<rect x="{x - 4.5:g}" y="{y - 4.5:g}" width="9" height="9"/>',
        "diamond": f'<path d="M{x} {y - 6:g}l6 6l-6 6l-6-6z"/>',
    }[shape]
    return f'<g fill="{colour}"><title>{escape(tip)}</title>{drawn}</g>'


def _legend(names: Sequence[str]) -> str:
    parts: list[str] = []
    x = float(_LABELS)
    for prefix in reversed([prefix for prefix in _PEERS if prefix in map(_peer, names)]):
        parts.append(_mark(prefix, x, _TOP - 18, prefix))
        parts.append(f'<text x="{x + 12:g}" y="{_TOP - 14}">{prefix}</text>')
        x += 40 + 7 * len(prefix)
    return "\n".join(parts)
