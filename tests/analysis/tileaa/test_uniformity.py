"""What varies between the elements of a tile, and between tile blocks, by hand."""

from __future__ import annotations

import pytest
from tests.analysis.tileaa.reading import read

_TILES = """
  %s = nv_tileaa.splat %n : i32 -> tile<4x8xi32>
  %o = nv_tileaa.splat %m : i32 -> tile<4x8xi32>
  %r = nv_tileaa.make_range {start = 0 : i64, end = 8 : i64} : tile<8xi32>
"""


@pytest.mark.parametrize(
    ("op", "lanes"),
    [
        (
            "nv_tileaa.permute %s {permutation = array<i64: 1, 0>} : tile<4x8xi32> -> tile<8x4xi32>",
            True,
        ),
        ("nv_tileaa.view %s : tile<4x8xi32> -> tile<32xi32>", True),
        ("nv_tileaa.view %r : tile<8xi32> -> tile<2x4xi32>", False),
        ("arith.addi %s, %o : tile<4x8xi32>", True),
        # Two tiles, each of equal elements, need not be equal to one another.
        ("nv_tileaa.cat %s, %o {axis = 0} : tile<4x8xi32>, tile<4x8xi32> -> tile<8x8xi32>", False),
    ],
)
def test_moved_elements(op: str, lanes: bool) -> None:
    found = read(f"{_TILES}\n%found = {op}", arguments="%n: i32, %m: i32")
    assert found.facts.uniformities.of(found.value("found")).lanes is lanes
    assert found.facts.uniformities.of(found.value("found")).blocks


def test_blocks_differ_by_their_number() -> None:
    found = read(
        "%id = nv_tileaa.get_program_id {axis = 0 : i32} : i32\n"
        "%s = nv_tileaa.splat %id : i32 -> tile<8xi32>"
    )
    uniformity = found.facts.uniformities.of(found.value("s"))
    assert uniformity.lanes and not uniformity.blocks
