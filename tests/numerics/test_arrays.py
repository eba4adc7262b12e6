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
    is_uniform,
    to_bytes,
    to_constant_bytes,
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


@pytest.mark.parametrize("name", CONSTANT_TYPES)
@pytest.mark.parametrize("shape", [(), (1,), (8,), (2, 16)])
def test_constant_round_trip(name, shape):
    count = int(np.prod(shape))
    array = from_bits(random_bits(name, count), name).reshape(shape)
    data = to_constant_bytes(array, name)
    back = from_constant_bytes(data, name, shape)
    assert back.shape == shape
    assert (bits_of(back, name) == bits_of(array, name)).all()


@pytest.mark.parametrize("name", CONSTANT_TYPES)
def test_uniform_constants_take_one_element(name):
    array = np.full((4, 8), from_bits(np.array([1]), name)[0])
    data = to_constant_bytes(array, name)
    assert len(data) == max(FORMATS[name].constant_bytes, 1)
    back = from_constant_bytes(data, name, (4, 8))
    assert back.shape == (4, 8)
    assert is_uniform(back, name)
    assert bits_of(back, name)[0, 0] == 1


def test_zeros_of_both_signs_are_not_uniform():
    assert not is_uniform(np.array([0.0, -0.0]), "f64")


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


def test_constant_bytes_of_odd_types():
    one = np.array([1.0, 2.0], np.float32)
    assert to_constant_bytes(one, "tf32") == b"\x00\xfc\x01\x00\x00\x02"
    pair = np.array([0.5, 1.5]).astype(dtype_of("f4E2M1FN"))
    assert to_constant_bytes(pair, "f4E2M1FN") == b"\x01\x03"


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
