"""Texts of ``nv_tileas`` that the passes would not have made are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.passes.tileas.kernels import lowered, product
from tests.passes.tileas.test_tma import product as product_by_maps

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
    with pytest.raises(TileIRError, match="do not match") as caught:
        lowered(text, "tileaa,convert-tileas-to-nvgpu")
    assert caught.value.diagnostics[0].code == "not-lowered-to-threads"


HOPPER = "tileaa,tileas{target=sm_90a}"
#: A change of the text of a product by tensor maps and wgmma, and what is said about it.
MISPLACED = {
    "boxes": (r", #shared\d*>", ">", "does not have"),
    "stage": (r"offset = [1-9]\d* ", "offset = 65552 ", "repeats at multiples of 1024"),
}


@pytest.mark.parametrize("what", MISPLACED)
def test_storage_that_hardware_would_read_otherwise(what: str) -> None:
    """Tensor maps and wgmma swizzle by the bits of addresses, whatever a text says of its storage."""
    pattern, replacement, says = MISPLACED[what]
    text = print_text(lowered(product_by_maps(128, 128, 64), HOPPER))
    assert "wgmma" in text and "tiled_tma_load" in text
    changed, count = re.subn(pattern, replacement, text)
    assert count
    with pytest.raises(TileIRError, match=says) as caught:
        run_pipeline(parse(changed), "convert-tileas-to-nvgpu")
    assert caught.value.diagnostics[0].code == "not-lowered-to-threads"
    run_pipeline(parse(text), "convert-tileas-to-nvgpu")
