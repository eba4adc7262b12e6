"""Primitives of the format: every value survives, every bad byte string is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.bytecode.encoding import (
    ByteWriter,
    Cursor,
    DecodeError,
    unzigzag,
    zigzag,
)
from tilewright.numerics.element_types import signed

U64 = st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)


def cursor(data: bytes) -> Cursor:
    return Cursor(data, 0, len(data))


def written(method: str, value: object) -> bytes:
    out = ByteWriter()
    getattr(out, method)(value)
    return bytes(out.buffer)


@given(U64)
def test_varints_survive_in_the_shortest_form(value: int) -> None:
    data = written("varint", value)
    at = cursor(data)
    assert at.varint() == value
    assert at.pos == len(data) == max(1, (value.bit_length() + 6) // 7)


@given(I64)
def test_svarints_survive(value: int) -> None:
    assert cursor(written("svarint", value)).svarint() == value
    assert unzigzag(zigzag(value)) == value


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (-(2**63), "ff" * 9 + "01")],
)
def test_zigzag_keeps_small_numbers_short(value: int, encoded: str) -> None:
    assert written("svarint", value).hex() == encoded


@given(U64, st.integers(0, 9))
def test_longer_forms_are_read(value: int, padding: int) -> None:
    data = written("varint", value)
    padding = min(padding, 10 - len(data))
    if padding:
        data = data[:-1] + bytes([data[-1] | 0x80]) + b"\x80" * (padding - 1) + b"\x00"
    assert cursor(data).varint() == value


@given(st.binary(max_size=12))
def test_any_bytes_give_a_varint_or_an_error(data: bytes) -> None:
    at = cursor(data)
    try:
        value = at.varint()
    except DecodeError as error:
        assert error.code in ("bytecode-truncated", "bytecode-varint")
        assert at.pos == 0
        return
    assert 0 <= value < 2**64
    assert at.pos <= 10


def test_bits_above_64_are_dropped_and_told() -> None:
    told: list[tuple[int, int]] = []
    data = b"\xff" * 9 + b"\x03"
    at = Cursor(data, 0, len(data), lambda start, end: told.append((start, end)))
    assert at.varint() == 2**64 - 1
    assert told == [(0, 10)]


@pytest.mark.parametrize(
    ("method", "low", "high"),
    [
        ("i8_array", -(2**7), 2**7 - 1),
        ("i32_array", -(2**31), 2**31 - 1),
        ("i64_array", -(2**63), 2**63 - 1),
    ],
)
def test_arrays_survive(method: str, low: int, high: int) -> None:
    values = (low, -1, 0, 1, high)
    assert getattr(cursor(written(method, values)), method)() == values


@pytest.mark.parametrize("method", ["i8_array", "i32_array", "i64_array"])
def test_a_count_that_cannot_fit_is_refused_before_allocating(method: str) -> None:
    data = written("varint", 2**63) + bytes(16)
    with pytest.raises(DecodeError) as caught:
        getattr(cursor(data), method)()
    assert caught.value.code == "bytecode-truncated"
    assert "count of 9223372036854775808" in caught.value.message


@pytest.mark.parametrize("read", ["byte", "varint", "u16", "i8_array", "i64_array"])
def test_nothing_left(read: str) -> None:
    with pytest.raises(DecodeError) as caught:
        getattr(cursor(b""), read)()
    assert caught.value.code == "bytecode-truncated"


def test_fixed_width_numbers_are_little_endian() -> None:
    out = ByteWriter()
    out.u16(0x0102)
    out.u32(0x03040506)
    out.u64(7)
    assert bytes(out.buffer).hex() == "0201" + "06050403" + "0700000000000000"
    at = cursor(bytes(out.buffer))
    assert (at.u16(), at.u32s(1), at.u64s(1)) == (0x0102, (0x03040506,), (7,))


@given(st.integers(0, 40), st.sampled_from([1, 2, 4, 8]))
def test_alignment(size: int, alignment: int) -> None:
    out = ByteWriter()
    out.raw(bytes(size))
    out.align(alignment)
    assert len(out) % alignment == 0
    assert len(out) - size < alignment
    assert set(out.buffer[size:]) <= {0xCB}
    at = Cursor(bytes(out.buffer), size, len(out))
    at.align(alignment, 0)
    assert at.remaining == 0


@given(st.integers(1, 64).flatmap(lambda w: st.tuples(st.just(w), st.integers(0, 2**w - 1))))
def test_signed_patterns(case: tuple[int, int]) -> None:
    width, bits = case
    value = signed(bits, width)
    assert -(1 << (width - 1)) <= value < 1 << (width - 1)
    assert value & ((1 << width) - 1) == bits


def test_bytes_are_read_one_after_the_other() -> None:
    at = cursor(b"\x01\x02\x83\x04\x05")
    assert [at.byte(), at.byte(), at.varint(), at.varint()] == [1, 2, 0x203, 5]
    assert (at.pos, at.remaining) == (5, 0)


def test_the_largest_varint_loses_no_bits() -> None:
    told: list[tuple[int, int]] = []
    data = b"\xff" * 9 + b"\x01"
    assert Cursor(data, 0, len(data), lambda *span: told.append(span)).varint() == 2**64 - 1
    assert not told


@pytest.mark.parametrize(
    ("length", "code", "message", "span"),
    [
        (0, "bytecode-truncated", "expected 1 more byte, got 0", (0, 0)),
        (1, "bytecode-truncated", "expected the rest of a varint, got the end of the data", (0, 1)),
        (9, "bytecode-truncated", "expected the rest of a varint, got the end of the data", (0, 9)),
        (10, "bytecode-varint", "expected a varint of at most 10 bytes, got a longer one", (0, 10)),
        (12, "bytecode-varint", "expected a varint of at most 10 bytes, got a longer one", (0, 10)),
    ],
)
def test_varints_without_an_end(
    length: int, code: str, message: str, span: tuple[int, int]
) -> None:
    with pytest.raises(DecodeError) as caught:
        cursor(b"\x80" * length).varint()
    found = caught.value
    assert (found.code, found.message, (found.start, found.end)) == (code, message, span)
