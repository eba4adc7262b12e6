"""The comparison of outputs accepts what a tolerance allows, and nothing else."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.corpus import EXACT, Launch, Tolerance
from tests.corpus.launching import arrays_in, check_outputs, differences, ulp_at

from tilewright.numerics.element_types import FORMATS

ONE_ULP = Tolerance(1.0, "for the test")


@pytest.mark.parametrize(
    ("found", "expected", "exact", "within_one_ulp"),
    [
        (1.0, 1.0, True, True),
        (1.0 + 2.0**-23, 1.0, False, True),
        (1.0 + 2.0**-22, 1.0, False, False),
        (1.0 - 2.0**-23, 1.0, False, True),
        (0.0, -0.0, False, True),
        (2.0**-149, 0.0, False, True),
        (2.0**-148, 0.0, False, False),
        (np.nan, np.nan, True, True),
        (np.nan, 1.0, False, False),
        (np.inf, np.inf, True, True),
        (np.inf, 3.4e38, False, False),
        (-np.inf, np.inf, False, False),
    ],
)
def test_floats(found: float, expected: float, exact: bool, within_one_ulp: bool):
    pair = np.array([found], np.float32), np.array([expected], np.float32)
    assert (differences("x", *pair, EXACT) == []) == exact
    assert (differences("x", *pair, ONE_ULP) == []) == within_one_ulp


def test_integers_are_compared_exactly():
    pair = np.array([2**53], np.int64), np.array([2**53 + 1], np.int64)
    assert differences("x", *pair, ONE_ULP) != []
    assert differences("x", pair[0], pair[0], ONE_ULP) == []


def test_types_and_shapes_count():
    x = np.zeros(4, np.float32)
    assert differences("x", x, x.astype(np.float64), EXACT) != []
    assert differences("x", x, x.reshape(2, 2), EXACT) != []


def test_a_magnitude_widens_the_unit():
    pair = np.array([2.0**-20], np.float32), np.array([0.0], np.float32)
    assert differences("x", *pair, ONE_ULP) != []
    assert differences("x", *pair, ONE_ULP, np.array([8.0], np.float32)) == []


def test_ulps():
    assert ulp_at(np.array([1.0, 2.0, 1.5, 0.0]), FORMATS["f32"]).tolist() == [
        2.0**-23,
        2.0**-22,
        2.0**-23,
        2.0**-149,
    ]
    assert ulp_at(np.array([256.0]), FORMATS["bf16"]).tolist() == [2.0]


def test_arrays_that_must_not_change_are_checked():
    launch = Launch((1, 1, 1), lambda rng: {}, lambda given: {"out": given["x"] + 1})
    before: dict[str, Any] = {"x": np.arange(3), "out": np.zeros(3, np.int64), "k": 4}
    after = {"x": np.arange(3), "out": np.arange(1, 4), "k": 4}
    assert check_outputs(launch, before, after) == []
    assert check_outputs(launch, before, {**after, "x": np.arange(1, 4)}) != []
    assert check_outputs(launch, before, {**after, "out": np.arange(3)}) != []


def test_arrays_inside_lists_and_tuples_have_names():
    x = np.zeros(1, ml_dtypes.bfloat16)
    assert [name for name, _ in arrays_in([x, (x, 2.0)], "a")] == ["a[0]", "a[1][0]"]
