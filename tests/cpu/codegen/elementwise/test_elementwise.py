"""Element-wise operations against ``numerics``: bit for bit, mathematics within its bound."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.cpu.codegen.support import Given, on_tiles, same_bits, tile

from tilewright.cpu.mathlib import FUNCTIONS
from tilewright.numerics.arrays import dtype_of, from_bits
from tilewright.numerics.element_types import BASE_FLOAT_TYPES, FORMATS, INT_TYPES
from tilewright.numerics.semantics import ELEMENTWISE

COUNT = 256

_EDGES = {
    "f16": (0x0000, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF),
    "bf16": (0x0000, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 0x0001, 0x8001, 0x007F, 0x0080, 0x7F7F),
    "f32": (0, 1 << 31, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x7F7FFFFF),
    "f64": (0, 1 << 63, 0x3FF << 52, 0xBFF << 52, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 1, (1 << 63) + 1, (1 << 52) - 1, 1 << 52, (0x7FF << 52) - 1),
}  # fmt: skip


@functools.cache
def samples(element: str, seed: int) -> np.ndarray:
    """Elements of every kind: edges against one another, then random patterns and plain numbers."""
    rng = np.random.default_rng(seed)
    fmt = FORMATS[element]
    patterns = rng.integers(0, 1 << min(fmt.bits, 63), COUNT, dtype=np.uint64)
    if fmt.bits == 64:
        patterns |= rng.integers(0, 2, COUNT, dtype=np.uint64) << np.uint64(63)
    if fmt.is_float:
        edges = np.array(_EDGES[element], np.uint64)
        grid = np.repeat(edges, len(edges)) if seed % 2 else np.tile(edges, len(edges))
        patterns[: len(grid)] = grid
        values = from_bits(patterns, element)
        near = rng.standard_normal(COUNT // 4).astype(dtype_of(element))
        values[-len(near) :] = near
        return values
    values = from_bits(patterns, element)
    small = rng.integers(0, 2 if fmt.bits == 1 else 5, COUNT // 4)
    values[-len(small) :] = (small - (0 if fmt.bits == 1 else 2)).astype(values.dtype)
    if fmt.bits > 1:
        low = -(1 << (fmt.bits - 1))
        values[:4] = (low, low, -low - 1, -1)
        values[4] = low if seed % 2 else -1
    return values


def check(operation: str, result: str, expected: np.ndarray, *operands: Given) -> None:
    (found,) = on_tiles(operation, operands, [(result, expected.shape)])
    good = same_bits(found, expected)
    at = int(np.argmin(good))
    assert good.all(), (
        f"{operation}: {int((~good).sum())} wrong; element {at}: "
        f"{[g.array[at] for g in operands]} gives {found[at]}, expected {expected[at]}"
    )


_INTEGER_BINARY = {
    "addi": ("addi", {}),
    "subi": ("subi", {}),
    "muli": ("muli", {}),
    "divsi": ("divi", {"signedness": "signed"}),
    "divui": ("divi", {"signedness": "unsigned"}),
    "ceildivsi": ("divi", {"signedness": "signed", "rounding": "positive_inf"}),
    "ceildivui": ("divi", {"signedness": "unsigned", "rounding": "positive_inf"}),
    "floordivsi": ("divi", {"signedness": "signed", "rounding": "negative_inf"}),
    "remsi": ("remi", {"signedness": "signed"}),
    "remui": ("remi", {"signedness": "unsigned"}),
    "maxsi": ("maxi", {"signedness": "signed"}),
    "maxui": ("maxi", {"signedness": "unsigned"}),
    "minsi": ("mini", {"signedness": "signed"}),
    "minui": ("mini", {"signedness": "unsigned"}),
    "andi": ("andi", {}),
    "ori": ("ori", {}),
    "xori": ("xori", {}),
    "shli": ("shli", {}),
    "shrsi": ("shri", {"signedness": "signed"}),
    "shrui": ("shri", {"signedness": "unsigned"}),
}


@pytest.mark.parametrize("element", INT_TYPES)
@pytest.mark.parametrize("op", _INTEGER_BINARY)
def test_integer_operations(op: str, element: str):
    name, attributes = _INTEGER_BINARY[op]
    lhs, rhs = samples(element, 1), samples(element, 2)
    expected = ELEMENTWISE[name](lhs, rhs, element=element, **attributes)
    ty = tile(element, (COUNT,))
    check(
        f"%r0 = arith.{op} %a0, %a1 : {ty}",
        element,
        expected,
        Given(element, lhs),
        Given(element, rhs),
    )


@pytest.mark.parametrize("element", INT_TYPES[1:])
def test_integer_magnitudes_and_upper_halves(element: str):
    lhs, rhs = samples(element, 1), samples(element, 2)
    ty = tile(element, (COUNT,))
    check(
        f"%r0 = math.absi %a0 : {ty}",
        element,
        ELEMENTWISE["absi"](lhs, element=element),
        Given(element, lhs),
    )
    check(
        f"%r0 = nv_tileaa.mulhiui %a0, %a1 : {ty}",
        element,
        ELEMENTWISE["mulhii"](lhs, rhs, element=element),
        Given(element, lhs),
        Given(element, rhs),
    )


_PREDICATES = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less_than",
    "le": "less_than_or_equal",
    "gt": "greater_than",
    "ge": "greater_than_or_equal",
}


@pytest.mark.parametrize("element", INT_TYPES)
@pytest.mark.parametrize("sign", ["s", "u"])
@pytest.mark.parametrize("predicate", _PREDICATES)
def test_integer_comparisons(predicate: str, sign: str, element: str):
    lhs, rhs = samples(element, 1), samples(element, 2)
    signedness = {"s": "signed", "u": "unsigned"}[sign]
    expected = ELEMENTWISE["cmpi"](
        lhs,
        rhs,
        element=element,
        comparison_predicate=_PREDICATES[predicate],
        signedness=signedness,
    )
    name = predicate if predicate in ("eq", "ne") else f"{sign}{predicate}"
    ty = tile(element, (COUNT,))
    check(
        f"%r0 = arith.cmpi {name}, %a0, %a1 : {ty}",
        "i1",
        expected,
        Given(element, lhs),
        Given(element, rhs),
    )


@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
@pytest.mark.parametrize("ordering", ["o", "u"])
@pytest.mark.parametrize("predicate", _PREDICATES)
def test_float_comparisons(predicate: str, ordering: str, element: str):
    lhs, rhs = samples(element, 1), samples(element, 2)
    expected = ELEMENTWISE["cmpf"](
        lhs,
        rhs,
        element=element,
        comparison_predicate=_PREDICATES[predicate],
        comparison_ordering={"o": "ordered", "u": "unordered"}[ordering],
    )
    ty = tile(element, (COUNT,))
    check(
        f"%r0 = arith.cmpf {ordering}{predicate}, %a0, %a1 : {ty}", "i1", expected,
        Given(element, lhs), Given(element, rhs),
    )  # fmt: skip


_MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")
_OPERANDS = {"addf": 2, "subf": 2, "mulf": 2, "divf": 2, "fma": 3, "sqrt": 1}


@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
@pytest.mark.parametrize("rounding", _MODES)
@pytest.mark.parametrize("op", _OPERANDS)
def test_float_arithmetic_in_every_direction(op: str, rounding: str, element: str):
    arrays = [samples(element, seed) for seed in (1, 2, 3)[: _OPERANDS[op]]]
    expected = ELEMENTWISE[op](*arrays, element=element, rounding=rounding)
    operands = ", ".join(f"%a{i}" for i in range(len(arrays)))
    check(
        f"%r0 = nv_tileaa.{op} {operands} {{rounding_mode = {rounding}}} : {tile(element, (COUNT,))}",
        element, expected, *(Given(element, array) for array in arrays),
    )  # fmt: skip


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "generic"])
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_narrow_fma_is_rounded_once(element: str, cpu: str):
    """Sums that lie next to the middle of two numbers, and products too small for f32."""
    rng = np.random.default_rng(5)
    count, spread = 4 * COUNT, {"f16": 12, "bf16": 130}[element]
    scales = [2.0 ** rng.integers(-spread, 4, count) for _ in range(3)]
    x, y, z = ((rng.standard_normal(count) * s).astype(dtype_of(element)) for s in scales)
    z[::3] = -(x * y)[::3]
    z[1::5] = 0
    expected = ELEMENTWISE["fma"](x, y, z, element=element)
    given = [Given(element, array) for array in (x, y, z)]
    operation = f"%r0 = nv_tileaa.fma %a0, %a1, %a2 : {tile(element, (count,))}"
    (found,) = on_tiles(operation, given, [(element, (count,))], cpu=cpu)
    assert same_bits(found, expected).all()


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "generic"])
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_fma_next_to_middles(element: str, cpu: str):
    """Products of half a unit of what they are added to, exactly and nearly; in all of the range, and products beyond it."""
    rng = np.random.default_rng(11)
    fmt, count = FORMATS[element], 16 * COUNT
    least, most = (1 - fmt.bias - fmt.mantissa_bits, fmt.bias)
    exponents = rng.integers(least, most + 1, count)
    units = np.maximum(exponents - fmt.mantissa_bits, least)
    first = rng.integers(least // 2, most // 2 + 1, count)
    # Half a unit, or where that is so small that a factor is 0, a unit.
    second = np.clip(units - 1 - first, least, most)
    near = 1 + rng.choice([0, 0, 1, -1, 2], (2, count)) * 2.0**-fmt.mantissa_bits
    near *= rng.choice([1, 1, 1, 3, 5], count)
    x, y = (n * 2.0**e for n, e in zip(near, (first, second), strict=True))
    z = rng.standard_normal(count) * 2.0**exponents
    beyond = slice(0, count, 9)
    x[beyond], y[beyond] = 2.0 ** (most // 2 + 1), 1.5 * 2.0 ** (most - most // 2)
    z[beyond] = -np.abs(rng.choice([1.0, 1.5, 1.75], z[beyond].size)) * 2.0**most
    x[1::2] *= -1
    with np.errstate(over="ignore"):
        x, y, z = (each.astype(dtype_of(element)) for each in (x, y, z))
    expected = ELEMENTWISE["fma"](x, y, z, element=element)
    given = [Given(element, array) for array in (x, y, z)]
    operation = f"%r0 = nv_tileaa.fma %a0, %a1, %a2 : {tile(element, (count,))}"
    (found,) = on_tiles(operation, given, [(element, (count,))], cpu=cpu)
    assert same_bits(found, expected).all()


@pytest.mark.parametrize("op", ["addf", "subf", "mulf", "divf", "fma", "sqrt"])
def test_flushing_to_zero(op: str):
    arrays = [samples("f32", seed) for seed in (1, 2, 3)[: _OPERANDS[op]]]
    expected = ELEMENTWISE[op](*arrays, element="f32", flush_to_zero=True)
    operands = ", ".join(f"%a{i}" for i in range(len(arrays)))
    check(
        f"%r0 = nv_tileaa.{op} {operands} {{flush_to_zero}} : {tile('f32', (COUNT,))}",
        "f32", expected, *(Given("f32", array) for array in arrays),
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["approx", "full"])
def test_approximate_division(mode: str):
    lhs, rhs = samples("f32", 1), samples("f32", 2)
    expected = ELEMENTWISE["divf"](lhs, rhs, element="f32", rounding=mode)
    operation = (
        f"%r0 = nv_tileaa.divf %a0, %a1 {{rounding_mode = {mode}}} : {tile('f32', (COUNT,))}"
    )
    check(operation, "f32", expected, Given("f32", lhs), Given("f32", rhs))


_EXTREMA = {
    "maximumf": ("maxf", True),
    "minimumf": ("minf", True),
    "maxnumf": ("maxf", False),
    "minnumf": ("minf", False),
}


@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
@pytest.mark.parametrize("op", _EXTREMA)
def test_extrema(op: str, element: str):
    lhs, rhs = samples(element, 1), samples(element, 2)
    name, propagate = _EXTREMA[op]
    expected = ELEMENTWISE[name](lhs, rhs, element=element, propagate_nan=propagate)
    operation = f"%r0 = arith.{op} %a0, %a1 : {tile(element, (COUNT,))}"
    (found,) = on_tiles(
        operation, [Given(element, lhs), Given(element, rhs)], [(element, (COUNT,))]
    )
    # NaN results are the canonical one, so that every bit counts.
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
@pytest.mark.parametrize("op", ["arith.negf", "math.absf", "math.ceil", "math.floor"])
def test_signs_and_integral_values(op: str, element: str):
    source = samples(element, 1)
    expected = ELEMENTWISE[op.partition(".")[2]](source, element=element)
    check(f"%r0 = {op} %a0 : {tile(element, (COUNT,))}", element, expected, Given(element, source))


@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
def test_remainders(element: str):
    rng = np.random.default_rng(7)
    lhs, rhs = (rng.uniform(-50, 50, COUNT).astype(dtype_of(element)) for _ in "lr")
    expected = ELEMENTWISE["remf"](lhs, rhs, element=element)
    check(
        f"%r0 = arith.remf %a0, %a1 : {tile(element, (COUNT,))}",
        element,
        expected,
        Given(element, lhs),
        Given(element, rhs),
    )


@pytest.mark.parametrize("element", [*INT_TYPES, *BASE_FLOAT_TYPES])
def test_selection_copies_bits(element: str):
    condition = samples("i1", 1)
    lhs, rhs = samples(element, 1), samples(element, 2)
    expected = np.where(condition, lhs, rhs)
    operation = (
        f"%r0 = arith.select %a0, %a1, %a2 : {tile('i1', (COUNT,))}, {tile(element, (COUNT,))}"
    )
    operands = [Given("i1", condition), Given(element, lhs), Given(element, rhs)]
    (found,) = on_tiles(operation, operands, [(element, (COUNT,))])
    assert found.tobytes() == expected.tobytes()


_MATHEMATICS = {
    "math.exp": "exp", "nv_tileaa.exp2": "exp2", "math.log": "log", "math.log2": "log2",
    "math.sin": "sin", "math.cos": "cos", "math.tan": "tan", "math.sinh": "sinh", "math.cosh": "cosh",
    "math.tanh": "tanh", "nv_tileaa.rsqrt": "rsqrt", "math.atan2": "atan2", "math.powf": "pow",
}  # fmt: skip


@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
@pytest.mark.parametrize("op", _MATHEMATICS)
def test_mathematics_within_its_bound(op: str, element: str):
    """The reference is within 0.51 ulp (f64: 4 ulp); half types are rounded once more."""
    name = _MATHEMATICS[op]
    about = FUNCTIONS[name]
    rng = np.random.default_rng(3)
    arrays = [
        rng.uniform(0.01 if name in ("log", "log2", "pow", "rsqrt") else -5, 5, COUNT).astype(
            dtype_of(element)
        )
        for _ in range(about.operands)
    ]
    expected = ELEMENTWISE[name](*arrays, element=element).astype(np.float64)
    operands = ", ".join(f"%a{i}" for i in range(about.operands))
    operation = f"%r0 = {op} {operands} : {tile(element, (COUNT,))}"
    (found,) = on_tiles(operation, [Given(element, a) for a in arrays], [(element, (COUNT,))])
    fmt = FORMATS[element]
    _, exponent = np.frexp(expected)
    ulp = np.ldexp(1.0, np.maximum(exponent - 1, fmt.min_exponent) - fmt.mantissa_bits)
    bound = {"f64": about.bound64 + 4, "f32": about.bound32 + 0.51}.get(element, 1.0)
    assert (np.abs(found.astype(np.float64) - expected) <= bound * ulp).all()


def test_integer_powers():
    rng = np.random.default_rng(5)
    source = rng.uniform(-2, 2, COUNT).astype(np.float32)
    exponent = rng.integers(-6, 7, COUNT).astype(np.int32)
    expected = ELEMENTWISE["fpowi"](source, exponent, element="f32")
    operation = f"%r0 = math.fpowi %a0, %a1 : {tile('f32', (COUNT,))}, {tile('i32', (COUNT,))}"
    (found,) = on_tiles(
        operation, [Given("f32", source), Given("i32", exponent)], [("f32", (COUNT,))]
    )
    assert (np.abs(found - expected) <= np.spacing(np.abs(expected))).all()


def test_scalars_compute_as_tiles_do():
    """The same code on one element, without vectors."""
    lhs, rhs = samples("f16", 1), samples("f16", 2)
    body = """
      %i = arith.constant 17 : index
      %x = nv_tileaa.extract %a0[%i] : tile<256xf16>, index -> f16
      %y = nv_tileaa.extract %a1[%i] : tile<256xf16>, index -> f16
      %s = nv_tileaa.fma %x, %y, %y : f16
      %r0 = nv_tileaa.splat %s : f16 -> tile<1xf16>
    """
    (found,) = on_tiles(body, [Given("f16", lhs), Given("f16", rhs)], [("f16", (1,))])
    expected = ELEMENTWISE["fma"](lhs[17:18], rhs[17:18], rhs[17:18], element="f16")
    assert same_bits(found, expected).all()
