"""Transcendental functions, powers, and the approximate rounding modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import mpmath
import numpy as np
from tests.corpus import Arguments, Launch, Tolerance
from tests.corpus.cutile._table import NUMPY_TYPES, KernelTable, array, canvas, integers, uniform

KERNELS = KernelTable("mathematics")

FULL, APPROX = ct.RoundingMode.FULL, ct.RoundingMode.APPROX

# Function and its largest error in f32 and f64, in ulp, as NVIDIA publishes it for the CUDA
# math library; sqrt is correctly rounded.
_UNARY: tuple[tuple[Callable[[Any], Any], float, float], ...] = (
    (mpmath.exp, 2, 1),
    (lambda x: mpmath.power(2, x), 2, 1),
    (mpmath.log, 1, 1),
    (lambda x: mpmath.log(x, 2), 1, 1),
    (mpmath.sqrt, 0, 0),
    (lambda x: 1 / mpmath.sqrt(x), 2, 1),
    (mpmath.sin, 2, 2),
    (mpmath.cos, 2, 2),
    (mpmath.tan, 4, 2),
    (mpmath.sinh, 3, 2),
    (mpmath.cosh, 2, 1),
    (mpmath.tanh, 2, 1),
)
_BINARY: tuple[tuple[Callable[[Any, Any], Any], float, float], ...] = (
    (mpmath.power, 8, 2),
    (mpmath.atan2, 3, 2),
)
_LIBRARY = "published maximum errors of the CUDA math library, one bound per row"
_VIA_F32 = "computed in f32 (at most 8 ulp of f32) and rounded to 16 bits: 0.5 ulp and a little"


def _true_values(
    function: Callable[..., Any], dtype: np.dtype, *operands: np.ndarray
) -> np.ndarray:
    """The mathematical values rounded to `dtype`, by way of 100 bits."""
    rows = zip(*(operand.astype(np.float64).tolist() for operand in operands))
    with mpmath.workprec(100):
        values = [float(function(*map(mpmath.mpf, row))) for row in rows]
    return np.array(values).astype(dtype)


def _tolerance(dtype: Any, table: tuple[tuple[Any, float, float], ...]) -> Tolerance:
    if dtype in (ct.float16, ct.bfloat16):
        return Tolerance(1.0, _VIA_F32)
    # The expected value is itself off by half an ulp.
    bounds = [row[1] if dtype == ct.float32 else row[2] for row in table]
    return Tolerance(np.array([[bound + 0.5 if bound else 0] for bound in bounds]), _LIBRARY)


@ct.kernel
def unary_functions(x, out):
    a = ct.load(x, (0,), (64,))
    rows = (ct.exp(a), ct.exp2(a), ct.log(a), ct.log2(a), ct.sqrt(a), ct.rsqrt(a))
    rows += (ct.sin(a), ct.cos(a), ct.tan(a), ct.sinh(a), ct.cosh(a), ct.tanh(a))
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(row, 0))


@ct.kernel
def binary_functions(x, y, out):
    a = ct.load(x, (0,), (64,))
    b = ct.load(y, (0,), (64,))
    ct.store(out, (0, 0), ct.expand_dims(ct.pow(a, b), 0))
    ct.store(out, (1, 0), ct.expand_dims(ct.atan2(a, b), 0))


def _register(dtype: Any) -> None:
    element = NUMPY_TYPES[dtype]
    KERNELS.register(
        unary_functions,
        array(dtype),
        array(dtype, 2),
        name=f"unary_functions_{dtype}",
        ops="exp exp2 log log2 sqrt rsqrt sin cos tan sinh cosh tanh",
        launch=Launch(
            (1, 1, 1),
            lambda rng: {"x": uniform(rng, 64, 0.1, 3, element), "out": canvas((12, 64), element)},
            lambda given: {
                "out": np.stack([_true_values(row[0], element, given["x"]) for row in _UNARY])
            },
            _tolerance(dtype, _UNARY),
        ),
    )
    KERNELS.register(
        binary_functions,
        array(dtype),
        array(dtype),
        array(dtype, 2),
        name=f"binary_functions_{dtype}",
        since="13.2",
        ops="fpowf atan2",
        launch=Launch(
            (1, 1, 1),
            lambda rng: {
                "x": uniform(rng, 64, 0.1, 3, element),
                "y": uniform(rng, 64, -2, 2, element),
                "out": canvas((2, 64), element),
            },
            lambda given: {
                "out": np.stack(
                    [_true_values(row[0], element, given["x"], given["y"]) for row in _BINARY]
                )
            },
            _tolerance(dtype, _BINARY),
        ),
    )


for _dtype in (ct.float16, ct.bfloat16, ct.float32, ct.float64):
    _register(_dtype)


@KERNELS.add(
    array(ct.float32),
    array(ct.int8),
    array(ct.float32),
    ops="fpowi fpowf",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": uniform(rng, 64, 0.5, 2),
            "n": integers(rng, 64, -4, 4, np.int8),
            "out": canvas(64),
        },
        lambda given: {
            "out": _true_values(mpmath.power, np.dtype(np.float32), given["x"], given["n"])
        },
        Tolerance(
            8.5,
            "fpowf of the CUDA math library is within 8 ulp; a power up to 4 by multiplication and "
            "one division is within 4 ulp; half an ulp for the expected value",
        ),
    ),
)
@ct.kernel
def integer_powers(x, n, out):
    ct.store(out, (0,), ct.load(x, (0,), (64,)) ** ct.load(n, (0,), (64,)))


def _quotients(given: Arguments) -> dict[str, Any]:
    exact = (given["x"].astype(np.float64) / given["y"]).astype(np.float32)
    return {"out": np.stack([exact] * 4)}


@KERNELS.add(
    array(ct.float32),
    array(ct.float32),
    array(ct.float32, 2),
    ops="divf",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": uniform(rng, 64, -10, 10),
            "y": uniform(rng, 64, 0.1, 10),
            "out": canvas((4, 64)),
        },
        _quotients,
        Tolerance(2.5, "Tile IR promises 2 ulp for full and approx; half an ulp for the expected"),
    ),
)
@ct.kernel
def division_modes(x, y, out):
    a = ct.load(x, (0,), (64,))
    b = ct.load(y, (0,), (64,))
    rows = ()
    for mode in ct.static_iter((FULL, APPROX)):
        for ftz in ct.static_iter((False, True)):
            rows += (ct.truediv(a, b, rounding_mode=mode, flush_to_zero=ftz),)
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(row, 0))


@KERNELS.add(array(ct.float32), array(ct.float32, 2), since="13.3", ops="exp tanh sqrt rsqrt exp2")
@ct.kernel
def approximate_functions(x, out):
    a = ct.load(x, (0,), (64,))
    rows = (ct.exp(a, rounding_mode=FULL), ct.exp(a, rounding_mode=APPROX))
    rows += (ct.tanh(a, rounding_mode=FULL), ct.tanh(a, rounding_mode=APPROX))
    for ftz in ct.static_iter((False, True)):
        rows += (ct.sqrt(a, rounding_mode=APPROX, flush_to_zero=ftz),)
        rows += (ct.rsqrt(a, flush_to_zero=ftz), ct.exp2(a, flush_to_zero=ftz))
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(row, 0))
