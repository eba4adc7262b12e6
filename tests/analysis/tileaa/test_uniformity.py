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


_CONTROL = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %id = nv_tileaa.get_program_id {axis = 0 : i32} : i32
  %s = nv_tileaa.splat %n : i32 -> tile<8xi32>
  %r = nv_tileaa.make_range {start = 0 : i64, end = 8 : i64} : tile<8xi32>
  %mine = nv_tileaa.splat %id : i32 -> tile<8xi32>
  %known = arith.cmpi slt, %n, %c1 : i32
  %differs = arith.cmpi slt, %id, %c1 : i32
"""


def _for(bounds: str, *, first: str = "%s", then: str = "%s") -> str:
    return f"""
      %found = scf.for %i = {bounds} iter_args(%a = {first}) -> (!nv_tileaa.tile<8xi32>) : i32 {{
        scf.yield {then} : !nv_tileaa.tile<8xi32>
      }}"""


def _if(condition: str, then: str = "%s", other: str = "%s") -> str:
    return f"""
      %found = scf.if {condition} -> (!nv_tileaa.tile<8xi32>) {{
        scf.yield {then} : !nv_tileaa.tile<8xi32>
      }} else {{
        scf.yield {other} : !nv_tileaa.tile<8xi32>
      }}"""


def _while(condition: str) -> str:
    return f"""
      %found = scf.while (%a = %s) : (!nv_tileaa.tile<8xi32>) -> !nv_tileaa.tile<8xi32> {{
        scf.condition({condition}) %a : !nv_tileaa.tile<8xi32>
      }} do {{
      ^bb0(%b: !nv_tileaa.tile<8xi32>):
        scf.yield %b : !nv_tileaa.tile<8xi32>
      }}"""


_LOAD = (
    "%found, %o = nv_tileaa.load %p, %k : !nv_tileaa.ptr<f32, 1>, !nv_tileaa.mem_token "
    "-> f32, !nv_tileaa.mem_token"
)


@pytest.mark.parametrize(
    ("body", "lanes", "blocks"),
    [
        (_for("%c0 to %n step %c1"), True, True),
        (_for("%c0 to %id step %c1"), True, False),
        (_for("%id to %n step %c1"), True, False),
        (_for("%c0 to %n step %id"), True, False),
        (_for("%c0 to %n step %c1", then="%r"), False, True),
        (_for("%c0 to %n step %c1", first="%r"), False, True),
        (_for("%c0 to %n step %c1", then="%mine"), True, False),
        (_for("%c0 to %n step %c1", first="%mine"), True, False),
        (_if("%known"), True, True),
        (_if("%differs"), True, False),
        (_if("%known", then="%r"), False, True),
        (_if("%known", other="%mine"), True, False),
        (_while("%known"), True, True),
        (_while("%differs"), True, False),
        ("%found = arith.addi %s, %r : !nv_tileaa.tile<8xi32>", False, True),
        ("%found = arith.addi %s, %mine : !nv_tileaa.tile<8xi32>", True, False),
        ("%found = arith.addi %t, %s : !nv_tileaa.tile<8xi32>", False, True),
        ("%found = arith.addi %n, %c1 : i32", True, True),
        # What memory holds is not known.
        (_LOAD, True, False),
    ],
)
def test_control_and_computing(body: str, lanes: bool, blocks: bool) -> None:
    found = read(
        f"%k = nv_tileaa.create_mem_token : !nv_tileaa.mem_token\n{_CONTROL}\n{body}",
        arguments="%p: !nv_tileaa.ptr<f32, 1>, %n: i32, %t: !nv_tileaa.tile<8xi32>",
    )
    uniformity = found.facts.uniformities.of(found.value("found"))
    assert (uniformity.lanes, uniformity.blocks) == (lanes, blocks)


def test_a_counter_differs_with_any_of_its_bounds() -> None:
    for bounds, blocks in (("%c0 to %n step %c1", True), ("%id to %n step %c1", False)):
        found = read(f"{_CONTROL}\n{_for(bounds)}", arguments="%n: i32")
        uniformity = found.facts.uniformities.of(found.value("i"))
        assert uniformity.lanes and uniformity.blocks is blocks
