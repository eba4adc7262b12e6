"""Kernels to explain, and their pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilewright import parse
from tilewright.explain.footprints import Footprints, record_footprints
from tilewright.explain.levels import Explanation, explain_kernel
from tilewright.explain.page import render_page

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

HOSTILE_TEXT = "</script><script>document.title = 'taken'</script>"
HOSTILE = f"""\
// <img src=x onerror="document.title = 'taken'"> & <b>bold</b> {HOSTILE_TEXT}
entry @hostile(%x: tile<ptr<f32>>) {{
  %n = constant <i32: 4> : tile<i32>
  print_tko "{HOSTILE_TEXT} %i", %n : tile<i32> -> token
  return
}}
"""


def explain_example(name: str, **options: object) -> Explanation:
    """The levels of one of our examples; those of tiles, where nothing else is asked for."""
    options.setdefault("below", ())
    path = EXAMPLES / f"{name}.tileir"
    module = parse(path.read_text(encoding="utf-8"), str(path))
    return explain_kernel(module, **options)  # type: ignore[arg-type]


def footprints_of(
    found: Explanation, grid: int | Sequence[int], args: Sequence[object]
) -> Footprints:
    return record_footprints(found.module, None, grid, args)


def matmul_arguments() -> list[object]:
    """A product of 150 x 100 and 100 x 90: three by two tile blocks, four steps along k."""
    a, b = (np.ones(shape, np.float16) for shape in ((150, 100), (100, 90)))
    return [a, b, np.zeros((150, 90), np.float32), 150, 90, 100]


def matmul_page() -> str:
    found = explain_example("matmul", grid=(3, 2))
    return render_page(found, footprints_of(found, (3, 2), matmul_arguments()))


def tile_levels(found: Explanation) -> list[str]:
    """The levels of a kernel down to nv_tileaa."""
    keys = [level.key for level in found.levels]
    return [key for key in keys if key.startswith("source") or key in _TILES]


_TILES = ("tile", "lowered", "final")
