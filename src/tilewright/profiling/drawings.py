"""SVG drawings of a profile: the roofline, and the timeline of a block's warps."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator

from tilewright.model.profile import Profile, WarpRow
from tilewright.model.tables import Gpu

#: The legend of a timeline's colours; units that are not listed are drawn as `other`.
KINDS = {
    "wait": "waiting",
    "tensor": "products",
    "tma": "bulk copies and global memory",
    "shared": "shared memory",
    "sfu": "special functions",
    "sync": "barriers",
    "other": "other work",
}
_ALIKE = {"global": "tma"}
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 370, 250, 52, 10, 12, 34
_ROW, _NAME, _LONG = 18, 96, 1100


def roofline(found: Profile, gpu: Gpu, before: float | None = None) -> str:
    """The roofline plot: performance over arithmetic intensity, both logarithmic. Work is counted in flops if the
    kernel uses tensor cores, else in warp instructions. ``before``: the seconds of an earlier version, drawn as a ring.
    """
    has_products = found.flops > 0
    sms, clock = gpu["sms"], gpu["clock"] * 1e9
    blocks = math.prod(found.grid)
    work = found.flops if has_products else found.instructions * blocks
    busy = found.shares.get("tensor", 0)
    peak = (
        work / (busy * found.seconds) if has_products and busy else gpu["issue_rate"] * sms * clock
    )
    memory = gpu["hbm_rate"] * 1e9 * gpu["hbm_share"]
    size = max(found.memory_bytes, 1.0)
    intensity, speed = work / size, work / found.seconds
    ridge = peak / memory
    low = math.floor(math.log10(min(intensity, ridge))) - 1
    high = math.ceil(math.log10(max(intensity, ridge))) + 1
    top = math.ceil(math.log10(peak)) + 0.2
    bottom = min(math.log10(memory) + low, math.log10(speed) - 0.5)

    def x(value: float) -> float:
        return _LEFT + (math.log10(value) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        part = (math.log10(value) - bottom) / (top - bottom)
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)

    unit = "flop" if has_products else "instructions"
    first = 10.0**low
    parts = [
        *_axes(low, high, math.ceil(bottom), math.floor(top), x, y, unit),
        f'<path class="roof" d="M{x(first):.1f} {y(memory * first):.1f}L{x(ridge):.1f} {y(peak):.1f}'
        f'H{_WIDTH - _RIGHT}"/>',
        f'<text class="quiet" x="{_WIDTH - _RIGHT}" y="{y(peak) - 4:.1f}" text-anchor="end">'
        f"{_number(peak)} {unit}/s</text>",
        f'<circle class="point" cx="{x(intensity):.1f}" cy="{y(speed):.1f}" r="5">'
        f"<title>{_number(speed)} {unit}/s at {intensity:.3g} a byte</title></circle>",
    ]
    if before:
        parts.append(
            f'<circle class="was" cx="{x(intensity):.1f}" cy="{y(work / before):.1f}" r="7">'
            f"<title>before: {_number(work / before)} {unit}/s</title></circle>"
        )
    return (
        f'<svg role="img" aria-label="Roofline" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}">{"".join(parts)}</svg>'
    )


def _axes(
    low: int,
    high: int,
    bottom: int,
    top: int,
    x: Callable[[float], float],
    y: Callable[[float], float],
    unit: str,
) -> Iterator[str]:
    floor = _HEIGHT - _BOTTOM
    for power in range(low, high + 1):
        at = x(10.0**power)
        yield f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{floor}"/>'
        if (power - low) % 2 == 0:
            shown = f"{10.0**power:g}"
            yield f'<text class="quiet" x="{at:.1f}" y="{floor + 14}" text-anchor="middle">{shown}</text>'
    for power in range(bottom, top + 1):
        at = y(10.0**power)
        yield f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        shown = _number(10.0**power)
        yield f'<text class="quiet" x="{_LEFT - 5}" y="{at + 4:.1f}" text-anchor="end">{shown}</text>'
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield (
        f'<text class="quiet" x="{middle}" y="{_HEIGHT - 4}" text-anchor="middle">{unit} for each byte of '
        "memory</text>"
    )


def _number(value: float) -> str:
    for letter, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"


def timeline(found: Profile) -> str:
    """The timeline of a block that runs alone, one row per warp, as far as it was recorded."""
    rows = found.timeline
    ends = [row.spans[-1].end for row in rows if row.spans]
    if not ends:
        return "<p>Nothing is executed.</p>"
    cut = any(row.cut for row in rows)
    # If rows are truncated, show all rows up to the earliest truncation.
    last = min(row.spans[-1].end for row in rows if row.cut) if cut else max(ends)
    scale = (_LONG - _NAME - 10) / max(last, 1)
    texts = {cost.address: cost.text for cost in found.costs}
    parts = [
        part for number, row in enumerate(rows) for part in _row(number, row, last, scale, texts)
    ]
    height = len(rows) * _ROW + 24
    more = f", of {found.block_latency:,}" if cut else ""
    parts.append(f'<text class="quiet" x="{_NAME}" y="{height - 6}">0</text>')
    parts.append(
        f'<text class="quiet" x="{_LONG - 10}" y="{height - 6}" text-anchor="end">{last:,} clocks{more}</text>'
    )
    return (
        f'<svg role="img" aria-label="Timeline of a block" width="{_LONG}" height="{height}" '
        f'viewBox="0 0 {_LONG} {height}">{"".join(parts)}</svg>'
    )


def _row(
    number: int, row: WarpRow, last: int, scale: float, texts: dict[int, str]
) -> Iterator[str]:
    top = number * _ROW
    yield f'<text x="0" y="{top + 13}">{row.warp} <tspan class="quiet">{row.role}</tspan></text>'
    for span in row.spans:
        if span.start >= last:
            break
        end = min(span.end, last)
        kind = _ALIKE.get(span.kind, span.kind)
        kind = kind if kind in KINDS else "other"
        what = texts.get(span.producer if span.producer is not None else span.address, "")
        word = "waits for" if span.kind == "wait" else span.kind
        title = html.escape(f"{span.start:,} to {span.end:,}: {word} {what}")
        yield (
            f'<rect class="k-{kind}" x="{_NAME + span.start * scale:.1f}" y="{top + 2}" '
            f'width="{max((end - span.start) * scale, 0.4):.2f}" height="{_ROW - 4}"><title>{title}</title></rect>'
        )
