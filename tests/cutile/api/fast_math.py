"""Rounding modes, flushing of subnormals, propagation of NaN."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import Arguments, Tolerance
from tests.corpus.cutile._table import canvas, uniform
from tests.cutile.api._cases import Cases
from tests.cutile.api.arithmetic import store_rows

CASES = Cases()

RN, RZ, RM, RP = (
    ct.RoundingMode.RN,
    ct.RoundingMode.RZ,
    ct.RoundingMode.RM,
    ct.RoundingMode.RP,
)
FULL, APPROX, RA = ct.RoundingMode.FULL, ct.RoundingMode.APPROX, ct.RoundingMode.RA
_TINY = np.finfo(np.float32).tiny


def _between(exact: Fraction) -> tuple[np.float32, np.float32]:
    """The nearest f32 on either side of a number, both the number itself where it is one."""
    nearest = np.float32(float(exact))
    if Fraction(float(nearest)) == exact:
        return nearest, nearest
    if Fraction(float(nearest)) < exact:
        return nearest, np.nextafter(nearest, np.float32(np.inf))
    return np.nextafter(nearest, np.float32(-np.inf)), nearest


def _rounded(exact: Fraction) -> list[np.float32]:
    """Rounded to nearest, to zero, down and up."""
    low, high = _between(exact)
    nearest = min(
        (low, high),
        key=lambda value: (abs(Fraction(float(value)) - exact), int(value.view(np.uint32)) & 1),
    )
    return [nearest, high if exact < 0 else low, low, high]


def _directed(given: Arguments) -> dict[str, Any]:
    x, y = ([Fraction(float(v)) for v in given[name]] for name in "xy")
    operations: tuple[Callable[[Fraction, Fraction], Fraction], ...] = (
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / b,
    )
    rows = [
        row
        for operation in operations
        for row in np.array([_rounded(operation(a, b)) for a, b in zip(x, y)]).T
    ]
    return {"out": np.stack(rows)}


@CASES.add(
    lambda rng: {
        "x": uniform(rng, 16, -9, 9),
        "y": uniform(rng, 16, 0.1, 0.9),
        "out": canvas((16, 16)),
    },
    _directed,
)
@ct.kernel
def directed_rounding(x, y, out):
    a, b = ct.load(x, (0,), (16,)), ct.load(y, (0,), (16,))
    rows = ()
    for function in ct.static_iter((ct.add, ct.sub, ct.mul, ct.truediv)):
        for mode in ct.static_iter((RN, RZ, RM, RP)):
            rows += (function(a, b, rounding_mode=mode),)
    store_rows(out, rows)


def _flushed(value: np.ndarray) -> np.ndarray:
    return np.where(np.abs(value) < _TINY, np.copysign(np.float32(0), value), value)


def _with_flushing(given: Arguments) -> dict[str, Any]:
    x, y = _flushed(given["x"]), _flushed(given["y"])
    with np.errstate(divide="ignore"):
        rows = [x + y, x - y, x * y, x / np.abs(y), np.minimum(x, y), np.maximum(x, y)]
        rows += [np.sqrt(np.abs(x)), 1 / np.sqrt(np.abs(x).astype(np.float64)), np.exp2(x)]
    return {"out": np.stack([_flushed(row.astype(np.float32)) for row in rows])}


def _subnormals(rng: np.random.Generator) -> dict[str, Any]:
    scale = np.where(np.arange(16) % 2, np.float32(1), _TINY / 4).astype(np.float32)
    return {
        "x": uniform(rng, 16, -2, 2) * scale,
        "y": uniform(rng, 16, 1, 4),
        "out": canvas((9, 16)),
    }


@CASES.add(
    _subnormals,
    _with_flushing,
    tolerance=Tolerance(
        np.array([[0.0]] * 7 + [[2.5]] * 2),
        "rsqrt and exp2 within 2 ulp as in the CUDA math library, half an ulp for the expected; "
        "the rest correctly rounded",
    ),
)
@ct.kernel
def flushing(x, y, out):
    a, b = ct.load(x, (0,), (16,)), ct.load(y, (0,), (16,))
    rows = (ct.add(a, b, flush_to_zero=True), ct.sub(a, b, flush_to_zero=True))
    rows += (ct.mul(a, b, flush_to_zero=True), ct.truediv(a, b, flush_to_zero=True))
    rows += (ct.minimum(a, b, flush_to_zero=True), ct.maximum(a, b, flush_to_zero=True))
    rows += (ct.sqrt(abs(a), flush_to_zero=True), ct.rsqrt(abs(a), flush_to_zero=True))
    rows += (ct.exp2(a, flush_to_zero=True),)
    store_rows(out, rows)


def _approximate(given: Arguments) -> dict[str, Any]:
    x = given["x"].astype(np.float64)
    rows = (1 / x, 1 / x, np.sqrt(x), np.exp(x), np.exp(x), np.tanh(x), np.tanh(x))
    return {"out": np.stack(rows).astype(np.float32)}


@CASES.add(
    lambda rng: {"x": uniform(rng, 16, 0.25, 2), "out": canvas((7, 16))},
    _approximate,
    tolerance=Tolerance(
        np.array([[2.5], [2.5], [3.5], [2.5], [5.0], [2.5], [2.0**13]]),
        "PTX: approximate division within 2 ulp, sqrt within 3, ex2 within 2 (and one for the "
        "factor), tanh within 2**-10.987 relative; half an ulp for the expected value",
    ),
)
@ct.kernel
def approximate_functions(x, out):
    a = ct.load(x, (0,), (16,))
    rows = (ct.truediv(1.0, a, rounding_mode=FULL), ct.truediv(1.0, a, rounding_mode=APPROX))
    rows += (ct.sqrt(a, rounding_mode=APPROX),)
    rows += (ct.exp(a, rounding_mode=FULL), ct.exp(a, rounding_mode=APPROX))
    rows += (ct.tanh(a, rounding_mode=FULL), ct.tanh(a, rounding_mode=APPROX))
    store_rows(out, rows)


def _casts(given: Arguments) -> dict[str, Any]:
    # All values are of magnitude 1 to 2, where neighbouring f32 are 2**-23 apart and neighbouring
    # tf32 2**-10.
    steps = given["wide"] * 2**23
    rows = np.stack([np.rint(steps), np.trunc(steps), np.floor(steps), np.ceil(steps)]) / 2**23
    narrow = given["narrow"].astype(np.float64) * 2**10
    nearest = np.rint(narrow)
    away = np.copysign(np.floor(np.abs(narrow) + 0.5), narrow)
    return {
        "out": rows.astype(np.float32),
        "tf32": (np.stack([nearest, np.trunc(narrow), away]) / 2**10).astype(np.float32),
    }


def _halfway(rng: np.random.Generator) -> dict[str, Any]:
    """Numbers that lie halfway between two of the target, or are one."""
    sign = np.where(np.arange(16) % 2, 1, -1)
    return {
        "wide": sign * rng.integers(2**24, 2**25, 16) / 2**24,
        "narrow": (sign * rng.integers(2**11, 2**12, 16) / 2**11).astype(np.float32),
        "out": canvas((4, 16)),
        "tf32": canvas((3, 16)),
    }


@CASES.add(_halfway, _casts)
@ct.kernel
def rounding_casts(wide, narrow, out, tf32):
    a = ct.load(wide, (0,), (16,))
    rows = ()
    for mode in ct.static_iter((RN, RZ, RM, RP)):
        rows += (ct.astype(a, ct.float32, rounding_mode=mode),)
    store_rows(out, rows)
    b = ct.load(narrow, (0,), (16,))
    for i, mode in ct.static_iter(enumerate((RN, RZ, RA))):
        rounded = b.astype(ct.tfloat32, rounding_mode=mode)
        ct.store(tf32, (i, 0), rounded.astype(ct.float32)[None, :])


def _nan(given: Arguments) -> dict[str, Any]:
    x, y = given["x"], given["y"]
    rows = (np.fmin(x, y), np.fmax(x, y), np.minimum(x, y), np.maximum(x, y))
    return {"out": np.stack(rows)}


@CASES.add(
    lambda rng: {
        "x": np.where(np.arange(16) % 4 == 1, np.nan, uniform(rng, 16)).astype(np.float32),
        "y": np.where(np.arange(16) % 4 >= 2, np.nan, uniform(rng, 16)).astype(np.float32),
        "out": canvas((4, 16)),
    },
    _nan,
)
@ct.kernel
def nan_in_extrema(x, y, out):
    a, b = ct.load(x, (0,), (16,)), ct.load(y, (0,), (16,))
    rows = (ct.minimum(a, b), ct.maximum(a, b))
    rows += (ct.minimum(a, b, propagate_nan=True), ct.maximum(a, b, propagate_nan=True))
    store_rows(out, rows)
