"""Which values are known to hold no NaN that signals, and which only the NaN of extrema."""

from __future__ import annotations

import pytest
from tests.analysis.tileaa.reading import read

from tilewright.cpu.codegen.analysis.nans import find_canonical, find_quiet

_BODY = """
  %m = arith.maximumf %x, %y : tile<4x8xf32>
  %both = arith.select %c, %m, %m : tile<4x8xf32>
  %one = arith.select %c, %m, %x : tile<4x8xf32>
  %moved = nv_tileaa.permute %m {permutation = array<i64: 1, 0>} : tile<4x8xf32> -> tile<8x4xf32>
  %moved_x = nv_tileaa.permute %x {permutation = array<i64: 1, 0>} : tile<4x8xf32> -> tile<8x4xf32>
  %cat = nv_tileaa.cat %m, %x {axis = 0} : tile<4x8xf32>, tile<4x8xf32> -> tile<8x8xf32>
  %sum = nv_tileaa.addf %x, %y : tile<4x8xf32>
  %chosen = arith.select %c, %m, %sum : tile<4x8xf32>
  %k = arith.constant dense<1.0> : tile<4x8xf32>
  %once = nv_tileaa.mulf %x, %k : tile<4x8xf32>
  %r0, %r1 = nv_tileaa.reduce %m, %x {axis = 1 : i32, identities = [0xFF800000 : f32, 0xFF800000 : f32]}
    : tile<4x8xf32>, tile<4x8xf32> -> tile<4xf32>, tile<4xf32> {
  ^bb0(%a: f32, %b: f32, %e: f32, %f: f32):
    nv_tileaa.yield %a, %e : f32, f32
  }
  %r2 = nv_tileaa.reduce %m {axis = 1 : i32, identities = [0xFF800000 : f32]} : tile<4x8xf32> -> tile<4xf32> {
  ^bb0(%g: f32, %h: f32):
    nv_tileaa.yield %g : f32
  }
  %not = arith.negf %m : tile<4x8xf32>
  %none = arith.constant 0 : i32
  %some = arith.constant 4 : i32
  %l0, %l1, %l2, %l3 = scf.for %i = %none to %some step %some iter_args(%c0 = %k, %c1 = %k, %c2 = %x, %c3 = %k)
    -> (tile<4x8xf32>, tile<4x8xf32>, tile<4x8xf32>, tile<4x8xf32>) : i32 {
    %n0 = arith.maximumf %c0, %x : tile<4x8xf32>
    %n1 = nv_tileaa.addf %c1, %y : tile<4x8xf32>
    %n2 = arith.maximumf %c2, %x : tile<4x8xf32>
    scf.yield %n0, %n1, %n2, %c2 : tile<4x8xf32>, tile<4x8xf32>, tile<4x8xf32>, tile<4x8xf32>
  }
  %i0, %i1, %i2 = scf.if %c -> (tile<4x8xf32>, tile<4x8xf32>, tile<4x8xf32>) {
    scf.yield %m, %l0, %x : tile<4x8xf32>, tile<4x8xf32>, tile<4x8xf32>
  } else {
    scf.yield %l0, %sum, %m : tile<4x8xf32>, tile<4x8xf32>, tile<4x8xf32>
  }
"""


@pytest.mark.parametrize(
    ("name", "canonical", "quiet"),
    [
        ("m", True, True),
        ("both", True, True),
        ("one", False, False),
        ("moved", True, True),
        ("moved_x", False, False),
        ("cat", False, False),
        ("sum", False, True),
        ("chosen", False, True),
        ("k", True, True),
        ("once", False, False),  # which LLVM takes for %x
        ("a", False, False),  # %x may be what the arguments hold
        ("g", False, True),
        ("not", False, False),
        ("c0", True, True),
        ("l0", True, True),
        ("c1", False, True),
        ("l1", False, True),
        ("c2", False, False),  # it begins as %x
        ("l2", False, False),
        ("c3", False, False),  # it goes on as what begins as %x
        ("l3", False, False),
        ("i0", True, True),
        ("i1", False, True),
        ("i2", False, False),
    ],
)
def test_what_is_known_of_a_value(name: str, canonical: bool, quiet: bool) -> None:
    found = read(
        _BODY, arguments="%x: !nv_tileaa.tile<4x8xf32>, %y: !nv_tileaa.tile<4x8xf32>, %c: i1"
    )
    value, ops = found.value(name), list(found.function.walk())
    assert (value in find_canonical(ops)) is canonical
    assert (value in find_quiet(ops)) is quiet
