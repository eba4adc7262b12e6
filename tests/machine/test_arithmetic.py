"""Runs under another arithmetic: each option reaches the operations that it is about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.machine.kernels import checked, run_body

import tilewright
from tilewright import LaunchOptions
from tilewright.machine import Arithmetic, Program

LARGE = 2.0**24
TREE = Arithmetic(reductions="tree")


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def result_of(body: str, result: np.ndarray, arithmetic: Arithmetic, **inputs: Any) -> np.ndarray:
    found, outcome, _ = run_body(body, inputs, {"r": result}, arithmetic=arithmetic)
    assert outcome.arithmetic == arithmetic
    return found["r"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", LARGE),
        ("accumulation=ascending", LARGE),
        ("accumulation=pairwise", LARGE + 2),
        ("accumulation=blocks:4", LARGE + 4),
    ],
)
def test_accumulation(text: str, expected: float):
    body = "%r = mmaf %a, %b, %c : tile<1x4xf32>, tile<4x1xf32>, tile<1x1xf32>"
    arithmetic = Arithmetic.parse(text)
    row, ones = f32(LARGE, 1, 1, 1).reshape(1, 4), np.ones((4, 1), np.float32)
    zero = np.zeros((1, 1), np.float32)
    found = result_of(body, zero, arithmetic, a=row, b=ones, c=zero)[0, 0]
    # The order of matmul is its own affair: it must only be a sum of these terms.
    assert found == expected or (not text and LARGE <= found <= LARGE + 4)


@pytest.mark.parametrize(
    ("products", "expected"),
    [("f32", 1 + 2.0**-11), ("tf32", 1 + 2.0**-10), ("tf32-truncated", 1)],
)
def test_tf32_products(products: str, expected: float):
    body = "%r = mmaf %a, %b, %c : tile<1x1xf32>, tile<1x1xf32>, tile<1x1xf32>"
    tiles = {"a": f32(1 + 2.0**-11), "b": f32(1), "c": f32(0)}
    inputs = {name: tile.reshape(1, 1) for name, tile in tiles.items()}
    found = result_of(body, inputs["c"], Arithmetic(f32_products=products), **inputs)
    assert found[0, 0] == expected


SUM = """%r = reduce %a dim=0 identities=[0.0 : f32] : tile<4xf32> -> tile<f32>
  (%e: tile<f32>, %s: tile<f32>) { %t = addf %e, %s : tile<f32> yield %t : tile<f32> }"""
PREFIXES = SUM.replace("reduce %a dim=0", "scan %a dim=0 reverse=false").replace(
    "-> tile<f32>", "-> tile<4xf32>"
)
#: The body asks for a branch, so that it runs element by element.
BRANCHING = """%t = cmpf equal ordered %e, %e : tile<f32> -> tile<i1>
  %u = if %t -> (tile<f32>) { %v = addf %e, %s : tile<f32> yield %v : tile<f32> }
  else { yield %e : tile<f32> } yield %u : tile<f32>"""


def branching(body: str) -> str:
    return body.replace("%t = addf %e, %s : tile<f32> yield %t : tile<f32>", BRANCHING)


@pytest.mark.parametrize("form", [str, branching], ids=["plain", "branching"])
def test_reductions(form: Any):
    terms = f32(LARGE, 1, 1, 1)
    assert result_of(form(SUM), f32(0)[0], Arithmetic(), a=terms) == LARGE
    # (2**24 + 1) + (1 + 1)
    assert result_of(form(SUM), f32(0)[0], TREE, a=terms) == LARGE + 2
    zeros = np.zeros(4, np.float32)
    assert result_of(form(PREFIXES), zeros, Arithmetic(), a=terms).tolist() == [LARGE] * 4
    # After one step the prefixes of two: 2**24, 2**24, 2, 2; then each adds the one two before.
    expected = [LARGE, LARGE, LARGE + 2, LARGE + 2]
    assert result_of(form(PREFIXES), zeros, TREE, a=terms).tolist() == expected


def test_reverse_scan_by_tree():
    body = PREFIXES.replace("reverse=false", "reverse=true")
    terms = f32(1, 1, 1, LARGE)
    found = result_of(body, np.zeros(4, np.float32), TREE, a=terms)
    assert found.tolist() == [LARGE + 2, LARGE + 2, LARGE, LARGE]


def test_reductions_of_several_dimensions_and_operands():
    body = """%r, %q = reduce %a, %i dim=1 identities=[-1.0 : f32, 7 : i32]
      : tile<4x8xf32>, tile<4x8xi32> -> tile<4xf32>, tile<4xi32>
      (%s: tile<f32>, %e: tile<f32>, %k: tile<i32>, %j: tile<i32>) {
        %c = cmpf greater_than ordered %e, %s : tile<f32> -> tile<i1>
        %v = select %c, %e, %s : tile<i1>, tile<f32>
        %w = select %c, %j, %k : tile<i1>, tile<i32>
        yield %v, %w : tile<f32>, tile<i32>
      }"""
    values = np.random.default_rng(0).permutation(32).astype(np.float32).reshape(4, 8)
    indices = np.tile(np.arange(8, dtype=np.int32), (4, 1))
    results = {"r": np.zeros(4, np.float32), "q": np.zeros(4, np.int32)}
    found, _, _ = run_body(body, {"a": values, "i": indices}, results, arithmetic=TREE)
    assert found["r"].tolist() == values.max(axis=1).tolist()
    assert found["q"].tolist() == values.argmax(axis=1).tolist()


def test_approximations():
    body = "%r = divf %a, %b rounding<approx> : tile<1xf32>"
    operands = {"a": f32(5), "b": f32(3)}
    hardware = Arithmetic(approximations="hardware")
    assert result_of(body, f32(0), Arithmetic(), **operands)[0] == 13981013 * 2.0**-23
    assert result_of(body, f32(0), hardware, **operands)[0] == 13981014 * 2.0**-23
    exact = body.replace(" rounding<approx>", "")
    assert result_of(exact, f32(0), hardware, **operands)[0] == 13981013 * 2.0**-23


SUBNORMAL = 2.0**-140


@pytest.mark.parametrize(
    ("flush", "start", "added", "expected"),
    [
        (False, SUBNORMAL, SUBNORMAL, 2 * SUBNORMAL),
        (True, SUBNORMAL, SUBNORMAL, 0.0),
        (True, 2.0**-126, SUBNORMAL, 2.0**-126),
        (True, 1.5 * 2.0**-126, -(2.0**-126), 0.0),
        (True, 1.0, 2.0, 3.0),
    ],
)
def test_atomic_additions(flush: bool, start: float, added: float, expected: float):
    body = """%old, %t = atomic_rmw_tko relaxed device %ptr_r, addf, %a
      : tile<ptr<f32>>, tile<f32> -> tile<f32>, token"""
    body = body.replace("%a", "%b0") + "\n"
    text = "%b1 = reshape %a : tile<1xf32> -> tile<f32>\n" + body.replace("%b0", "%b1")
    arithmetic = Arithmetic(flush_denormal_addf=flush)
    found, _, _ = run_body(text, {"a": f32(added)}, {"r": f32(start)}, arithmetic=arithmetic)
    assert found["r"][0] == np.float32(expected)


def test_programs_and_the_sanitizer_take_it():
    module = checked(
        "entry @k(%p: tile<ptr<f32>>, %x: tile<f32>, %y: tile<f32>) {\n"
        "%q = divf %x, %y rounding<approx> : tile<f32>\n"
        "%t = store_ptr_tko weak %p, %q : tile<ptr<f32>>, tile<f32> -> token\nreturn\n}"
    )
    hardware = Arithmetic(approximations="hardware")
    expected = 13981014 * 2.0**-23
    out = np.zeros(1, np.float32)
    program = Program(module, options=LaunchOptions(arithmetic=hardware))
    assert program.launch(args=(out, 5, 3)).arithmetic == hardware
    assert out[0] == expected
    out[0] = 0
    report = tilewright.sanitize(
        module, args=(out, 5, 3), options=LaunchOptions(arithmetic=hardware)
    )
    assert report.result is not None and report.result.arithmetic == hardware
    assert out[0] == expected
    out[0] = 0
    result = tilewright.run(
        module, args=(out, 5, 3), options=LaunchOptions(arithmetic=hardware, sanitize=True)
    )
    assert result.arithmetic == hardware and out[0] == expected
