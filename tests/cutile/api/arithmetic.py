"""Element-wise functions and the operators that stand for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import Arguments, Tolerance
from tests.corpus.cutile._table import canvas, integers, uniform
from tests.cutile.api._cases import Cases

CASES = Cases()


def store_rows(out, rows):
    """Rows of an output, one for each tile."""
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), row[None, :])


def pairs(count: int, element: Any = np.int32) -> Callable[[np.random.Generator], dict[str, Any]]:
    """Two rows of integers, none of the second 0, and room for ``count`` rows."""

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        y = integers(rng, 16, 1, 9, element) * np.where(np.arange(16) % 3, 1, -1).astype(element)
        return {
            "x": integers(rng, 16, -99, 99, element),
            "y": y,
            "out": canvas((count, 16), element),
        }

    return inputs


def _integer_rows(given: Arguments) -> dict[str, Any]:
    x, y = given["x"], given["y"]
    shift = y & 7
    rows = (
        *(x + y, x - y, x * y, x // y, x % y, -(-x // y), -x, np.abs(x), ~x),
        *(x & y, x | y, x ^ y, x << shift, x >> shift, np.minimum(x, y), np.maximum(x, y)),
        *divmod(x, y),
    )
    return {"out": np.stack(rows)}


@CASES.add(pairs(18), _integer_rows)
@ct.kernel
def integer_functions(x, y, out):
    a, b = ct.load(x, (0,), (16,)), ct.load(y, (0,), (16,))
    shift = ct.bitwise_and(b, 7)
    rows = (ct.add(a, b), ct.sub(a, b), ct.mul(a, b), ct.floordiv(a, b), ct.mod(a, b))
    rows += (ct.cdiv(a, b), ct.negative(a), ct.abs(a), ct.bitwise_not(a))
    rows += (ct.bitwise_and(a, b), ct.bitwise_or(a, b), ct.bitwise_xor(a, b))
    rows += (ct.bitwise_lshift(a, shift), ct.bitwise_rshift(a, shift))
    rows += (ct.minimum(a, b), ct.maximum(a, b))
    rows += ct.divmod(a, b)
    store_rows(out, rows)


def _operator_rows(given: Arguments) -> dict[str, Any]:
    x, y = given["x"], given["y"]
    shift = y & 7
    rows = (
        *(x + y, x - y, x * y, x // y, x % y, -x, ~x, x & y, x | y, x ^ y, x << shift, x >> shift),
        *(5 + x, 500 - x, 3 * x, 1000 // y, 1000 % y, 12 & x, 12 | x, 12 ^ x),
        *(3 << shift, 300 >> shift, np.minimum(x, y), np.maximum(x, y), np.abs(x)),
        *(*divmod(x, y), *divmod(1000, y)),
    )
    return {"out": np.stack(rows).astype(np.int32)}


@CASES.add(pairs(29), _operator_rows)
@ct.kernel
def integer_operators(x, y, out):
    a, b = ct.load(x, (0,), (16,)), ct.load(y, (0,), (16,))
    shift = b & 7
    rows = (a + b, a - b, a * b, a // b, a % b, -a, ~a, a & b, a | b, a ^ b)
    rows += (a << shift, a >> shift)
    rows += (5 + a, 500 - a, 3 * a, 1000 // b, 1000 % b, 12 & a, 12 | a, 12 ^ a)
    rows += (3 << shift, 300 >> shift, min(a, b), max(a, b), abs(a))
    rows += divmod(a, b)
    rows += divmod(1000, b)
    store_rows(out, rows)


def _float_rows(given: Arguments) -> dict[str, Any]:
    x, y = given["x"], given["y"]
    rows = (x + y, 1 - x, x * y, x / y, 2 / y, np.floor(x), np.ceil(x), -x, np.abs(x))
    rows += (np.minimum(x, y), np.maximum(x, y), np.where(np.isnan(x), 0, x), x**2, 2**x)
    return {"out": np.stack([row.astype(np.float64) for row in rows]).astype(np.float32)}


@CASES.add(
    lambda rng: {
        "x": np.rint(uniform(rng, 16, -9, 9)),
        "y": uniform(rng, 16, 1, 9),
        "out": canvas((14, 16)),
    },
    _float_rows,
    tolerance=Tolerance(
        np.array([[0.0]] * 12 + [[8.5]] * 2),
        "all but the powers are correctly rounded; powf of the CUDA math library is within 8 ulp",
    ),
)
@ct.kernel
def float_operators(x, y, out):
    a, b = ct.load(x, (0,), (16,)), ct.load(y, (0,), (16,))
    rows = (a + b, 1.0 - a, a * b, a / b, 2.0 / b, ct.floor(a), ct.ceil(a), ct.negative(a))
    rows += (ct.abs(a), ct.minimum(a, b), ct.maximum(a, b), ct.where(ct.isnan(a), 0.0, a))
    rows += (a**2.0, 2.0**a)
    store_rows(out, rows)


def _comparisons(given: Arguments) -> dict[str, Any]:
    x, y = given["x"], given["y"]
    rows = [x > y, x >= y, x < y, x <= y, x == y, x != y]
    return {"out": np.stack(rows * 2)}


@CASES.add(
    lambda rng: {
        "x": integers(rng, 16, 0, 3, np.float32),
        "y": integers(rng, 16, 0, 3, np.float32),
        "out": canvas((12, 16), np.bool_),
    },
    _comparisons,
)
@ct.kernel
def comparisons(x, y, out):
    a, b = ct.load(x, (0,), (16,)), ct.load(y, (0,), (16,))
    rows = (ct.greater(a, b), ct.greater_equal(a, b), ct.less(a, b), ct.less_equal(a, b))
    rows += (ct.equal(a, b), ct.not_equal(a, b))
    rows += (a > b, a >= b, a < b, a <= b, a == b, a != b)
    store_rows(out, rows)


_BOUNDS = (2, 2, 1, 1, 0, 2, 2, 2, 4, 3, 2, 2, 8, 3)


def _transcendental(given: Arguments) -> dict[str, Any]:
    x, y = (given[name].astype(np.float64) for name in "xy")
    rows = (np.exp(x), np.exp2(x), np.log(x), np.log2(x), np.sqrt(x), 1 / np.sqrt(x))
    rows += (np.sin(x), np.cos(x), np.tan(x), np.sinh(x), np.cosh(x), np.tanh(x))
    rows += (x**y, np.arctan2(x, y))
    return {"out": np.stack(rows).astype(np.float32)}


@CASES.add(
    lambda rng: {
        "x": uniform(rng, 16, 0.1, 1.5),
        "y": uniform(rng, 16, -2, 2),
        "out": canvas((14, 16)),
    },
    _transcendental,
    tolerance=Tolerance(
        np.array([[bound + 0.5 if bound else 0.0] for bound in _BOUNDS]),
        "published maximum errors of the CUDA math library; half an ulp for the expected value",
    ),
)
@ct.kernel
def transcendental_functions(x, y, out):
    a, b = ct.load(x, (0,), (16,)), ct.load(y, (0,), (16,))
    rows = (ct.exp(a), ct.exp2(a), ct.log(a), ct.log2(a), ct.sqrt(a), ct.rsqrt(a))
    rows += (ct.sin(a), ct.cos(a), ct.tan(a), ct.sinh(a), ct.cosh(a), ct.tanh(a))
    rows += (ct.pow(a, b), ct.atan2(a, b))
    store_rows(out, rows)
