"""The layout of printed tiles."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

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
        ("%d", np.array(np.inf, np.float32), "f32", str(2**63 - 1024)),
        ("%a", np.array(0.5, np.float32), "f32", "0x1.0000000000000p-1"),
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
