"""Modelled times of our code beside tileiras', drawn: a row for each kernel, a mark for each target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

Row = Mapping[str, Any]
_WIDTH, _LABELS, _RIGHT, _TOP, _ROW, _BOTTOM = 930, 300, 40, 80, 22, 40
_TICKS = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)
#: Colours that the colour blind can tell apart.
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44")
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #222 } .title { font-size: 15px; font-weight: 600 }
  .quiet { fill: #666 } .end { text-anchor: end } .middle { text-anchor: middle }
  .grid { stroke: #ddd } .one { stroke: #222; stroke-width: 1.5 } .ground { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd } .quiet { fill: #999 } .grid { stroke: #444 } .one { stroke: #ddd }
    .ground { fill: #16181c }
  }
"""


def drawing(rows: Sequence[Row], name: str = "modelled_seconds") -> str:
    """An SVG of ours / tileiras' on a logarithmic axis; kernels that one refuses have no mark."""
    held = {(row["kernel"], row["target"], row["compiler"]): row.get(name) for row in rows}
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    targets = list(dict.fromkeys(row["target"] for row in rows))
    ratios: dict[tuple[str, str], float] = {}
    for kernel in kernels:
        for target in targets:
            mine, theirs = (held.get((kernel, target, who)) for who in ("ours", "tileiras"))
            if mine and theirs:
                ratios[kernel, target] = mine / theirs
    low, high = _bounds(list(ratios.values()))

    def across(value: float) -> float:
        share = math.log(value / low) / math.log(high / low)
        return round(_LABELS + share * (_WIDTH - _LABELS - _RIGHT), 1)

    bottom = _TOP + _ROW * len(kernels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + _BOTTOM}" role="img">',
        "<title>Modelled time of our GPU code beside tileiras'</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{_WIDTH}" height="{bottom + _BOTTOM}"/>',
        '<text class="title" x="16" y="26">Modelled time, ours / tileiras</text>',
        '<text class="quiet" x="16" y="46">the same bytecode through both compilers, both read by one '
        "model; right of 1: ours is slower</text>",
    ]
    for tick in (tick for tick in _TICKS if low <= tick <= high):
        kind, x = ("one" if tick == 1 else "grid"), across(tick)
        parts.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="{_TOP - 6}" y2="{bottom}"/>')
        parts.append(f'<text class="quiet middle" x="{x}" y="{bottom + 18}">{tick:g}</text>')
    for number, kernel in enumerate(kernels):
        y = _TOP + _ROW * number + _ROW / 2
        parts.append(f'<text class="end" x="{_LABELS - 14}" y="{y + 4}">{escape(kernel)}</text>')
        for target, colour in zip(targets, _COLOURS, strict=False):
            if (kernel, target) in ratios:
                tip = f"{kernel}, {target}: {ratios[kernel, target]:.2f}"
                parts.append(
                    f'<circle cx="{across(ratios[kernel, target])}" cy="{y}" r="5" fill="{colour}">'
                    f"<title>{escape(tip)}</title></circle>"
                )
    for number, (target, colour) in enumerate(zip(targets, _COLOURS, strict=False)):
        x = _LABELS + 100 * number
        parts.append(f'<circle cx="{x}" cy="62" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{x + 10}" y="66">{escape(target)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    smallest, largest = min(values, default=1.0), max(values, default=1.0)
    low = max((tick for tick in _TICKS if tick <= smallest), default=smallest)
    high = min((tick for tick in _TICKS if tick >= largest), default=largest)
    return min(low, 0.5), max(high, 2)
