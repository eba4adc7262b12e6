"""Draws memory footprints as SVG: each tensor with what every tile block touches of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tilewright.diagnostics.display import printable
from tilewright.explain.footprints import Footprint
from tilewright.machine.grid import BlockId
from tilewright.machine.tensors import Box

_LENGTHS = (560.0, 300.0)
"""The maximum length of an axis in pixels: columns, rows."""
_CELL = 18.0
_LEAST = 1.5
_ROW = 34.0
_LEFT, _TOP, _MARGIN = 56.0, 22.0, 14.0

MAX_RECTANGLES = 20_000


@dataclass(frozen=True, slots=True)
class Drawing:
    """A tensor as an SVG element, with remarks about it."""

    tensor: str
    shape: tuple[int, ...]
    svg: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps the indices of an axis to pixels, proportionally."""

    extent: int
    length: float

    def range(self, first: int, end: int) -> tuple[float, float]:
        """Return the start and the length of a range; the length is always large enough to be visible."""
        each = self.length / max(self.extent, 1)
        return first * each, max((end - first) * each, _LEAST)


def draw_tensors(
    accesses: Sequence[Footprint], blocks: Sequence[BlockId], links: Mapping[Footprint, str]
) -> list[Drawing]:
    """Return a drawing for each tensor, in order of first access.

    Rectangles carry the kind as their class, the position of the tile block in ``blocks`` as ``data-block``,
    and the links of the access as ``data-links``.
    """
    left = MAX_RECTANGLES
    drawings: list[Drawing] = []
    numbers = {block: number for number, block in enumerate(blocks)}
    tensors: dict[tuple[str, tuple[int, ...]], list[Footprint]] = {}
    for access in accesses:
        tensors.setdefault((access.tensor, access.shape), []).append(access)
    for (name, shape), several in tensors.items():
        rows, columns = _scales(shape)
        rectangles = _rectangles(several, numbers, links, rows, columns)
        notes = _notes(several, shape, rows, columns)
        if len(rectangles) > left:
            notes.append(f"{len(rectangles) - left} rectangles are left out of the drawing.")
        svg = _svg(name, shape, rectangles[:left], rows, columns)
        left = max(0, left - len(rectangles))
        drawings.append(Drawing(name, shape, svg, tuple(notes)))
    return drawings


def _flat(box: Box) -> Box:
    """Return the last two dimensions of a box; one row if it has fewer."""
    return ((0, 1), (0, 1), *box)[-2:]


def _scales(shape: tuple[int, ...]) -> tuple[_Scale, _Scale]:
    """Return the scales of rows and columns, with square elements if those are visible in the given space."""
    rows, columns = (1, 1, *shape)[-2:]
    across, down = _LENGTHS
    if len(shape) < 2:
        return _Scale(1, _ROW), _Scale(columns, min(across, columns * _CELL))
    each = min(_CELL, across / max(columns, 1), down / max(rows, 1))
    if min(rows, columns) * each < _ROW:
        return (
            _Scale(rows, max(min(down, rows * _CELL), _ROW)),
            _Scale(columns, max(min(across, columns * _CELL), _ROW)),
        )
    return _Scale(rows, rows * each), _Scale(columns, columns * each)


def _rectangles(
    accesses: Sequence[Footprint],
    numbers: Mapping[BlockId, int],
    links: Mapping[Footprint, str],
    rows: _Scale,
    columns: _Scale,
) -> list[str]:
    found: list[str] = []
    for access in accesses:
        for block, boxes in access.boxes.items():
            for box in boxes:
                down, across = _flat(box)
                (y, height), (x, width) = rows.range(*down), columns.range(*across)
                found.append(
                    f'<rect class="{access.kind}" data-block="{numbers[block]}" '
                    f'data-links="{links[access]}" x="{_px(x)}" y="{_px(y)}" '
                    f'width="{_px(width)}" height="{_px(height)}"/>'
                )
    return found


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _svg(
    name: str, shape: tuple[int, ...], rectangles: Sequence[str], rows: _Scale, columns: _Scale
) -> str:
    width = _LEFT + columns.length + 3 * _MARGIN
    height = _TOP + rows.length + _MARGIN
    labels = ['<text x="0" y="-6">0</text>'] if shape else []
    if shape:
        at = _px(columns.length)
        labels.append(f'<text x="{at}" y="-6" text-anchor="middle">{shape[-1]}</text>')
    if len(shape) > 1:
        labels.append('<text x="-6" y="10" text-anchor="end">0</text>')
        at = _px(rows.length)
        labels.append(f'<text x="-6" y="{at}" text-anchor="end">{shape[-2]}</text>')
    title = printable(f"Elements of {name} that tile blocks touch")
    return (
        f'<svg role="img" aria-label="{escape(title)}" width="{_px(width)}" '
        f'height="{_px(height)}" viewBox="0 0 {_px(width)} {_px(height)}">\n'
        f'<g transform="translate({_px(_LEFT)} {_px(_TOP)})">\n'
        f'<rect class="tensor" width="{_px(columns.length)}" height="{_px(rows.length)}"/>\n'
        + "\n".join([*rectangles, *labels])
        + "\n</g>\n</svg>"
    )


def _notes(
    accesses: Sequence[Footprint], shape: tuple[int, ...], rows: _Scale, columns: _Scale
) -> list[str]:
    notes: list[str] = []
    if len(shape) > 2:
        notes.append(f"The last two of {len(shape)} dimensions are drawn.")
    if len(shape) > 1 and rows.length * columns.extent != columns.length * rows.extent:
        notes.append("Rows and columns are drawn at different scales.")
    if not all(access.is_exact for access in accesses):
        notes.append("Some elements of the marked boxes are not touched: they are scattered.")
    return notes
