"""Pipelines of loops that stand in branches, and in loops without a counter: where a ring goes on is carried through these."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.test_tma import how, launch, product
from tests.sampling import some

from tilewright import LaunchOptions
from tilewright.dialects.nv_tileas.pipelines import AsyncTiledTmaLoadOp
from tilewright.machine.launch import Program
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

TILE = (64, 64, 32)
SUMS = "tile<64x64xf32>"
HEAD = f"  %sum = for %o in (%zero to %two, step %one) : tile<i32> iter_values(%outer = %nothing) -> ({SUMS}) {{\n"
END = f"    continue %part : {SUMS}\n  }}\n"
COUNTED = "%next_o = addi %o, %one : tile<i32>\n"
#: What stands in the place of the outer loop: its head, and its end.
AROUND = {
    "while": (
        f"""
  %sum = loop iter_values(%outer = %nothing, %o = %zero) : {SUMS}, tile<i32> -> {SUMS} {{
    %done = cmpi greater_than_or_equal %o, %two, signed : tile<i32> -> tile<i1>
    if %done {{
      break %outer : {SUMS}
    }}
""",
        f"    {COUNTED}    continue %part, %next_o : {SUMS}, tile<i32>\n  }}\n",
    ),
    "behind the test": (
        f"""
  %sum = loop iter_values(%outer = %nothing, %o = %zero) : {SUMS}, tile<i32> -> {SUMS} {{
""",
        f"""
    {COUNTED}
    %done = cmpi greater_than_or_equal %next_o, %two, signed : tile<i32> -> tile<i1>
    if %done {{
      break %part : {SUMS}
    }}
    continue %part, %next_o : {SUMS}, tile<i32>
  }}
""",
    ),
    "branch": (
        f"""
  %sum = for %o in (%zero to %four, step %one) : tile<i32> iter_values(%outer = %nothing) -> ({SUMS}) {{
    %rest = remi %o, %two signed : tile<i32>
    %even = cmpi equal %rest, %zero, signed : tile<i32> -> tile<i1>
    %made = if %even -> ({SUMS}) {{
""",
        f"""
      yield %part : {SUMS}
    }} else {{
      yield %outer : {SUMS}
    }}
    continue %made : {SUMS}
  }}
""",
    ),
}


def text(around: str) -> str:
    whole = product(*TILE, nested=True)
    head, end = AROUND[around]
    four = "  %four = constant <i32: 4> : tile<i32>\n"
    assert HEAD.strip() in whole
    assert END.strip() in whole
    start = whole.index(HEAD.strip())
    whole = whole[:start] + four.strip() + "\n" + whole[start:]
    return whole.replace(HEAD.strip(), head.strip()).replace(END.strip(), end.strip())


@pytest.mark.parametrize("around", AROUND)
def test_both_sides_compute_the_same(around: str) -> None:
    layouts = "tileaa,tileas-assign-layouts{target=sm_90a}"
    modules = [
        K.lowered(text(around), passes)
        for passes in (
            layouts,
            f"{layouts},tileas-tma{{stages=3}}",
            f"{layouts},tileas-tma{{stages=3}},tileas-expand",
        )
    ]
    assert any(isinstance(op, AsyncTiledTmaLoadOp) for op in modules[1].walk())
    assert print_text(parse(print_text(modules[2]))) == print_text(modules[2])
    for depth in (0, 1, 32, 100, 192):
        results = [
            launch(Program(module), (64, 60, depth), TILE, how(nested=True)) for module in modules
        ]
        for found, right in results:
            np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_120a"])
@pytest.mark.parametrize("around", AROUND)
def test_any_order_of_warps(around: str, arch: str) -> None:
    program = TileProgram(parse(text(around)), arch)
    for seed in some(range(5)):
        options = {"options": LaunchOptions(seed=seed)}
        found, right = launch(program, (64, 60, 160), TILE, how(nested=True, options=options))
        np.testing.assert_array_equal(found, right)
    assert not program.fallbacks
