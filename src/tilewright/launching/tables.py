"""Markdown tables of machines and launch options, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.launching.machine import MACHINES
from tilewright.launching.options import NVGPU, OPTIONS, TILE_IR, OptionInfo


def machines_table() -> str:
    """One row per kind of machine: its purpose, levels and requirements."""
    rows = (
        (
            f"`{each.spelled}`",
            each.summary,
            ", ".join(f"`{level}`" for level in each.levels),
            each.needs,
        )
        for each in MACHINES.values()
    )
    return _table(("machine", "what it does", "runs", "needs"), rows)


def options_table() -> str:
    """One row per option: its meaning, values and default, and a column per machine."""
    rows = (
        (
            f"`{info.name}`",
            info.meaning + _only(info),
            info.values,
            f"`{info.shown_default}`",
            *("yes" if kind in info.machines else "" for kind in MACHINES),
        )
        for info in OPTIONS.values()
    )
    return _table(
        ("option", "meaning", "values", "default", *(f"`{kind}`" for kind in MACHINES)), rows
    )


def _only(info: OptionInfo) -> str:
    return " For kernels of `nvgpu`." if NVGPU in info.levels and TILE_IR not in info.levels else ""


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
