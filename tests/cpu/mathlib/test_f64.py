"""f64 functions against mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from tests.cpu.mathlib.driver import REFERENCES, native

from tilewright.cpu.mathlib import FUNCTIONS

COUNT = 250
EXACT: dict[str, Callable[..., Any]] = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.power(2, x),
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "atan2": mpmath.atan2,
    "pow": mpmath.power,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
}
#: Where each function is at its most interesting.
RANGES = {
    "exp": (-745.2, 709.8),
    "exp2": (-1075, 1024),
    "log": (0.4, 2.5),
    "log2": (0.4, 2.5),
    "sin": (-20, 20),
    "cos": (-20, 20),
    "tan": (-20, 20),
    "sinh": (-3, 3),
    "cosh": (-3, 3),
    "tanh": (-2, 2),
    "rsqrt": (0.1, 10),
}
EDGES = np.array(
    [
        *(0, np.inf, np.nan, 1, 2, 0.5, 3, 1.5, 5e-324, 1e-308, 1.7e308, 709.7, 709.79, 710.4),
        *(710.5, 745.1, 745.2, 1023.9, 1024, 1074, 1075, 1076, 1e22, 2.0**53, 1e300, 2.0**30),
    ]
)
SIGNED_EDGES = np.concatenate([EDGES, -EDGES])


@pytest.fixture(autouse=True)
def precision():
    # As many bits as the largest double has before its point, and those of the result.
    with mpmath.workprec(1300):
        yield


def error(got: float, exact: Any) -> float:
    """In ulp of the exact value."""
    if exact == 0:
        return 0.0 if got == 0 else float("inf")
    _, exponent = mpmath.frexp(abs(exact))
    unit = mpmath.ldexp(1, max(int(exponent) - 53, -1074))
    return float(abs(mpmath.mpf(got) - exact) / unit)


def arguments(name: str) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(7)
    signs = generator.choice([-1.0, 1.0], COUNT)
    if FUNCTIONS[name].operands == 1:
        wide = signs * 10.0 ** generator.uniform(-300, 300, COUNT)
        middle = signs * 10.0 ** generator.uniform(-8, 2, COUNT)
        right_angles = np.arange(1, COUNT) * (np.pi / 2)
        usual = generator.uniform(*RANGES[name], COUNT)
        return (np.concatenate([usual, wide, middle, right_angles, right_angles * 2.0**900]),)
    wide = [signs * 10.0 ** generator.uniform(-300, 300, COUNT) for _ in range(2)]
    usual = [generator.normal(size=COUNT) * 3 for _ in range(2)]
    near_one = [generator.uniform(0.99, 1.01, COUNT), generator.normal(size=COUNT) * 20000]
    whole = [generator.integers(-40, 40, COUNT), generator.integers(-99, 99, COUNT)]
    first, second = (
        np.concatenate(parts) for parts in zip(wide, usual, near_one, whole, strict=True)
    )
    return first, second


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(name: str) -> None:
    arrays = arguments(name)
    got = native(name, 64, 8)(*arrays)
    with np.errstate(all="ignore"):
        rough = REFERENCES[name](*arrays)
    checked = 0
    for values, result, near in zip(zip(*arrays, strict=True), got, rough, strict=True):
        if not np.isfinite(near) or near == 0:
            # NaN, an overflow, an underflow, or the result for a zero.
            np.testing.assert_equal(float(result), float(near))
            continue
        exact = EXACT[name](*(mpmath.mpf(float(v)) for v in values))
        found = error(float(result), exact)
        assert found < FUNCTIONS[name].bound64, f"{name}{values}: {found} ulp"
        checked += 1
    assert checked > COUNT


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_cases(name: str) -> None:
    """NaN, infinities, zeros and their signs are those of C, which NumPy follows."""
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0])
    if FUNCTIONS[name].operands == 1:
        arrays: list[np.ndarray] = [special]
    else:
        first = np.concatenate([special, special, SIGNED_EDGES])
        arrays = [a.ravel() for a in np.meshgrid(first, SIGNED_EDGES)]
    with np.errstate(all="ignore"):
        expected = REFERENCES[name](*arrays)
    got = native(name, 64, 8)(*arrays)
    exact = ~np.isfinite(expected) | (expected == 0)
    np.testing.assert_array_equal(got[exact], expected[exact])
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(expected[zeros]))
    np.testing.assert_allclose(got[~exact], expected[~exact], rtol=1e-15)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("lanes", [1, 3, 16])
def test_any_number_of_lanes_gives_the_same_bits(name: str, lanes: int) -> None:
    arrays = [a[:200] for a in arguments(name)]
    np.testing.assert_array_equal(native(name, 64, lanes)(*arrays), native(name, 64, 8)(*arrays))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_generic_cpu_gives_the_same_bits(name: str) -> None:
    arrays = [a[:200] for a in arguments(name)]
    generic = native(name, 64, 2, "generic")(*arrays)
    np.testing.assert_array_equal(generic, native(name, 64, 8)(*arrays))
