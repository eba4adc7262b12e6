"""The accesses of a finding drawn into their tensor, as SVG.

Of a tensor with more than two dimensions the last two are drawn. Small tensors show every element;
in large ones, each range between two marked indices is at least wide enough to be seen, so they
are not to scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from tilewright.machine.sanitize.reporting import Access
from tilewright.machine.tensors import Box

_CELL = 22.0
_LEAST_CELL = 6.0
_MOST_CELLS = 64
_LENGTHS = (560.0, 280.0)
"""The longest an axis may be: of columns, of rows."""
_LEAST = 12.0
_MARGIN_LEFT, _MARGIN_TOP, _MARGIN = 52.0, 24.0, 10.0
_LABEL_GAPS = (34.0, 13.0)

Rectangle = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class _Axis:
    """Where indices lie: ``cuts`` at ``places`` in pixels, in between in proportion."""

    cuts: tuple[int, ...]
    places: tuple[float, ...]
    extent: int
    is_to_scale: bool

    @classmethod
    def over(cls, extent: int, ranges: Iterable[tuple[int, int]], longest: float) -> _Axis:
        """An axis for a dimension and index ranges, which may stick out."""
        cuts = sorted({0, extent, *(index for pair in ranges for index in pair)})
        first, last = cuts[0], cuts[-1]
        if last - first <= _MOST_CELLS:
            every = tuple(range(first, last + 1))
            cell = min(_CELL, longest / max(len(every) - 1, 1))
            return cls(every, tuple((i - first) * cell for i in every), extent, True)
        longest = max(longest, (len(cuts) - 1) * _LEAST)
        spare = longest - (len(cuts) - 1) * _LEAST
        places = [0.0]
        for low, high in pairwise(cuts):
            places.append(places[-1] + _LEAST + spare * (high - low) / (last - first))
        return cls(tuple(cuts), tuple(places), extent, len(cuts) <= 2)

    def place(self, index: int) -> float:
        return self.places[self.cuts.index(index)]

    @property
    def cell(self) -> float:
        """The size of an element; 0 where not every index has a place of its own."""
        count = len(self.cuts) - 1
        return self.length / count if self.cuts[-1] - self.cuts[0] == count else 0.0

    @property
    def length(self) -> float:
        return self.places[-1]

    def labels(self, gap: float, marked: Iterable[int]) -> list[int]:
        """The indices to write: the ends of the tensor and of accesses, as far as there is room."""
        chosen: list[int] = []
        for index in [0, self.extent, *sorted(set(marked))]:
            if all(abs(self.place(index) - self.place(other)) >= gap for other in chosen):
                chosen.append(index)
        return chosen


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG element, and what has to be said about it."""

    svg: str
    notes: tuple[str, ...]


def draw(accesses: Sequence[Access], conflict: Sequence[Box], name: str) -> Drawing | None:
    """The tensor of the accesses with their elements and the conflict; None where there is none.

    ``name`` begins the ids inside. Accesses to several tensors, or to none, have no drawing.
    """
    tensors = {(a.elements.tensor, a.elements.shape) for a in accesses}
    if len(tensors) != 1:
        return None
    ((tensor, shape),) = tensors
    layers = [(f"side{_side(n, accesses)}", a.elements.boxes) for n, a in enumerate(accesses)]
    layers.append(("conflict", tuple(conflict)))
    boxes = [_flat(box) for _, several in layers for box in several]
    extents = _flat(tuple((0, extent) for extent in shape))
    rows, columns = (
        _Axis.over(extents[axis][1], (box[axis] for box in boxes), longest)
        for axis, longest in zip((0, 1), reversed(_LENGTHS), strict=True)
    )
    parts = [
        f'<rect class="tensor" {_attributes(_rectangle(extents, rows, columns))}/>',
        *_grid(rows, columns),
    ]
    for kind, several in layers:
        fill = f' fill="url(#{name}-hatch)"' if kind == "conflict" else ""
        for box in several:
            place = _attributes(_rectangle(_flat(box), rows, columns))
            parts.append(f'<rect class="{kind}"{fill} {place}/>')
    parts += _labels(rows, columns, boxes, len(shape))
    title = f"{tensor} {list(shape)}: " + "; ".join(
        f"{a.kind} of {a.elements} by tile block {a.block}" for a in accesses
    )
    return Drawing(
        _svg(name, title, parts, rows, columns), _notes(accesses, rows, columns, len(shape))
    )


def _side(number: int, accesses: Sequence[Access]) -> int:
    """1 for the earlier of two accesses, 2 for the later and for a single one."""
    return 2 if number == len(accesses) - 1 else 1


def _flat(box: Box) -> Box:
    """The last two dimensions; one row for fewer."""
    return ((0, 1), (0, 1), *box)[-2:]


def _rectangle(box: Box, rows: _Axis, columns: _Axis) -> Rectangle:
    (top, bottom), (left, right) = box
    x, y = columns.place(left), rows.place(top)
    return x, y, columns.place(right) - x, rows.place(bottom) - y


def _attributes(rectangle: Rectangle) -> str:
    x, y, width, height = rectangle
    return f'x="{_px(x)}" y="{_px(y)}" width="{_px(width)}" height="{_px(height)}"'


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _grid(rows: _Axis, columns: _Axis) -> list[str]:
    """Lines inside the tensor, where its elements are drawn one by one and large enough."""
    if min(rows.cell, columns.cell) < _LEAST_CELL:
        return []
    bottom, right = _px(rows.place(rows.extent)), _px(columns.place(columns.extent))
    top, left = _px(rows.place(0)), _px(columns.place(0))
    lines = [f"M{_px(columns.place(i))} {top}V{bottom}" for i in range(1, columns.extent)]
    lines += [f"M{left} {_px(rows.place(i))}H{right}" for i in range(1, rows.extent)]
    return [f'<path class="cells" d="{"".join(lines)}"/>'] if lines else []


def _labels(rows: _Axis, columns: _Axis, boxes: Sequence[Box], rank: int) -> list[str]:
    across, down = _LABEL_GAPS
    found: list[str] = []
    if rank:
        for index in columns.labels(across, (i for box in boxes for i in box[1])):
            x = _px(columns.place(index))
            found.append(f'<text x="{x}" y="-6" text-anchor="middle">{index}</text>')
    if rank > 1:
        for index in rows.labels(down, (i for box in boxes for i in box[0])):
            y = _px(rows.place(index) + 4)
            found.append(f'<text x="-6" y="{y}" text-anchor="end">{index}</text>')
    return found


def _svg(name: str, title: str, parts: Sequence[str], rows: _Axis, columns: _Axis) -> str:
    width = _MARGIN_LEFT + columns.length + 3 * _MARGIN
    height = _MARGIN_TOP + rows.length + _MARGIN
    return (
        f'<svg role="img" aria-labelledby="{name}-title" width="{_px(width)}" '
        f'height="{_px(height)}" viewBox="0 0 {_px(width)} {_px(height)}">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n'
        f'<defs><pattern id="{name}-hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect class="hatch-back" width="6" height="6"/>'
        '<rect class="hatch" width="2.5" height="6"/></pattern></defs>\n'
        f'<g transform="translate({_px(_MARGIN_LEFT)} {_px(_MARGIN_TOP)})">\n'
        + "\n".join(parts)
        + "\n</g>\n</svg>"
    )


def _notes(accesses: Sequence[Access], rows: _Axis, columns: _Axis, rank: int) -> tuple[str, ...]:
    notes: list[str] = []
    if rank > 2:
        notes.append(f"The last two of {rank} dimensions are drawn.")
    if not (rows.is_to_scale and columns.is_to_scale):
        notes.append("Not to scale.")
    if not all(access.elements.is_exact for access in accesses):
        notes.append("Some elements of the marked boxes are not accessed: they are scattered.")
    return tuple(notes)
