"""Texts of ``nv_tileas`` that the passes would not have made are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.passes.tileas.kernels import lowered, product

from tilewright.diagnostics import TileIRError
from tilewright.passes import run_pipeline
from tilewright.text import parse, print_text

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("warps", [3, 64, 1024])
@pytest.mark.parametrize("pipeline", ["tileas", "tileaa,tileas", "convert-tileas-to-nvgpu"])
def test_a_block_cannot_have_so_many(warps: int, pipeline: str) -> None:
    """Neither may a text of the level ask for it: the layouts have no room for them."""
    levels = "tileaa,tileas" if pipeline.startswith("convert") else "tileaa"
    text = print_text(lowered(product(), levels))
    assert "numWarps = 4" in text
    module = parse(text.replace("numWarps = 4", f"numWarps = {warps}"))
    with pytest.raises(TileIRError) as caught:
        run_pipeline(module, pipeline)
    assert caught.value.diagnostics[0].code == "bad-block-warps"


def test_tiles_without_layouts_are_no_input_of_the_last_lowering() -> None:
    """What the passes would not have made is refused, not a failed assertion."""
    text = (EXAMPLES / "softmax.tileir").read_text(encoding="utf-8")
    with pytest.raises(TileIRError, match="do not fit") as caught:
        lowered(text, "tileaa,convert-tileas-to-nvgpu")
    assert caught.value.diagnostics[0].code == "not-lowered-to-threads"
