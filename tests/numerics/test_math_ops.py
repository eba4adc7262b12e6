"""Mathematical functions against mpmath, in units in the last place."""

import mpmath
import numpy as np
import pytest
from tests.numerics.reference import LARGEST, as_floats, same

from tilewright.numerics import FORMATS, convert, math_ops
from tilewright.numerics.arrays import dtype_of, from_bits

# The stated bounds of the module; the half types are rounded twice.
ULP_BOUND = {"f16": 0.51, "bf16": 0.51, "f32": 0.51, "f64": 4.0}
SAMPLES = 250

REFERENCE = {
    "exp": (mpmath.exp, -700, 700),
    "exp2": (lambda x: mpmath.power(2, x), -1000, 1000),
    "log": (mpmath.log, 0, 1e30),
    "log2": (lambda x: mpmath.log(x, 2), 0, 1e30),
    "sin": (mpmath.sin, -1e6, 1e6),
    "cos": (mpmath.cos, -1e6, 1e6),
    "tan": (mpmath.tan, -1e4, 1e4),
    "sinh": (mpmath.sinh, -80, 80),
    "cosh": (mpmath.cosh, -80, 80),
    "tanh": (mpmath.tanh, -9, 9),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), 0, 1e30),
    "fpowf": (mpmath.power, 0, 50),
    "atan2": (mpmath.atan2, -100, 100),
}


def sample(op: str, element: str, seed: int) -> np.ndarray:
    """Uniform values of the range of the function, and others many orders of magnitude smaller."""
    _, low, high = REFERENCE[op]
    largest = float(LARGEST[element])
    low, high = max(low, -largest), min(high, largest)
    rng = np.random.default_rng(seed)
    values = rng.uniform(low, high, SAMPLES)
    values[::2] *= 10.0 ** rng.uniform(-8, 0, values[::2].size)
    return values.astype(dtype_of(element))


def ulp(value: mpmath.mpf, element: str) -> mpmath.mpf:
    fmt = FORMATS[element]
    exponent = max(mpmath.frexp(value)[1] - 1, fmt.min_exponent)
    return mpmath.mpf(2) ** (int(exponent) - fmt.mantissa_bits)


@pytest.mark.parametrize("element", ULP_BOUND)
@pytest.mark.parametrize("op", REFERENCE)
def test_error_in_ulp(op, element):
    arity = 2 if op in ("fpowf", "atan2") else 1
    arrays = [sample(op, element, seed) for seed in range(arity)]
    if op == "fpowf":
        arrays[1] = (arrays[1].astype(np.float64) / 10 - 2).astype(dtype_of(element))
    result = getattr(math_ops, op)(*arrays, element)
    assert result.dtype == dtype_of(element)
    largest = float(LARGEST[element])
    worst = 0.0
    with mpmath.workprec(200):
        for *arguments, got in zip(*map(as_floats, arrays), as_floats(result), strict=True):
            exact = REFERENCE[op][0](*map(mpmath.mpf, arguments))
            if abs(exact) > largest:
                assert abs(got) >= largest
                continue
            worst = max(worst, float(abs(got - exact) / ulp(exact, element)))
    assert 0 < worst <= ULP_BOUND[element]


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("op", [op for op in REFERENCE if op not in ("fpowf", "atan2")])
def test_half_types_go_through_f32(op, element):
    """Every value: rounding the f64 result at once would differ for a few of them."""
    source = from_bits(np.arange(2**16), element)
    through = getattr(math_ops, op)(convert.ftof(source, element, to="f32"), "f32")
    expected = as_floats(convert.ftof(through, "f32", to=element))
    assert same(getattr(math_ops, op)(source, element), expected).all()


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("op", "argument", "expected"),
    [
        ("exp", -INF, 0.0),
        ("exp", INF, INF),
        ("exp2", 3.0, 8.0),
        ("log", 0.0, -INF),
        ("log", -0.0, -INF),
        ("log", -1.0, NAN),
        ("log2", 8.0, 3.0),
        ("log2", INF, INF),
        ("sin", INF, NAN),
        ("sin", -0.0, -0.0),
        ("cos", -INF, NAN),
        ("cos", 0.0, 1.0),
        ("tan", INF, NAN),
        ("sinh", -0.0, -0.0),
        ("cosh", -INF, INF),
        ("tanh", -INF, -1.0),
        ("tanh", -0.0, -0.0),
        ("rsqrt", 0.0, INF),
        ("rsqrt", -0.0, -INF),
        ("rsqrt", INF, 0.0),
        ("rsqrt", -1.0, NAN),
        ("rsqrt", 4.0, 0.5),
    ],
)
@pytest.mark.parametrize("element", ULP_BOUND)
def test_special_values(element, op, argument, expected):
    source = np.array([argument, NAN]).astype(dtype_of(element))
    assert same(getattr(math_ops, op)(source, element), [expected, NAN]).all()


@pytest.mark.parametrize(
    ("base", "exponent", "expected"),
    [
        (NAN, 0.0, 1.0),
        (1.0, NAN, 1.0),
        (-1.0, INF, 1.0),
        (-2.0, 3.0, -8.0),
        (-2.0, 0.5, NAN),
        (-0.0, -3.0, -INF),
        (0.0, -2.0, INF),
        (0.5, INF, 0.0),
        (INF, -1.0, 0.0),
    ],
)
def test_power_special_cases(base, exponent, expected):
    for element in ULP_BOUND:
        dtype = dtype_of(element)
        arrays = np.array([base]).astype(dtype), np.array([exponent]).astype(dtype)
        assert same(math_ops.fpowf(*arrays, element), [expected]).all()


@pytest.mark.parametrize("element", ULP_BOUND)
def test_integer_powers(element):
    base = np.array([-2.0, 2.0, 3.0, NAN, -0.0, 0.5]).astype(dtype_of(element))
    exponent = np.array([3, -2, 2, 0, -1, 5], np.int8)
    expected = [-8.0, 0.25, 9.0, 1.0, -INF, 0.03125]
    assert same(math_ops.fpowi(base, exponent, element), expected).all()
    # A true i1 is -1.
    halves = math_ops.fpowi(base[1:3], np.array([True, False]), element)
    assert as_floats(halves) == [0.5, 1.0]


def test_atan2_takes_the_ordinate_first():
    ordinate, abscissa = np.array([1.0, -0.0, 0.0]), np.array([0.0, -1.0, -1.0])
    assert same(math_ops.atan2(ordinate, abscissa, "f64"), [np.pi / 2, -np.pi, np.pi]).all()


def test_flush_to_zero():
    tiny = np.array([-1e-40, 1e-40], np.float32)
    assert as_floats(math_ops.rsqrt(tiny, "f32", flush_to_zero=True)) == [-INF, INF]
    small = np.array([-130.0], np.float32)
    assert as_floats(math_ops.exp2(small, "f32", flush_to_zero=True)) == [0.0]
    assert as_floats(math_ops.exp2(small, "f32")) == [2.0**-130]


@pytest.mark.parametrize("op", ["exp", "tanh"])
def test_approx_has_the_value_of_full(op):
    source = sample(op, "f32", 3)
    function = getattr(math_ops, op)
    approx = function(source, "f32", rounding="approx")
    assert approx.tolist() == function(source, "f32", rounding="full").tolist()
