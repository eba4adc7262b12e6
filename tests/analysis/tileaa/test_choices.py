"""Which reductions are known to choose one of their elements in any order."""

from __future__ import annotations

import numpy as np
import pytest
from tests.analysis.tileaa.reading import read
from tests.cpu.codegen.support import Given, on_tiles

from tilewright.analysis.tileaa.choices import choice_of, rising_operands
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp

#: cuTile's argmax, which takes a NaN for smaller than all numbers.
CUTILE = """
  %greater = arith.cmpf ogt, %a, %b : f32
  %same = arith.cmpf oeq, %a, %b : f32
  %an = arith.cmpf une, %a, %a : f32
  %bn = arith.cmpf une, %b, %b : f32
  %ok = arith.cmpf oeq, %a, %a : f32
  %only = arith.andi %ok, %bn : i1
  %better = arith.ori %greater, %only : i1
  %both = arith.andi %an, %bn : i1
  %tie = arith.ori %same, %both : i1
  %first = arith.cmpi slt, %i, %j : i32
  %settled = arith.andi %tie, %first : i1
  %c = arith.ori %better, %settled : i1
"""
PLAIN = """
  %greater = arith.cmpf ogt, %a, %b : f32
  %same = arith.cmpf oeq, %a, %b : f32
  %first = arith.cmpi slt, %i, %j : i32
  %settled = arith.andi %same, %first : i1
  %c = arith.ori %greater, %settled : i1
"""
NEGATED = """
  %true = arith.constant true
  %less = arith.cmpf olt, %a, %b : f32
  %same = arith.cmpf oeq, %b, %a : f32
  %later = arith.cmpi ugt, %i, %j : i32
  %lost = arith.select %same, %later, %less : i1
  %c = arith.xori %lost, %true : i1
"""
LAST = """
  %same = arith.cmpf oeq, %a, %b : f32
  %greater = arith.cmpf ogt, %a, %b : f32
  %later = arith.cmpi sgt, %i, %j : i32
  %c = scf.if %same -> (i1) {
    scf.yield %later : i1
  } else {
    scf.yield %greater : i1
  }
"""
FIRES = {"cuTile": CUTILE, "plain": PLAIN, "negated": NEGATED, "the last": LAST}
STAYS = {
    "no tie-break": ("%c = arith.cmpf ogt, %a, %b : f32", "depends on their order"),
    "a tie for the element": ("%c = arith.cmpf oge, %a, %b : f32", "depends on their order"),
    "always the element": ("%c = arith.constant true", "depends on their order"),
    "the index alone, by its value": (
        "%z = arith.constant 3 : i32\\n %c = arith.cmpi slt, %i, %z : i32",
        "contains constants",
    ),
    "arithmetic": (
        "%s = arith.addi %i, %j : i32\\n %c = arith.cmpi slt, %s, %j : i32",
        "more than comparisons",
    ),
}


def _text(compare: str, index: str, *, axis: int = 1, source: str = "%a0") -> str:
    compare = compare.replace("\\n", "\n")
    return f"""
    {index}
    %r0, %r1 = nv_tileaa.reduce {source}, %places {{axis = {axis} : i32, identities = [0xFF800000 : f32, 0 : i32]}}
      : tile<4x64xf32>, tile<4x64xi32> -> tile<{"4" if axis else "64"}xf32>, tile<{"4" if axis else "64"}xi32> {{
    ^bb0(%a: f32, %b: f32, %i: i32, %j: i32):
      {compare}
      %v = arith.select %c, %a, %b : f32
      %w = arith.select %c, %i, %j : i32
      nv_tileaa.yield %v, %w : f32, i32
    }}
    """


NUMBERS = """
    %range = nv_tileaa.make_range {start = 0, end = 64} : tile<64xi32>
    %row = nv_tileaa.expand_dims %range {axes = array<i64: 0>} : tile<64xi32> -> tile<1x64xi32>
    %places = nv_tileaa.broadcast %row : tile<1x64xi32> -> tile<4x64xi32>
"""
EQUAL = """
    %zero = arith.constant 7 : i32
    %places = nv_tileaa.splat %zero : i32 -> tile<4x64xi32>
"""


def _reduction(compare: str, index: str = NUMBERS, axis: int = 1) -> ReduceOp:
    found = read(
        _text(compare, index, axis=axis, source="%x"),
        arguments="%x: !nv_tileaa.tile<4x64xf32>",
    )
    op = found.op("reduce")
    assert isinstance(op, ReduceOp)
    return op


def _choice(compare: str, index: str = NUMBERS, axis: int = 1):
    return choice_of(_reduction(compare, index, axis))


@pytest.mark.parametrize("compare", FIRES.values(), ids=FIRES)
def test_fires(compare: str):
    assert _choice(compare).any_order


@pytest.mark.parametrize(("compare", "reason"), STAYS.values(), ids=STAYS)
def test_stays(compare: str, reason: str):
    found = _choice(compare)
    assert not found.any_order and reason in found.reason


def test_stays_where_numbers_may_be_equal():
    # Of two zeros with different signs nothing would tell which it is.
    for index, axis in ((EQUAL, 1), (NUMBERS, 0)):
        assert "depends on their order" in _choice(PLAIN, index, axis).reason


def _data() -> np.ndarray:
    generator = np.random.default_rng(0)
    x = generator.integers(-3, 4, (4, 64)).astype(np.float32)
    x[1] = np.copysign(0, generator.standard_normal(64))
    x[2, generator.permutation(64)[:40]] = np.nan
    x[3] = -np.inf
    return x


@pytest.mark.parametrize("compare", ["cuTile", "plain", "negated", "the last"])
def test_results_are_those_of_ascending_order(compare: str):
    x = _data()
    if compare != "cuTile":
        x[2] = 1
    body = _text(FIRES[compare], NUMBERS)
    value, place = on_tiles(body, [Given("f32", x)], [("f32", (4,)), ("i32", (4,))])
    keyed = np.where(np.isnan(x), -np.inf, x)
    best = keyed.max(1, keepdims=True)
    ties = (keyed == best) & ~np.isnan(x)
    last = 63 - ties[:, ::-1].argmax(1)
    expected = last if compare == "the last" else ties.argmax(1)
    assert (place == expected).all()
    assert value.tobytes() == x[np.arange(4), expected].tobytes()


def test_a_row_of_nan_gives_its_first():
    x = np.full((4, 64), np.nan, np.float32)
    _, place = on_tiles(_text(CUTILE, NUMBERS), [Given("f32", x)], [("f32", (4,)), ("i32", (4,))])
    assert (place == 0).all()


RISING = {
    "numbers": (NUMBERS, {1}),
    "from 100": (NUMBERS.replace("start = 0, end = 64", "start = 100, end = 164"), {1}),
    "below zero": (NUMBERS.replace("start = 0, end = 64", "start = -1, end = 63"), set[int]()),
    "equal ones": (EQUAL, set[int]()),
}


@pytest.mark.parametrize("index, expected", RISING.values(), ids=RISING)
def test_rising_operands(index: str, expected: set[int]):
    assert rising_operands(_reduction(PLAIN, index)) == expected
    # Along the other axis they are all the same.
    assert not rising_operands(_reduction(PLAIN, index, axis=0))


@pytest.mark.parametrize(("first", "expected"), [(64, {1}), (65, set[int]()), (100, set[int]())])
def test_numbers_that_wrap_do_not_rise(first: int, expected: set[int]):
    """The last number is 127, the largest, or further."""
    index = f"""
    %range = nv_tileaa.make_range {{start = {first}, end = {first + 64}}} : tile<64xi8>
    %row = nv_tileaa.expand_dims %range {{axes = array<i64: 0>}} : tile<64xi8> -> tile<1x64xi8>
    %places = nv_tileaa.broadcast %row : tile<1x64xi8> -> tile<4x64xi8>
    """
    text = _text(PLAIN, index, source="%x").replace("i32>", "i8>").replace("%j: i32", "%j: i8")
    text = (
        text.replace("%i: i32", "%i: i8")
        .replace("%j : i32", "%j : i8")
        .replace("f32, i32", "f32, i8")
    )
    text = text.replace("0 : i32]", "0 : i8]")
    op = read(text, arguments="%x: !nv_tileaa.tile<4x64xf32>").op("reduce")
    assert isinstance(op, ReduceOp)
    assert choice_of(op).any_order and rising_operands(op) == expected


ELEMENTS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("compare", ["cuTile", "plain", "negated", "the last"])
@pytest.mark.parametrize("axis", [0, 1])
def test_ties_of_all_types_along_both_axes(element: str, compare: str, axis: int):
    dtype = ELEMENTS[element]
    x = np.random.default_rng(axis).integers(-1, 2, (4, 64)).astype(dtype)
    index = NUMBERS
    if axis == 0:
        index = """
    %range = nv_tileaa.make_range {start = 0, end = 4} : tile<4xi32>
    %column = nv_tileaa.expand_dims %range {axes = array<i64: 1>} : tile<4xi32> -> tile<4x1xi32>
    %places = nv_tileaa.broadcast %column : tile<4x1xi32> -> tile<4x64xi32>
    """
    lowest = {"f16": "0xFC00", "f32": "0xFF800000", "f64": "0xFFF0000000000000"}[element]
    body = _text(FIRES[compare], index, axis=axis).replace("f32", element)
    body = body.replace("0xFF800000", lowest)
    rest = (x.shape[1 - axis],)
    value, place = on_tiles(body, [Given(element, x)], [(element, rest), ("i32", rest)])
    last = x.shape[axis] - 1 - np.flip(x, axis).argmax(axis)
    expected = last if compare == "the last" else x.argmax(axis)
    assert (place == expected).all() and (value == x.max(axis)).all()
