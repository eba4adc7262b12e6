"""Conversions between element types, bit for bit as ``numerics.convert`` does them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from tests.cpu.codegen.elementwise.test_elementwise import COUNT, samples
from tests.cpu.codegen.support import Given, on_tiles, same_bits, tile

from tilewright.numerics import convert
from tilewright.numerics.arrays import from_bits
from tilewright.numerics.element_types import BASE_FLOAT_TYPES, FLOAT_TYPES, FORMATS, INT_TYPES

WHOLE_BYTES = tuple(name for name in FLOAT_TYPES if name != "f4E2M1FN")


def patterns(element: str) -> np.ndarray:
    """Every value of a small format; of a larger one edges, neighbours of them, and random ones."""
    fmt = FORMATS[element]
    if fmt.bits <= 8:
        bits = np.arange(256, dtype=np.uint64) & np.uint64(fmt.mask)
        return from_bits(bits, element)
    rng = np.random.default_rng(11)
    bits = rng.integers(0, fmt.mask, 2048, dtype=np.uint64, endpoint=True)
    # Magnitudes over the range of the small formats, with ties and their neighbours.
    exponents = rng.integers(-30, 20, 1024)
    fractions = rng.integers(0, 64, 1024) / 32.0 + rng.choice([0, 2.0**-9, -(2.0**-9)], 1024)
    signs = rng.choice([-1.0, 1.0], 1024)
    near = np.ldexp(signs * fractions, exponents)
    values = from_bits(bits, element)
    values[1024:] = convert.ftof(near, "f64", to=element)
    values[:4] = from_bits(
        np.array([0, fmt.sign_bit, fmt.inf_bits, fmt.nan_bits], np.uint64), element
    )
    return values


def check(operation: str, element: str, source: np.ndarray, to: str, expected: np.ndarray) -> None:
    (found,) = on_tiles(operation, [Given(element, source)], [(to, source.shape)])
    good = same_bits(found, expected)
    at = int(np.argmin(good))
    assert good.all(), f"{operation}: {source[at]} gives {found[at]}, expected {expected[at]}"


@pytest.mark.parametrize(("element", "to"), list(permutations(WHOLE_BYTES, 2)))
def test_float_to_float(element: str, to: str):
    source = patterns(element)
    shape = source.shape
    operation = f"%r0 = nv_tileaa.fp_to_fp %a0 : {tile(element, shape)} -> {tile(to, shape)}"
    check(operation, element, source, to, convert.ftof(source, element, to=to))


@pytest.mark.parametrize("rounding", ["zero", "negative_inf", "positive_inf"])
@pytest.mark.parametrize("to", ["f32", "f16", "bf16", "tf32", "f8E4M3FN", "f8E5M2", "f8E8M0FNU"])
def test_directed_narrowing(to: str, rounding: str):
    source = patterns("f64")
    shape = source.shape
    operation = (
        f"%r0 = nv_tileaa.fp_to_fp %a0 {{rounding_mode = {rounding}}} "
        f": {tile('f64', shape)} -> {tile(to, shape)}"
    )
    check(operation, "f64", source, to, convert.ftof(source, "f64", to=to, rounding=rounding))


@pytest.mark.parametrize("to", INT_TYPES)
@pytest.mark.parametrize("sign", ["s", "u"])
@pytest.mark.parametrize("element", BASE_FLOAT_TYPES)
def test_float_to_integer(element: str, sign: str, to: str):
    source = samples(element, 1)
    signedness = {"s": "signed", "u": "unsigned"}[sign]
    expected = convert.ftoi(source, element, to=to, signedness=signedness)
    operation = f"%r0 = arith.fpto{sign}i %a0 : {tile(element, (COUNT,))} to {tile(to, (COUNT,))}"
    check(operation, element, source, to, expected)


@pytest.mark.parametrize("to", [name for name in WHOLE_BYTES if name != "f8E8M0FNU"])
@pytest.mark.parametrize("sign", ["s", "u"])
@pytest.mark.parametrize("element", INT_TYPES)
def test_integer_to_float(element: str, sign: str, to: str):
    source = samples(element, 1)
    signedness = {"s": "signed", "u": "unsigned"}[sign]
    expected = convert.itof(source, element, to=to, signedness=signedness)
    operation = f"%r0 = arith.{sign}itofp %a0 : {tile(element, (COUNT,))} to {tile(to, (COUNT,))}"
    check(operation, element, source, to, expected)


@pytest.mark.parametrize("sign", ["s", "u"])
@pytest.mark.parametrize(
    "element, to", [(a, b) for i, a in enumerate(INT_TYPES) for b in INT_TYPES[i + 1 :]]
)
def test_integer_widening_and_narrowing(element: str, to: str, sign: str):
    source = samples(element, 1)
    signedness = {"s": "signed", "u": "unsigned"}[sign]
    wide = convert.exti(source, element, to=to, signedness=signedness)
    narrow, broad = tile(element, (COUNT,)), tile(to, (COUNT,))
    check(f"%r0 = arith.ext{sign}i %a0 : {narrow} to {broad}", element, source, to, wide)
    back = samples(to, 2)
    check(
        f"%r0 = arith.trunci %a0 : {broad} to {narrow}", to, back, element,
        convert.trunci(back, to, to=element),
    )  # fmt: skip


@pytest.mark.parametrize(
    "element, to", [("f16", "i16"), ("i16", "bf16"), ("f32", "i32"), ("i64", "f64")]
)
def test_bits_of_the_same_width(element: str, to: str):
    source = samples(element, 1)
    expected = convert.bitcast(source, element, to=to)
    operation = f"%r0 = arith.bitcast %a0 : {tile(element, (COUNT,))} to {tile(to, (COUNT,))}"
    (found,) = on_tiles(operation, [Given(element, source)], [(to, (COUNT,))])
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "element, to", [("i32", "i8"), ("i8", "i32"), ("f16", "i8"), ("i8", "f64")]
)
def test_bytes_of_a_tile_under_another_width(element: str, to: str):
    source = samples(element, 1)
    count = COUNT * FORMATS[element].bits // FORMATS[to].bits
    operation = f"%r0 = nv_tileaa.bitcast %a0 : {tile(element, (COUNT,))} -> {tile(to, (count,))}"
    (found,) = on_tiles(operation, [Given(element, source)], [(to, (count,))])
    assert found.tobytes() == source.tobytes()


def test_single_bits_as_bytes_and_back():
    source = samples("i1", 1)
    body = f"""
      %b = nv_tileaa.bitcast %a0 : {tile("i1", (COUNT,))} -> {tile("i8", (COUNT // 8,))}
      %r1 = nv_tileaa.bitcast %b : {tile("i8", (COUNT // 8,))} -> {tile("i1", (COUNT,))}
      %one = arith.constant dense<0> : {tile("i8", (COUNT // 8,))}
      %r0 = arith.ori %b, %one : {tile("i8", (COUNT // 8,))}
    """
    packed, back = on_tiles(body, [Given("i1", source)], [("i8", (COUNT // 8,)), ("i1", (COUNT,))])
    assert (packed == convert.pack(source, "i1")).all()
    assert (back == source).all()


def test_four_bit_elements_in_memory():
    rng = np.random.default_rng(2)
    packed = rng.integers(0, 256, (8, 16)).astype(np.uint8)
    body = """
      %w = nv_tileaa.fp_to_fp %a0 : tile<8x32xf4E2M1FN> -> tile<8x32xf32>
      %two = arith.constant dense<2.0> : tile<8x32xf32>
      %d = nv_tileaa.mulf %w, %two : tile<8x32xf32>
      %r0 = nv_tileaa.fp_to_fp %d : tile<8x32xf32> -> tile<8x32xf4E2M1FN>
    """
    (found,) = on_tiles(body, [Given("f4E2M1FN", packed)], [("f4E2M1FN", (8, 32))])
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(8, 32)
    wide = convert.ftof(from_bits(codes, "f4E2M1FN"), "f4E2M1FN", to="f32") * 2
    expected = convert.ftof(wide, "f32", to="f4E2M1FN").view(np.uint8) & 15
    assert (found.view(np.uint8) == (expected[:, ::2] | expected[:, 1::2] << 4)).all()


@pytest.mark.parametrize(
    "element, to", [("f16", "f32"), ("f32", "f16"), ("f8E4M3FN", "f32"), ("f8E5M2", "f64")]
)
def test_half_precision_without_instructions_for_it(element: str, to: str):
    source = patterns(element)
    shape = source.shape
    operation = f"%r0 = nv_tileaa.fp_to_fp %a0 : {tile(element, shape)} -> {tile(to, shape)}"
    (found,) = on_tiles(operation, [Given(element, source)], [(to, shape)], cpu="generic")
    assert same_bits(found, convert.ftof(source, element, to=to)).all()
