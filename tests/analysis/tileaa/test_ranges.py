"""Integer ranges, with answers worked out by hand."""

from __future__ import annotations

import pytest
from tests.analysis.tileaa.reading import read

from tilewright.analysis.tileaa import Range

_BOUNDED = "{} = nv_tileaa.assume %n {{predicates = [#nv_tileaa.bounded<{}, {}>]}} : i32\n"

CASES = [
    ("%r = arith.constant 7 : i32", (7, 7)),
    ("%r = arith.constant dense<[-3, 9]> : tile<2xi32>", (-3, 9)),
    ("%r = nv_tileaa.get_program_id {axis = 0 : i32} : i32", (0, 2**24 - 2)),
    ("%r = nv_tileaa.get_num_programs {axis = 0 : i32} : i32", (1, 2**24 - 1)),
    ("%c = arith.constant 100 : i32\n%r = arith.addi %n, %c : i32", (-(2**31), 2**31 - 1)),
    (
        "%c = arith.constant 100 : i32\n%r = arith.addi %n, %c overflow<nsw> : i32",
        (-(2**31) + 100, 2**31 - 1),
    ),
    (
        "%c = arith.constant 100 : i32\n%r = arith.addi %n, %c overflow<nuw> : i32",
        (-(2**31), 2**31 - 1),  # of the unsigned reading alone
    ),
    ("%c = arith.constant 100 : i32\n%r = arith.subi %n, %c : i32", (-(2**31), 2**31 - 1)),
    (
        "%c = arith.constant 100 : i32\n%r = arith.subi %n, %c overflow<nsw> : i32",
        (-(2**31), 2**31 - 101),
    ),
    (
        "%b = nv_tileaa.get_program_id {axis = 0 : i32} : i32\n%c = arith.constant 128 : i32\n"
        "%r = arith.muli %b, %c : i32",
        (0, (2**24 - 2) * 128),
    ),
    (
        "%b = nv_tileaa.get_program_id {axis = 0 : i32} : i32\n%c = arith.constant 256 : i32\n"
        "%r = arith.muli %b, %c : i32",
        (-(2**31), 2**31 - 1),  # it can wrap around
    ),
    (
        "%m = nv_tileaa.assume %n {predicates = [#nv_tileaa.bounded<0, 1000>]} : i32\n"
        "%c = arith.constant 32 : i32\n%r = arith.divsi %m, %c : i32",
        (0, 31),
    ),
    (
        "%m = nv_tileaa.assume %n {predicates = [#nv_tileaa.bounded<1, 1000>]} : i32\n"
        "%c = arith.constant 32 : i32\n%r = arith.ceildivsi %m, %c : i32",
        (1, 32),
    ),
    ("%c = arith.constant 8 : i32\n%r = arith.remsi %n, %c : i32", (-7, 7)),
    (_BOUNDED.format("%d", 0, 8) + "%r = arith.remsi %n, %d : i32", (-(2**31), 2**31 - 1)),
    (_BOUNDED.format("%d", 1, 8) + "%r = arith.remsi %n, %d : i32", (-7, 7)),
    ("%c = arith.constant 8 : i32\n%r = arith.remui %n, %c : i32", (-(2**31), 2**31 - 1)),
    (
        _BOUNDED.format("%m", 0, 1000)
        + "%c = arith.constant 8 : i32\n%r = arith.remui %m, %c : i32",
        (0, 7),
    ),
    (
        _BOUNDED.format("%m", 8, 1000)
        + _BOUNDED.format("%d", 2, 4)
        + "%r = arith.divsi %m, %d : i32",
        (2, 500),
    ),
    (
        _BOUNDED.format("%m", 8, 1000)
        + _BOUNDED.format("%d", 0, 4)
        + "%r = arith.divsi %m, %d : i32",
        (2, 1000),  # it is not divided by zero
    ),
    ("%c = arith.constant 4 : i32\n%r = arith.divsi %n, %c : i32", (-(2**31), 2**31 - 1)),
    (
        _BOUNDED.format("%m", 8, 9) + "%r = arith.divsi %m, %n : i32",
        (-(2**31), 2**31 - 1),
    ),
    (_BOUNDED.format("%d", -1, 4) + "%r = arith.divsi %d, %d : i32", (-(2**31), 2**31 - 1)),
    (
        _BOUNDED.format("%d", 2, 9) + "%c = arith.constant 4 : i32\n%r = arith.maxui %d, %c : i32",
        (4, 9),
    ),
    ("%c = arith.constant 4 : i32\n%r = arith.maxui %n, %c : i32", (-(2**31), 2**31 - 1)),
    (
        _BOUNDED.format("%d", 0, 9) + "%c = arith.constant 4 : i32\n%r = arith.maxui %d, %c : i32",
        (4, 9),
    ),
    (
        _BOUNDED.format("%d", 0, 9) + "%c = arith.constant 4 : i32\n%r = arith.andi %d, %c : i32",
        (0, 4),
    ),
    ("%c = arith.constant 4 : i32\n%r = arith.ori %n, %c : i32", (-(2**31), 2**31 - 1)),
    ("%c = arith.constant 4 : i32\n%r = arith.xori %c, %n : i32", (-(2**31), 2**31 - 1)),
    (
        _BOUNDED.format("%d", 0, 9) + "%c = arith.constant 0 : i32\n%r = arith.ori %d, %c : i32",
        (0, 15),
    ),
    (
        _BOUNDED.format("%d", 0, 9) + "%c = arith.constant 0 : i32\n%r = arith.shli %d, %c : i32",
        (0, 9),
    ),
    (
        _BOUNDED.format("%d", 0, 1) + "%c = arith.constant 32 : i32\n%r = arith.shli %d, %c : i32",
        (-(2**31), 2**31 - 1),
    ),
    (
        _BOUNDED.format("%d", 0, 1) + "%c = arith.constant -1 : i32\n%r = arith.shli %d, %c : i32",
        (-(2**31), 2**31 - 1),
    ),
    (
        _BOUNDED.format("%d", 2, 9) + "%c = arith.constant 4 : i32\n%r = arith.minui %d, %c : i32",
        (2, 4),
    ),
    (_BOUNDED.format("%d", 0, 9) + "%r = arith.minui %d, %n : i32", (0, 9)),
    (_BOUNDED.format("%d", 0, 9) + "%r = arith.minui %n, %d : i32", (0, 9)),
    ("%r = arith.minui %n, %n : i32", (-(2**31), 2**31 - 1)),
    (_BOUNDED.format("%d", 0, 9) + "%r = arith.andi %d, %n : i32", (0, 9)),
    (_BOUNDED.format("%d", 0, 9) + "%r = arith.andi %n, %d : i32", (0, 9)),
    ("%r = arith.andi %n, %n : i32", (-(2**31), 2**31 - 1)),
    (
        _BOUNDED.format("%d", 0, 9) + "%c = arith.constant 16 : i32\n%r = arith.ori %d, %c : i32",
        (0, 31),
    ),
    ("%c = arith.constant 15 : i32\n%r = arith.andi %n, %c : i32", (0, 15)),
    ("%c = arith.constant 4 : i32\n%r = arith.minsi %n, %c : i32", (-(2**31), 4)),
    ("%c = arith.constant 4 : i32\n%r = arith.shrui %c, %c : i32", (0, 0)),
    (
        _BOUNDED.format("%d", -8, 9) + "%c = arith.constant 1 : i32\n%r = arith.shrsi %d, %c : i32",
        (-4, 4),
    ),
    (
        _BOUNDED.format("%d", 0, 9) + "%c = arith.constant 1 : i32\n%r = arith.shrui %d, %c : i32",
        (0, 4),
    ),
    (
        _BOUNDED.format("%d", 4, 9) + _BOUNDED.format("%e", 0, 2) + "%r = arith.shrsi %d, %e : i32",
        (1, 9),
    ),
    # The sign becomes a bit of the number; a shift by less than nothing or by the width has no result.
    (
        _BOUNDED.format("%d", -8, 9) + "%c = arith.constant 1 : i32\n%r = arith.shrui %d, %c : i32",
        (-(2**31), 2**31 - 1),
    ),
    (
        _BOUNDED.format("%d", 0, 9) + "%c = arith.constant 32 : i32\n%r = arith.shrsi %d, %c : i32",
        (-(2**31), 2**31 - 1),
    ),
    (
        _BOUNDED.format("%d", 0, 9) + "%c = arith.constant -1 : i32\n%r = arith.shrui %d, %c : i32",
        (-(2**31), 2**31 - 1),
    ),
    (
        "%c = arith.constant -1 : i8\n%r = arith.extui %c : i8 to i32",
        (0, 255),
    ),
    ("%c = arith.constant true\n%r = arith.extsi %c : i1 to i32", (-1, -1)),
    (
        "%i = nv_tileaa.make_range {start = 4 : i64, end = 12 : i64} : tile<8xi32>\n%r = arith.addi %i, %i : tile<8xi32>",
        (8, 22),
    ),
]


@pytest.mark.parametrize(("body", "bounds"), CASES, ids=range(len(CASES)))
def test_range(body: str, bounds: tuple[int, int]) -> None:
    found = read(body)
    assert found.facts.ranges.of(found.value("r")) == Range(*bounds)


def test_ranges_are_written() -> None:
    assert str(Range(3, 3)) == "3"
    assert str(Range(-1, 8)) == "[-1, 8]"


def test_a_known_grid_bounds_the_program_id() -> None:
    found = read("%r = nv_tileaa.get_program_id {axis = 1 : i32} : i32", grid=(4, 6))
    assert found.facts.ranges.of(found.value("r")) == Range(0, 5)


LOOP = """
%c0 = arith.constant 0 : i32
%c1 = arith.constant 1 : i32
%c10 = arith.constant 10 : i32
%sum, %steady = scf.for %i = %c0 to %c10 step %c1 iter_args(%s = %c0, %t = %c1) -> (i32, i32) : i32 {
  %next = arith.addi %s, %c1 : i32
  %same = arith.minsi %t, %c10 : i32
  scf.yield %next, %same : i32, i32
}
"""


def test_a_loop_bounds_its_induction_variable_and_keeps_what_is_steady() -> None:
    found = read(LOOP)
    ranges = found.facts.ranges
    assert ranges.of(found.value("i")) == Range(0, 9)
    assert ranges.of(found.value("steady")) == Range(1, 1)
    # What a loop adds to wraps around in the end, as far as this analysis sees.
    assert ranges.of(found.value("sum")) == Range(-(2**31), 2**31 - 1)


def test_branches_join() -> None:
    found = read("""
    %c3 = arith.constant 3 : i32
    %c8 = arith.constant 8 : i32
    %b = arith.cmpi slt, %n, %c3 : i32
    %r = scf.if %b -> (i32) {
      scf.yield %c3 : i32
    } else {
      scf.yield %c8 : i32
    }
    """)
    assert found.facts.ranges.of(found.value("r")) == Range(3, 8)


def test_tiles_along_an_axis_are_counted() -> None:
    found = read("""
    %m = nv_tileaa.make_memref %p : (!nv_tileaa.ptr<f32, 1>) -> !nv_tileaa.memref<100x64xf32, strides = [64, 1], 1>
    %v = nv_tileaa.block_tile %m {tileSizes = array<i64: 16, 32>, dimGroups = [[0], [1]]}
      : !nv_tileaa.memref<100x64xf32, strides = [64, 1], 1>
      -> !nv_tileaa.tiled_view<16x32xf32, source = !nv_tileaa.memref<100x64xf32, strides = [64, 1], 1>>
    %r = nv_tileaa.get_dim_size %v {axis = 0 : i32} : !nv_tileaa.tiled_view<16x32xf32, source = !nv_tileaa.memref<100x64xf32, strides = [64, 1], 1>> -> index
    """)
    assert found.facts.ranges.of(found.value("r")) == Range(7, 7)
