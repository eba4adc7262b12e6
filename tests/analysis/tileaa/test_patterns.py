"""Divisibility and regular patterns, with answers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.tileaa.reading import read

from tilewright.analysis.tileaa.patterns import MOST, AxisPattern, Pattern, measure

IOTA = "%i = nv_tileaa.make_range {start = 0 : i64, end = 128 : i64} : tile<128xi32>\n"
BLOCK = (
    "%b = nv_tileaa.get_program_id {axis = 0 : i32} : i32\n%c = arith.constant 128 : i32\n"
    "%o = arith.muli %b, %c : i32\n%s = nv_tileaa.splat %o : i32 -> tile<128xi32>\n" + IOTA
)
FROM_BELOW = (
    IOTA
    + "%k = arith.constant dense<-64> : tile<128xi32>\n%j = arith.addi %i, %k : tile<128xi32>\n"
)

CASES = [
    ("%r = arith.constant 24 : i32", [(1, 8, 1)]),
    (IOTA + "%r = arith.addi %i, %i : tile<128xi32>", [(1, 1, 1)]),
    (BLOCK + "%r = arith.addi %s, %i : tile<128xi32>", [(128, 128, 1)]),
    (BLOCK + "%r = arith.subi %i, %s : tile<128xi32>", [(128, 128, 1)]),
    (BLOCK + "%r = arith.subi %s, %i : tile<128xi32>", [(1, 1, 1)]),
    ("%r = nv_tileaa.splat %n : i32 -> tile<4x8xi32>", [(1, 1, 4), (1, 1, 8)]),
    (
        IOTA
        + "%k = arith.constant dense<16> : tile<128xi32>\n%r = arith.divsi %i, %k : tile<128xi32>",
        [(1, 1, 16)],
    ),
    (
        IOTA
        + "%k = arith.constant dense<16> : tile<128xi32>\n%r = arith.remsi %i, %k : tile<128xi32>",
        [(16, MOST, 1)],
    ),
    (
        IOTA
        + "%k = arith.constant dense<4> : tile<128xi32>\n%r = arith.muli %i, %k : tile<128xi32>",
        [(1, 4, 1)],
    ),
    (
        IOTA
        + "%e = nv_tileaa.expand_dims %i {axes = array<i64: 0>} : tile<128xi32> -> tile<1x128xi32>\n"
        "%r = nv_tileaa.broadcast %e : tile<1x128xi32> -> tile<4x128xi32>",
        [(1, 1, 4), (128, MOST, 1)],
    ),
    (IOTA + "%r = nv_tileaa.view %i : tile<128xi32> -> tile<4x32xi32>", [(1, 1, 1), (32, 32, 1)]),
    (
        IOTA + "%k = arith.constant dense<32> : tile<128xi32>\n"
        "%r = arith.cmpi slt, %i, %k : tile<128xi32>",
        [(1, 1, 32)],
    ),
    (
        "%a = nv_tileaa.assume %p {predicates = [#nv_tileaa.div_by<16>]} : !nv_tileaa.ptr<f32, 1>\n"
        + BLOCK
        + "%j = arith.addi %s, %i : tile<128xi32>\n"
        "%r = nv_tileaa.addptr %a, %j : !nv_tileaa.ptr<f32, 1>, tile<128xi32> -> tile<128x!nv_tileaa.ptr<f32, 1>>",
        [(128, 16, 1)],
    ),
    (
        # The sum can wrap around inside a run, and then the addresses jump.
        "%s = nv_tileaa.splat %n : i32 -> tile<128xi32>\n"
        + IOTA
        + "%j = arith.addi %s, %i : tile<128xi32>\n"
        "%r = nv_tileaa.addptr %p, %j : !nv_tileaa.ptr<f32, 1>, tile<128xi32> -> tile<128x!nv_tileaa.ptr<f32, 1>>",
        [(1, 1, 1)],
    ),
    (
        # Both choices rise by one for longer than the condition stays the same.
        BLOCK + "%j = arith.addi %s, %i : tile<128xi32>\n"
        "%k = arith.constant dense<32> : tile<128xi32>\n"
        "%t = arith.cmpi slt, %i, %k : tile<128xi32>\n"
        "%r = arith.select %t, %i, %j : tile<128xi1>, tile<128xi32>",
        [(32, 32, 1)],
    ),
    (BLOCK + "%r = arith.extsi %s : tile<128xi32> to tile<128xi64>", [(1, 128, 128)]),
    (IOTA + "%r = arith.extui %i : tile<128xi32> to tile<128xi64>", [(128, MOST, 1)]),
    (FROM_BELOW + "%r = arith.extsi %j : tile<128xi32> to tile<128xi64>", [(128, 64, 1)]),
    # From -1, which is 2**32 - 1 then, it goes back to 0.
    (FROM_BELOW + "%r = arith.extui %j : tile<128xi32> to tile<128xi64>", [(64, 64, 1)]),
    (
        # What wraps around in 32 bits does not rise by one in 64.
        "%s = nv_tileaa.splat %n : i32 -> tile<128xi32>\n"
        + IOTA
        + "%j = arith.addi %s, %i : tile<128xi32>\n%r = arith.extsi %j : tile<128xi32> to tile<128xi64>",
        [(1, 1, 1)],
    ),
]


@pytest.mark.parametrize(("body", "axes"), CASES, ids=range(len(CASES)))
def test_pattern(body: str, axes: list[tuple[int, int, int]]) -> None:
    found = read(body)
    expected = Pattern(tuple(AxisPattern(*axis) for axis in axes))
    assert found.facts.patterns.of(found.value("r")) == expected


def test_measure() -> None:
    assert measure(np.arange(16, 32).reshape(2, 8), 32).axes == (
        AxisPattern(1, 1, 1),
        AxisPattern(8, 8, 1),
    )
    assert measure(np.array([6, 7, 10, 11]), 32).axes == (AxisPattern(2, 2, 1),)
    assert measure(np.array([127, -128]), 8).axes == (AxisPattern(2, 1, 1),)
    assert measure(np.array([64, 68, 72, 76]), 64, unit=4).axes == (AxisPattern(4, 64, 1),)


INTEGERS = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "maxsi": np.maximum,
    "divsi": lambda a, b: a // b,
    "remsi": lambda a, b: a % b,
}


def claims(found: AxisPattern, measured: AxisPattern, array: np.ndarray) -> bool:
    """Whether what is claimed of an axis is true of an array."""
    runs = array[:: found.run]
    return (
        found.run <= measured.run
        and found.repeat <= measured.repeat
        and all(int(value) % min(found.divisor, 2**16) == 0 for value in runs)
    )


@given(
    st.sampled_from(sorted(INTEGERS)),
    st.integers(0, 40),
    st.sampled_from([1, 2, 3, 4, 8, 12, 16]),
    st.sampled_from([1, 2, 4, 8]),
    st.booleans(),
)
def test_what_is_claimed_of_two_known_tiles_is_true(
    name: str, start: int, other: int, repeat: int, swap: bool
) -> None:
    """Ranges, splats and repeated ranges, combined by an operation, against the numbers."""
    left = np.arange(start, start + 16)
    right = (np.arange(16) // repeat) * other + other
    if swap and name not in ("divsi", "remsi"):
        left, right = right, left
    result = INTEGERS[name](left, right)

    def dense(array: np.ndarray) -> str:
        return f"arith.constant dense<[{', '.join(map(str, array))}]> : tile<16xi32>"

    found = read(
        f"%a = {dense(left)}\n%b = {dense(right)}\n%r = arith.{name} %a, %b : tile<16xi32>"
    )
    (axis,) = found.facts.patterns.of(found.value("r")).axes
    (measured,) = measure(result, 32).axes
    assert claims(axis, measured, result), (axis, measured, result)


COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
    "ult": lambda a, b: a.astype(np.uint8) < b.astype(np.uint8),
    "ule": lambda a, b: a.astype(np.uint8) <= b.astype(np.uint8),
    "ugt": lambda a, b: a.astype(np.uint8) > b.astype(np.uint8),
    "uge": lambda a, b: a.astype(np.uint8) >= b.astype(np.uint8),
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_of_runs_with_bounds(name: str) -> None:
    """Successive numbers beside a bound, either first, from all sides of where signed and unsigned numbers wrap: what is
    claimed is true, and claimed are whole groups where both are multiples of a group."""
    starts = [-128, -126, -72, -8, -4, 0, 3, 8, 96, 112, 116, 120, 124]
    bounds = [-128, -64, -16, -8, -1, 0, 1, 8, 12, 64, 112, 127]
    lines, results = [], {}
    for at, start in enumerate(starts):
        numbers = np.arange(start, start + 16).astype(np.int8)
        text = ", ".join(map(str, numbers))
        lines.append(f"%a{at} = arith.constant dense<[{text}]> : tile<16xi8>")
        for bound in bounds:
            limits = np.full(16, bound, np.int8)
            for swapped in (False, True):
                tag = f"r{len(results)}"
                sides, values = [f"%a{at}", f"%b{at}_{bounds.index(bound)}"], [numbers, limits]
                if not swapped:
                    lines.append(f"{sides[1]} = arith.constant dense<{bound}> : tile<16xi8>")
                else:
                    sides, values = sides[::-1], values[::-1]
                lines.append(f"%{tag} = arith.cmpi {name}, {', '.join(sides)} : tile<16xi8>")
                results[tag] = start, bound, swapped, COMPARISONS[name](*values)
    found = read("\n".join(lines))
    values = {v.name_hint: v for op in found.function.walk() for v in op.results}
    for tag, (start, bound, swapped, result) in results.items():
        (axis,) = found.facts.patterns.of(values[tag]).axes
        (measured,) = measure(result.astype(int), 1).axes
        assert axis.repeat <= measured.repeat, (start, bound, swapped, axis, measured)
        last = name in ("slt", "sge", "ult", "uge")
        if name not in ("eq", "ne") and swapped != last:
            group = min(start & -start or 128, bound & -bound or 128, 16)
            assert axis.repeat >= group, (start, bound, swapped, axis)


def test_a_gather_of_whole_words_under_its_own_bounds() -> None:
    """Columns beside rows that are not known, both as signed numbers of 32 bits that are compared unsigned with extents in
    64, as cuTile writes it: a group of 16 is there as a whole, or not at all."""
    found = read(
        "%e = nv_tileaa.assume %n {predicates = [#nv_tileaa.div_by<16>]} : i32\n"
        "%w = arith.extsi %e : i32 to i64\n%m = nv_tileaa.splat %w : i64 -> tile<128xi64>\n"
        "%h = nv_tileaa.splat %n : i32 -> tile<128xi32>\n"
        + IOTA
        + "%k = arith.constant dense<64> : tile<128xi32>\n%f = arith.muli %h, %k : tile<128xi32>\n"
        "%j = arith.addi %f, %i : tile<128xi32>\n%l = arith.extsi %j : tile<128xi32> to tile<128xi64>\n"
        "%r = arith.cmpi ult, %l, %m : tile<128xi64>"
    )
    assert found.facts.patterns.of(found.value("r")).axes == (AxisPattern(1, 1, 16),)
