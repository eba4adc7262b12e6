"""Comparing results with expectations."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from tilewright.cli.run_compare import Tolerance, compare, report

EXACT = Tolerance()
NAN, INF = math.nan, math.inf


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def step(value: float, steps: int) -> float:
    """The float32 that many steps away from zero."""
    return float((np.float32(value).view(np.int32) + np.int32(steps)).view(np.float32))


@pytest.mark.parametrize(
    ("found", "expected", "tolerance", "differing"),
    [
        (f32(1, 2, 3), f32(1, 2, 3), EXACT, 0),
        (f32(1, 2, 3), f32(1, 2.5, 3), EXACT, 1),
        (f32(NAN), f32(-NAN), EXACT, 0),
        (f32(NAN), f32(1), EXACT, 1),
        (f32(0.0), f32(-0.0), EXACT, 1),
        (f32(0.0), f32(-0.0), Tolerance(ulp=0), 0),
        (f32(step(1, 2)), f32(1), Tolerance(ulp=2), 0),
        (f32(step(1, 3)), f32(1), Tolerance(ulp=2), 1),
        (f32(1e-45), f32(-1e-45), Tolerance(ulp=2), 0),
        (f32(1e-45), f32(-1e-45), Tolerance(ulp=1), 1),
        (f32(NAN, 1), f32(NAN, NAN), Tolerance(ulp=10), 1),
        (f32(INF), f32(np.finfo(np.float32).max), Tolerance(ulp=1), 0),
        (f32(1.1), f32(1), Tolerance(atol=0.2), 0),
        (f32(1.1), f32(1), Tolerance(atol=0.05), 1),
        (f32(110), f32(100), Tolerance(rtol=0.11), 0),
        (f32(110), f32(100), Tolerance(rtol=0.09), 1),
        (f32(111), f32(100), Tolerance(atol=1, rtol=0.1), 0),
        (f32(INF, -INF, NAN), f32(INF, -INF, NAN), Tolerance(rtol=0.1), 0),
        (f32(INF, 1, 1), f32(-INF, INF, NAN), Tolerance(rtol=0.1), 3),
        (f32(), f32(), EXACT, 0),
    ],
)
def test_floats(
    found: np.ndarray, expected: np.ndarray, tolerance: Tolerance, differing: int
) -> None:
    assert compare("x", found, expected, "f32", tolerance).differing == differing


def test_integers_are_compared_without_rounding() -> None:
    found, expected = np.array([2**63 - 1, 5]), np.array([-(2**63), 4])
    result = compare("x", found, expected, "i64", EXACT)
    assert result.differing == 2
    assert result.max_abs == 2.0**64
    near = compare("x", np.array([2**62 + 1]), np.array([2**62]), "i64", Tolerance(atol=0.5))
    assert near.differing == 1
    assert near.max_abs == 1.0


def test_booleans() -> None:
    result = compare("x", np.array([True, False]), np.array([True, True]), "i1", EXACT)
    assert (result.differing, result.max_abs) == (1, 1.0)


@pytest.mark.parametrize("element", ["bf16", "f8E4M3FN", "f8E5M2"])
def test_narrow_floats(element: str) -> None:
    dtype = {
        "bf16": ml_dtypes.bfloat16,
        "f8E4M3FN": ml_dtypes.float8_e4m3fn,
        "f8E5M2": ml_dtypes.float8_e5m2,
    }[element]
    expected = np.array([1.0, -2.0]).astype(dtype)
    raw = expected.view(np.uint16 if element == "bf16" else np.uint8) + 1
    found = raw.view(dtype)
    assert compare("x", found, expected, element, Tolerance(ulp=1)).ok
    assert compare("x", found, expected, element, EXACT).differing == 2


def test_reference_of_another_type() -> None:
    found = f32(1.5, 2.5)
    result = compare(
        "x", found, np.array([1.5, 2.6]), "f32", Tolerance(atol=1e-3), expected_element="f64"
    )
    assert result.differing == 1
    assert result.max_abs == pytest.approx(0.1)


def test_report_names_elements_and_errors() -> None:
    expected = np.zeros((4, 8), np.float32)
    found = expected.copy()
    found[1, 2:] = np.arange(1, 7)
    found[3, 3] = -50
    result = compare("x", found, expected, "f32", Tolerance(atol=0.5))
    assert (result.elements, result.differing, result.worst) == (32, 7, (3, 3))
    lines = report(result)
    assert lines[0] == "at [1, 2]: expected 0.0, found 1.0"
    assert len(lines) == 7
    assert lines[5] == "and 2 more"
    assert lines[6] == "largest absolute error 50 at [3, 3], largest relative error inf"


def test_json_has_no_infinity() -> None:
    result = compare("x", f32(INF), f32(1), "f32", EXACT).to_json()
    assert result["max_abs_error"] is None
    assert result["first"] == [{"index": [0], "expected": "1.0", "found": "inf"}]
    assert result["ok"] is False
