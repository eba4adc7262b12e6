"""Bodies of reductions, scans and generated tiles that hold more than element-wise operations."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cpu.codegen.differential import agree

_LOOP = """
  %step = arith.constant 1 : i32
  %none = arith.constant 0 : i32
  %ten = arith.constant 7 : i32
  %few = arith.andi %e, %ten : i32
  %found = scf.for %i = %none to %few step %step iter_args(%acc = %sum) -> (i32) : i32 {
    %next = arith.addi %acc, %i : i32
    scf.yield %next : i32
  }
"""
_TILES = """
  %t = nv_tileaa.splat %e : i32 -> tile<8xi32>
  %r8 = nv_tileaa.make_range {start = 0, end = 8} : tile<8xi32>
  %p = arith.muli %t, %r8 : tile<8xi32>
  %inner = nv_tileaa.reduce %p {axis = 0 : i32, identities = [0 : i32]} : tile<8xi32> -> i32 {
  ^bb1(%a: i32, %b: i32):
    %c = arith.xori %a, %b : i32
    nv_tileaa.yield %c : i32
  }
  %found = arith.addi %inner, %sum : i32
"""
_GRID = """
  %block = nv_tileaa.get_program_id {axis = 0 : i32} : i32
  %count = nv_tileaa.get_num_programs {axis = 0 : i32} : i32
  %size = nv_tileaa.get_dim_size %mem_x {axis = 1 : i32} : MEMREF -> index
  %extent = arith.index_cast %size : index to i32
  %three = arith.constant 3 : i32
  %old = arith.muli %sum, %three : i32
  %some = arith.addi %old, %block : i32
  %more = arith.addi %some, %count : i32
  %most = arith.addi %more, %extent : i32
  %found = arith.addi %most, %e : i32
"""
_BRANCHES = """
  %limit = arith.constant 0 : i32
  %low = arith.cmpi slt, %e, %limit : i32
  %found = scf.if %low -> (i32) {
    %wide = nv_tileaa.splat %sum : i32 -> tile<2xi32>
    %first = nv_tileaa.extract %wide[%limit] : tile<2xi32>, i32 -> i32
    scf.yield %first : i32
  } else {
    %d = arith.divsi %sum, %e : i32
    %f = arith.addi %d, %e : i32
    scf.yield %f : i32
  }
"""
BODIES = {"loop": _LOOP, "tiles": _TILES, "grid": _GRID, "branches": _BRANCHES}


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", BODIES)
def test_folds(name: str, axis: int) -> None:
    x = np.random.default_rng(2).integers(-9, 99, (4, 2, 8), np.int32)
    x[x == 0] = 1
    ref = "!nv_tileaa.memref<4x2x8xi32, strides = [16, 8, 1], 1>"
    body = BODIES[name].replace("MEMREF", ref)
    rest = tuple(extent for a, extent in enumerate(x.shape) if a != axis)
    result = f"tile<{rest[0]}x{rest[1]}xi32>"
    agree(
        f"""
%r = nv_tileaa.reduce %x {{axis = {axis} : i32, identities = [3 : i32]}}
  : tile<4x2x8xi32> -> {result} {{
^bb0(%e: i32, %sum: i32):
  {body}
  nv_tileaa.yield %found : i32
}}
%s = nv_tileaa.scan %x {{axis = {axis} : i32, identities = [3 : i32]}}
  : tile<4x2x8xi32> -> tile<4x2x8xi32> {{
^bb0(%e: i32, %sum: i32):
  {body}
  nv_tileaa.yield %found : i32
}}
%u = nv_tileaa.scan %x {{axis = {axis} : i32, reverse = true, identities = [3 : i32]}}
  : tile<4x2x8xi32> -> tile<4x2x8xi32> {{
^bb0(%e: i32, %sum: i32):
  {body}
  nv_tileaa.yield %found : i32
}}
""",
        {"x": x},
        {
            "r": np.zeros(rest, np.int32),
            "s": np.zeros_like(x),
            "u": np.zeros_like(x),
        },
    )


def test_a_fold_of_two_tiles_to_scalars() -> None:
    """Index and value of the largest element, in a loop whose tiles stay in their buffers."""
    x = np.random.default_rng(3).standard_normal(16).astype(np.float32)
    agree(
        """
%one = arith.constant 1 : index
%two = arith.constant 2 : index
%n = nv_tileaa.make_range {start = 0, end = 16} : tile<16xi32>
%r, %s, %last = scf.for %k = %zero to %two step %one iter_args(%a = %v, %b = %w, %y = %x)
    -> (f32, i32, tile<16xf32>) {
  %f, %g = nv_tileaa.reduce %y, %n {axis = 0 : i32, identities = [-1.0e30 : f32, -1 : i32]}
    : tile<16xf32>, tile<16xi32> -> f32, i32 {
  ^bb0(%e: f32, %best: f32, %i: i32, %at: i32):
    %pair = nv_tileaa.splat %e : f32 -> tile<2xf32>
    %again = nv_tileaa.extract %pair[%zero] : tile<2xf32>, index -> f32
    %larger = arith.cmpf ogt, %again, %best : f32
    %p = arith.select %larger, %e, %best : f32
    %q = arith.select %larger, %i, %at : i32
    nv_tileaa.yield %p, %q : f32, i32
  }
  %z = nv_tileaa.addf %y, %y : tile<16xf32>
  scf.yield %f, %g, %z : f32, i32, tile<16xf32>
}
""",
        {"x": x, "v": np.zeros((), np.float32), "w": np.zeros((), np.int32)},
        {
            "r": np.zeros((), np.float32),
            "s": np.zeros((), np.int32),
            "last": np.zeros_like(x),
        },
    )


def test_generated_tiles() -> None:
    agree(
        """
%r = nv_tileaa.generate %n : i32 -> tile<4x8xi32> {
^bb0(%row: index, %column: index):
  %t = nv_tileaa.make_range {start = 0, end = 64} : tile<64xi32>
  %m = nv_tileaa.view %t : tile<64xi32> -> tile<8x8xi32>
  %e = nv_tileaa.extract %m[%column, %row] : tile<8x8xi32>, index, index -> i32
  %s = arith.muli %e, %n : i32
  nv_tileaa.yield %s : i32
}
%u = arith.addi %r, %r : tile<4x8xi32>
""",
        {"n": np.array(3, np.int32)},
        {"r": np.zeros((4, 8), np.int32), "u": np.zeros((4, 8), np.int32)},
        grid=1,
    )
