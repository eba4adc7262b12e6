"""Tiles as arrays: memory images, constant data, bit patterns."""

import numpy as np
import pytest
from tests.numerics.reference import LAYOUTS, same, value_of

from tilewright.diagnostics import TileIRError
from tilewright.numerics import CONSTANT_TYPES, FORMATS
from tilewright.numerics.arrays import (
    bits_of,
    dtype_of,
    from_bits,
    from_bytes,
    from_constant_bytes,
    to_bytes,
)
from tilewright.numerics.rounding import to_float64

RNG = np.random.default_rng(5)


def random_bits(name: str, count: int) -> np.ndarray:
    return RNG.integers(0, FORMATS[name].mask, count, np.uint64, endpoint=True)


@pytest.mark.parametrize("name", FORMATS)
def test_bits_round_trip(name):
    bits = random_bits(name, 200)
    array = from_bits(bits, name)
    assert array.dtype == dtype_of(name)
    assert (bits_of(array, name) == bits).all()


@pytest.mark.parametrize("name", LAYOUTS)
def test_values_of_the_held_floats(name):
    bits = random_bits(name, 300)
    values = [float(value_of(int(pattern), name)) for pattern in bits]
    assert same(to_float64(from_bits(bits, name), name), values).all()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_memory_round_trip(name, count):
    array = from_bits(random_bits(name, count), name)
    image = to_bytes(array, name)
    assert len(image) == FORMATS[name].bytes_for(count)
    assert (bits_of(from_bytes(image, name, count), name) == bits_of(array, name)).all()


def test_documented_memory_images():
    pair = np.array([0.5, 1.5]).astype(dtype_of("f4E2M1FN"))
    assert to_bytes(pair, "f4E2M1FN") == b"\x31"
    assert to_bytes(np.array([1, -1, 7], np.int8), "i4") == b"\xf1\x07"
    assert from_bytes(b"\x00\x01\x80", "i1", 3).tolist() == [False, True, True]
    assert to_bytes(np.array([True, False]), "i1") == b"\x01\x00"
    assert from_bytes(b"\xff\xff\x80\x3f", "tf32", 1)[0] == np.float32(1.0) + np.float32(2**-10 * 7)
    assert to_bytes(np.array([[1, 2]], np.int16), "i16") == b"\x01\x00\x02\x00"
    assert from_bytes(b"\x01" + bytes(7), "ptr", 1).tolist() == [1]


def test_memory_of_another_size_is_refused():
    with pytest.raises(ValueError, match="take 8 bytes, not 7"):
        from_bytes(bytes(7), "f32", 2)


def test_memory_is_copied():
    source = np.zeros(8, np.uint8)
    array = from_bytes(source, "f32", 2)
    array[0] = 1.0
    assert not source.any()


def encoded(bits: np.ndarray, name: str) -> bytes:
    """The data of a constant in bytecode: one element after the other, of i1 a bit each."""
    if name == "i1":
        return np.packbits(bits.astype(np.bool_), bitorder="little").tobytes()
    size = FORMATS[name].constant_bytes
    return b"".join(int(pattern).to_bytes(size, "little") for pattern in bits)


@pytest.mark.parametrize("name", CONSTANT_TYPES)
@pytest.mark.parametrize("shape", [(), (1,), (8,), (2, 16)])
def test_constants_of_all_elements(name, shape):
    bits = random_bits(name, int(np.prod(shape)))
    found = from_constant_bytes(encoded(bits, name), name, shape)
    assert found.shape == shape
    assert (bits_of(found, name).reshape(-1) == bits).all()


@pytest.mark.parametrize("name", CONSTANT_TYPES)
def test_one_element_fills_a_constant(name):
    data = b"\xff" if name == "i1" else encoded(np.array([1]), name)
    found = from_constant_bytes(data, name, (4, 8))
    assert found.shape == (4, 8)
    assert (bits_of(found, name) == 1).all()


@pytest.mark.parametrize(
    ("data", "count", "expected"),
    [
        (b"\x01", 4, [True, False, False, False]),
        (b"\x0a", 4, [False, True, False, True]),
        (b"\x01", 1, [True]),
        (b"\xff", 1, [True]),
        (b"\xff", 16, [True] * 16),
        (b"\x00", 16, [False] * 16),
        (b"\xff", 8, [True] * 8),
        (b"\x01\x80", 16, [True] + [False] * 14 + [True]),
    ],
)
def test_i1_constants(data, count, expected):
    assert from_constant_bytes(data, "i1", (count,)).tolist() == expected


def test_constants_of_odd_types():
    found = from_constant_bytes(b"\x00\xfc\x01\x00\x00\x02", "tf32", (2,))
    assert to_float64(found, "tf32").tolist() == [1.0, 2.0]
    found = from_constant_bytes(b"\x01\x03", "f4E2M1FN", (2,))
    assert to_float64(found, "f4E2M1FN").tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("name", "data", "shape"),
    [
        ("f32", bytes(5), (2,)),
        ("f32", b"", (2,)),
        ("tf32", bytes(4), ()),
        ("i1", b"\x01", (16,)),
        ("i1", b"\x01\x02\x03", (16,)),
        ("i8", bytes(3), (4,)),
    ],
)
def test_constant_data_of_another_size(name, data, shape):
    with pytest.raises(TileIRError) as caught:
        from_constant_bytes(data, name, shape)
    assert caught.value.diagnostics[0].code == "constant-data-size"


def test_i4_has_no_constants():
    with pytest.raises(ValueError, match="no constants"):
        from_constant_bytes(b"\x00", "i4", ())
