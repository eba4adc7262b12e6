"""Drawings of the token graph: as DOT for Graphviz, and as SVG."""

from __future__ import annotations

from html import escape

from xdsl.ir import Operation

from tilewright.analysis.tileaa import Edge, TokenGraph
from tilewright.diagnostics.display import printable
from tilewright.dialects import nv_tileaa
from tilewright.text import Listing

_ROW, _LEFT, _STEP, _FONT = 26, 24, 14, 13
_DASHES, _ASIDE = "5 4", 18


def label(op: Operation, listing: Listing) -> str:
    """An effect as shown to users: its line, mnemonic and first operand."""
    name = op.name.removeprefix(f"{nv_tileaa.NAME}.")
    touched = f" {listing.name(op.operands[0])}" if op.operands else ""
    return f"{listing.line_of[op] + 1}: {name}{touched}"


def to_dot(graph: TokenGraph, listing: Listing) -> str:
    """The graph in DOT; dashed edges are between iterations of a loop."""
    numbers = {op: index for index, op in enumerate(graph.effects)}
    name = _quoted(graph.function.symbol)
    lines = [f"digraph {name} {{", "  node [shape=box, fontname=monospace];"]
    lines += [f"  n{n} [label={_quoted(label(op, listing))}];" for op, n in numbers.items()]
    for edge in graph.edges():
        style = " [style=dashed, constraint=false]" if edge.around else ""
        lines.append(f"  n{numbers[edge.before]} -> n{numbers[edge.after]}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def to_svg(graph: TokenGraph, listing: Listing, *, page: str = "") -> str:
    """An SVG drawing: effects in textual order, their ordering as arcs beside them.

    Dashed arcs are between iterations of a loop. ``page``: for a drawing in a page with the listing, the prefix of the
    ids of its lines, to which effects link.
    """
    rows = {op: index for index, op in enumerate(graph.effects)}
    edges = list(graph.edges())
    reach = max((abs(rows[e.before] - rows[e.after]) for e in edges), default=1)
    text_x = _LEFT + min(reach + 1, 12) * _STEP
    height = _ROW * (len(rows) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{text_x + 420}" height="{height}" '
        f'font-family="monospace" font-size="{_FONT}">',
        f'<defs><marker id="{page}arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>',
    ]
    parts += [_arc(edge, rows, text_x, f"{page}arrow") for edge in edges]
    for op, row in rows.items():
        y, line = _ROW * (row + 1), listing.line_of[op]
        text = (
            f'<text x="{text_x + 6}" y="{y + 4}" data-line="{line}">'
            f"{escape(label(op, listing))}</text>"
        )
        parts.append(f'<a href="#{page}{line + 1}">{text}</a>' if page else text)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _arc(edge: Edge, rows: dict[Operation, int], x: int, arrow: str) -> str:
    start, end = (_ROW * (rows[op] + 1) for op in (edge.before, edge.after))
    bend = x - min(abs(rows[edge.before] - rows[edge.after]) + 1, 12) * _STEP
    if edge.around:
        # Offset from an arc within an iteration that may connect the same two.
        bend -= _ASIDE
    if edge.before is edge.after:
        start, end = start - 5, end + 5
    dashes = f' stroke-dasharray="{_DASHES}"' if edge.around else ""
    return (
        f'<path d="M{x} {start}C{bend} {start} {bend} {end} {x} {end}" fill="none" '
        f'stroke="currentColor"{dashes} marker-end="url(#{arrow})"/>'
    )
