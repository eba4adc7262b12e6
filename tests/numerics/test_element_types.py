"""The rows of the element type table against the published facts."""

import subprocess
import sys
from fractions import Fraction

import pytest
from tests.numerics.reference import LARGEST, LAYOUTS

from tilewright.numerics import FORMAT_OF_TAG, FORMATS, decode
from tilewright.numerics.element_types import CONSTANT_TYPES

# name: significant bits, storage bits, tag, since, bytes in the constant pool
TABLE = {
    "i1": (1, 8, 0, (13, 1), 0),
    "i4": (4, 4, 22, (13, 3), None),
    "i8": (8, 8, 1, (13, 1), 1),
    "i16": (16, 16, 2, (13, 1), 2),
    "i32": (32, 32, 3, (13, 1), 4),
    "i64": (64, 64, 4, (13, 1), 8),
    "f16": (16, 16, 5, (13, 1), 2),
    "bf16": (16, 16, 6, (13, 1), 2),
    "f32": (32, 32, 7, (13, 1), 4),
    "tf32": (19, 32, 8, (13, 1), 3),
    "f64": (64, 64, 9, (13, 1), 8),
    "f8E4M3FN": (8, 8, 10, (13, 1), 1),
    "f8E5M2": (8, 8, 11, (13, 1), 1),
    "f8E8M0FNU": (8, 8, 18, (13, 2), 1),
    "f4E2M1FN": (4, 4, 19, (13, 3), 1),
    "f8E5M3FNU": (8, 8, 130, (13, 4), 1),
}


def test_every_row_and_no_other():
    rows = {
        name: (fmt.bits, fmt.storage_bits, fmt.tag, fmt.since, fmt.constant_bytes)
        for name, fmt in FORMATS.items()
    }
    assert rows == TABLE
    assert {tag: fmt.name for tag, fmt in FORMAT_OF_TAG.items()} == {
        row[2]: name for name, row in TABLE.items()
    }
    assert set(TABLE) - set(CONSTANT_TYPES) == {"i4"}


@pytest.mark.parametrize("name", TABLE)
def test_kinds_and_patterns(name):
    fmt = FORMATS[name]
    assert (fmt.is_int, fmt.is_float) == (name[0] == "i", name[0] != "i")
    assert bin(fmt.mask) == "0b" + "1" * fmt.bits


def test_significant_bits():
    published = {
        "f16": 11,
        "bf16": 8,
        "f32": 24,
        "tf32": 11,
        "f64": 53,
        "f8E4M3FN": 4,
        "f8E8M0FNU": 1,
    }
    assert {name: FORMATS[name].precision for name in published} == published


@pytest.mark.parametrize("name", LAYOUTS)
def test_float_fields(name):
    fmt, layout = FORMATS[name], LAYOUTS[name]
    assert (fmt.exponent_bits, fmt.mantissa_bits, fmt.bias) == layout[1:4]
    assert fmt.signed == bool(layout.sign)
    assert fmt.has_inf == (layout.top == "ieee")
    assert decode(fmt.max_finite_bits, fmt) == LARGEST[name]


@pytest.mark.parametrize(
    ("name", "smallest_normal"),
    [
        ("f16", Fraction(1, 2**14)),
        ("f8E4M3FN", Fraction(1, 2**6)),
        ("f8E5M3FNU", Fraction(1, 2**14)),
        ("f8E8M0FNU", Fraction(1, 2**127)),
        ("f4E2M1FN", Fraction(1)),
    ],
)
def test_smallest_normal(name, smallest_normal):
    assert Fraction(2) ** FORMATS[name].min_exponent == smallest_normal


def test_storage():
    assert FORMATS["tf32"].storage_bytes == 4
    assert FORMATS["i4"].bytes_for(5) == 3
    assert FORMATS["i1"].bytes_for(5) == 5
    with pytest.raises(ValueError, match="4 bits"):
        _ = FORMATS["f4E2M1FN"].storage_bytes


def test_missing_specials_are_errors():
    with pytest.raises(ValueError, match="no NaN"):
        _ = FORMATS["f4E2M1FN"].nan_bits
    with pytest.raises(ValueError, match="no infinity"):
        _ = FORMATS["f8E4M3FN"].inf_bits


def test_the_scalar_half_loads_no_numpy():
    script = (
        "import sys, tilewright.numerics, tilewright.numerics.legality;"
        "sys.exit(bool({'numpy', 'ml_dtypes', 'xdsl'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
