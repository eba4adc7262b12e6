"""The layout of printed tiles."""

from __future__ import annotations

import ctypes
import math
import random
import struct
import sys

import ml_dtypes
import numpy as np
import pytest

import tilewright
from tilewright.launching.printing import format_tiles, parse_format


@pytest.mark.parametrize(
    ("text", "tile", "element", "expected"),
    [
        ("%d", np.array(-3, np.int8), "i8", "-3"),
        ("%u %%", np.array(-3, np.int8), "i8", "253 %"),
        ("%lld|", np.array(2**40, np.int64), "i64", "1099511627776|"),
        ("%#x", np.array(-1, np.int16), "i16", "0xffff"),
        ("%o", np.array(-1, np.int8), "i4", "17"),
        ("%5i", np.array(True), "i1", "    1"),
        ("[%-6.2f]", np.array(1.256), "f64", "[1.26  ]"),
        ("%g", np.array(np.nan, np.float16), "f16", "nan"),
        ("%e", np.array(1.5, ml_dtypes.bfloat16), "bf16", "1.500000e+00"),
        ("%f", np.array(7, np.int32), "i32", "7.000000"),
        ("%d", np.array(-2.9, np.float32), "f32", "-2"),
        ("%d", np.array(np.inf, np.float32), "f32", str(2**63 - 1)),
        ("%d", np.array(-1e30), "f64", str(-(2**63))),
        ("%d", np.array(np.nan), "f64", "0"),
        ("%u", np.array(-2.5), "f64", str(2**64 - 2)),
        ("%s", np.array(0.5), "f64", "0.5"),
        ("%S", np.array(-3), "i32", "-3"),
        ("%a", np.array(0.5, np.float32), "f32", "0x1p-1"),
        ("%c", np.array(65, np.int8), "i8", "A"),
        ("%p", np.array(4096, np.uint64), "ptr", "0x1000"),
        ("%n", np.array(1, np.int8), "i8", ""),
        ("%99999999d", np.array(1, np.int8), "i8", " " * 9998 + "1"),
        ("v=%d", np.array([[1, 2], [3, 4]]), "i64", "v=[[1, 2], [3, 4]]"),
        ("%d", np.zeros((1, 1, 2), np.int8), "i8", "[[[0, 0]]]"),
        ("%.1f", np.array([0.5, 6], ml_dtypes.float4_e2m1fn), "f4E2M1FN", "[0.5, 6.0]"),
    ],
)
def test_conversions(text: str, tile: np.ndarray, element: str, expected: str):
    assert format_tiles(parse_format(text), [tile], [element]) == expected


def test_several_operands_and_literals():
    pieces = parse_format("a%db%dc%%\n")
    tiles = [np.array(1, np.int32), np.array([2, 3], np.int32)]
    assert format_tiles(pieces, tiles, ["i32", "i32"]) == "a1b[2, 3]c%\n"


def _random_conversion(r: random.Random) -> tuple[str, int | float, object]:
    """A conversion for C, its number, and that number as C takes it."""
    flags = "".join(r.sample("-+ #0", r.randint(0, 3)))
    options = (
        flags + r.choice(["", "5", "12", "25"]) + r.choice(["", ".", ".0", f".{r.randint(1, 20)}"])
    )
    if r.random() < 0.5:
        letter = r.choice("diouxX")
        number = r.choice([0, 1, -1, 255, 2**63 - 1, -(2**63), r.randint(-(10**6), 10**6)])
        if letter in "ouxX":
            number %= 1 << 64
            return f"%{options}ll{letter}", number, ctypes.c_ulonglong(number)
        return f"%{options}ll{letter}", number, ctypes.c_longlong(number)
    any_bits: float = struct.unpack("d", r.randbytes(8))[0]
    number = r.choice(
        [0.0, -0.0, 1.0, -1.5, 2.5, 0.1, 5e-324, 1e300, math.inf, -math.inf, any_bits]
    )
    number = 0.5 if math.isnan(number) else number
    return f"%{options}{r.choice('eEfFgGaA')}", number, ctypes.c_double(number)


@pytest.mark.skipif(sys.platform != "linux", reason="compares with the C library of Linux")
@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_printed_as_in_c(seed: int):
    r = random.Random(seed)
    printf = ctypes.CDLL(None).snprintf
    for _ in range(2000):
        text, number, as_c = _random_conversion(r)
        found = ctypes.create_string_buffer(1000)
        printf(found, len(found), text.encode(), as_c)
        assert parse_format(text)[0](number) == found.value.decode(), (text, number)  # pyright: ignore[reportCallIssue]


NUMBERS = {
    **dict.fromkeys(("i4", "i8", "i16", "i32", "i64"), "[0, 7, -8, -1]"),
    "i1": "[true, false, true, true]",
    **dict.fromkeys(
        ("f16", "bf16", "tf32", "f32", "f64", "f8E4M3FN", "f8E5M2"), "[0.0, -0.0, 1.5, -6.0]"
    ),
    "f8E8M0FNU": "[1.0, 2.0, 4.0, 0.5]",
    "f4E2M1FN": "[0.0, 0.5, 1.5, -6.0]",
}


def _constant(name: str, ty: str, elements: str) -> str:
    """A constant, which i4 has none of."""
    element = ty.removeprefix("tile<").removesuffix(">").rpartition("x")[2]
    if element != "i4":
        return f"{name} = constant <{element}: {elements}> : {ty}"
    wide = ty.replace("i4", "i8")
    return f"{name}w = constant <i8: {elements}> : {wide}  {name} = trunci {name}w : {wide} -> {ty}"


@pytest.mark.parametrize("machine", ["cpu", "sim:sm_120a"])
@pytest.mark.parametrize("element", NUMBERS)
def test_every_machine_prints_the_same(element: str, machine: str):
    """Scalars too, which threads print without shared memory."""
    formats = [f"%{options}{letter}" for letter in "diouxXeEfFgGaAcsp" for options in ("", "-8")]
    # Tiles of f4 have an even number of elements.
    tile, scalar = f"tile<4x{element}>", "tile<i1>" if element == "f4E2M1FN" else f"tile<{element}>"
    first = NUMBERS[element].strip("[]").split(",")[2]
    prints = "\n".join(
        f'%t{at} = print_tko "{text}|{text}\\n", %c, %s : {tile}, {scalar} -> token'
        for at, text in enumerate(formats)
    )
    module = tilewright.parse(
        f"""entry @k() {{
          {_constant("%c", tile, NUMBERS[element])}
          {_constant("%s", scalar, "true" if scalar == "tile<i1>" else first)}
          {prints}
          return
        }}"""
    )
    expected = tilewright.run(module, "k", 1, []).text
    found = tilewright.run(module, "k", 1, [], machine=machine).text
    for text, a, b in zip(formats, expected.splitlines(), found.splitlines(), strict=True):
        assert a == b, text
