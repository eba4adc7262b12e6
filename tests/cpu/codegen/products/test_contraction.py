"""Matrix products: every operand type and shape, against float64 with the bound of f32 sums."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cpu.codegen.support import Given, on_tiles, tile

from tilewright.numerics import matrix
from tilewright.numerics.arrays import dtype_of
from tilewright.numerics.rounding import to_float64

FLOATS = {
    "f16": ("f32", "f16"), "bf16": ("f32",), "tf32": ("f32",), "f32": ("f32",), "f64": ("f64",),
    "f8E4M3FN": ("f32", "f16"), "f8E5M2": ("f32", "f16"),
}  # fmt: skip
SHAPES = ((1, 1, 1), (2, 4, 8), (16, 16, 16), (8, 32, 64), (64, 8, 2), (32, 128, 32), (1, 64, 16))

_UNIT = {"f16": 2.0**-11, "f32": 2.0**-24, "f64": 2.0**-53}


def factors(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    values = rng.standard_normal(shape).astype(np.float32)
    if element == "tf32":
        values = (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return values.astype(dtype_of(element))


def product(element: str, acc: str, shape: tuple[int, int, int], attributes: str = "") -> str:
    m, n, k = shape
    c = tile(acc, (m, n))
    return (
        f"%r0 = nv_tileaa.dot %a0, %a1, %a2 {attributes} "
        f": {tile(element, (m, k))}, {tile(element, (k, n))}, {c} -> {c}"
    )


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("element, acc", [(e, a) for e, accs in FLOATS.items() for a in accs])
def test_float_products(element: str, acc: str, shape: tuple[int, int, int]):
    m, n, k = shape
    rng = np.random.default_rng(m * n + k)
    a, b = factors(rng, (m, k), element), factors(rng, (k, n), element)
    c = rng.standard_normal((m, n)).astype(dtype_of(acc))
    operands = [Given(element, a), Given(element, b), Given(acc, c)]
    (found,) = on_tiles(product(element, acc, shape), operands, [(acc, (m, n))])
    wide_a, wide_b = to_float64(a, element), to_float64(b, element)
    wide_c = c.astype(np.float64)
    exact = wide_a @ wide_b + wide_c
    # k products and sums, each off by half a unit of what has been added up, and the last rounding.
    magnitude = np.abs(wide_a) @ np.abs(wide_b) + np.abs(wide_c)
    unit = _UNIT["f64" if acc == "f64" else "f32"]
    bound = (2 * k + 2) * unit * magnitude + _UNIT[acc] * np.abs(exact) + 2.0**-120
    if acc == "f16":
        bound += 2.0**-25
    assert (np.abs(found.astype(np.float64) - exact) <= bound).all()


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (2, 4, 8), (16, 16, 32), (8, 64, 64), (64, 2, 4)], ids=str
)
@pytest.mark.parametrize("right", ["signed", "unsigned"])
@pytest.mark.parametrize("left", ["signed", "unsigned"])
@pytest.mark.parametrize("cpu", ["host", "generic"])
def test_integer_products_are_exact(left: str, right: str, shape: tuple[int, int, int], cpu: str):
    m, n, k = shape
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    a[0, 0], b[0, 0] = -128, -128
    c = rng.integers(-(2**31), 2**31, (m, n)).astype(np.int32)
    attributes = f"{{signedness_a = {left}, signedness_b = {right}}}"
    operands = [Given("i8", a), Given("i8", b), Given("i32", c)]
    (found,) = on_tiles(
        product("i8", "i32", shape, attributes), operands, [("i32", (m, n))], cpu=cpu
    )
    expected = matrix.mmai(a, b, c, "i8", signedness_lhs=left, signedness_rhs=right)
    assert (found == expected).all()


@pytest.mark.parametrize("cpu", ["generic", "x86-64-v3"])
def test_other_vector_lengths(cpu: str):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-8, 8, s).astype(np.float32) for s in ((32, 64), (64, 32)))
    c = np.zeros((32, 32), np.float32)
    operands = [Given("f32", a), Given("f32", b), Given("f32", c)]
    (found,) = on_tiles(product("f32", "f32", (32, 32, 64)), operands, [("f32", (32, 32))], cpu=cpu)
    assert (found == a @ b).all()


def test_batches():
    rng = np.random.default_rng(4)
    a, b, c = (
        rng.integers(-8, 8, s).astype(np.float32) for s in ((4, 8, 16), (4, 16, 32), (4, 8, 32))
    )
    body = (
        "%r0 = nv_tileaa.dot %a0, %a1, %a2 "
        ": tile<4x8x16xf32>, tile<4x16x32xf32>, tile<4x8x32xf32> -> tile<4x8x32xf32>"
    )
    operands = [Given("f32", a), Given("f32", b), Given("f32", c)]
    (found,) = on_tiles(body, operands, [("f32", (4, 8, 32))])
    assert (found == a @ b + c).all()


def test_a_product_of_a_product_and_a_transposed_operand():
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-3, 4, (32, 32)).astype(np.float32) for _ in "ab")
    body = """
      %z = arith.constant dense<0.0> : tile<32x32xf32>
      %t = nv_tileaa.permute %a1 {permutation = array<i64: 1, 0>} : tile<32x32xf32> -> tile<32x32xf32>
      %p = nv_tileaa.dot %a0, %t, %z : tile<32x32xf32>, tile<32x32xf32>, tile<32x32xf32> -> tile<32x32xf32>
      %r0 = nv_tileaa.dot %p, %p, %a0 : tile<32x32xf32>, tile<32x32xf32>, tile<32x32xf32> -> tile<32x32xf32>
    """
    (found,) = on_tiles(body, [Given("f32", a), Given("f32", b)], [("f32", (32, 32))])
    p = a @ b.T
    assert (found == p @ p + a).all()


@pytest.mark.parametrize(
    "element, acc", [("f16", "f32"), ("bf16", "f32"), ("i8", "i32"), ("f64", "f64")]
)
def test_a_right_operand_that_lies_by_columns(element: str, acc: str):
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-3, 4, s).astype(dtype_of(element)) for s in ((32, 64), (32, 64)))
    signs = "{signedness_a = signed, signedness_b = signed}" if element == "i8" else ""
    zero = "0" if acc == "i32" else "0.0"
    body = f"""
      %z = arith.constant dense<{zero}> : tile<32x32x{acc}>
      %t = nv_tileaa.permute %a1 {{permutation = array<i64: 1, 0>}} : tile<32x64x{element}> -> tile<64x32x{element}>
      %r0 = nv_tileaa.dot %a0, %t, %z {signs}
        : tile<32x64x{element}>, tile<64x32x{element}>, tile<32x32x{acc}> -> tile<32x32x{acc}>
    """
    (found,) = on_tiles(body, [Given(element, a), Given(element, b)], [(acc, (32, 32))])
    assert (found == a.astype(np.float64) @ b.astype(np.float64).T).all()
