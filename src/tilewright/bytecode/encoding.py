"""Low-level encoding: a bounds-checked cursor and a writer, with the primitives of the format.

Integers wider than a byte are little-endian. A *varint* is unsigned LEB128 of at most 64 bits; an
*svarint* is its zigzag form, which keeps small negative numbers short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct, error, unpack_from

from tilewright.bytecode.format import MALFORMED_VARINT, TRUNCATED

MAX_VARINT_BYTES = 10
_U64 = (1 << 64) - 1
_PADDING = b"\xcb"
_U32_STRUCT, _U64_STRUCT = Struct("<I"), Struct("<Q")


class DecodeError(Exception):
    """Malformed bytes. The reader adds which part of the file they are in."""

    def __init__(self, code: str, message: str, start: int, end: int):
        super().__init__(message)
        self.code = code
        self.message = message
        self.start = start
        self.end = end


#: Called with the start and end of a varint whose excess bits were dropped.
OnDropped = Callable[[int, int], None]


def _ignore(start: int, end: int) -> None:
    return None


@dataclass(slots=True)
class Cursor:
    """Reads forward through ``data[pos:end]``; offsets are those of the whole file.

    Every method raises DecodeError, and reads nothing, if there are not enough bytes. Counts are checked
    against the remaining bytes before anything is allocated.
    """

    data: bytes
    pos: int
    end: int
    on_dropped: OnDropped = _ignore

    @property
    def remaining(self) -> int:
        """The number of remaining bytes."""
        return self.end - self.pos

    def sub(self, start: int, end: int) -> Cursor:
        """Return a cursor over a part of the file, which must be inside it."""
        assert 0 <= start <= end <= len(self.data)
        return Cursor(self.data, start, end, self.on_dropped)

    def truncated(self, wanted: int) -> DecodeError:
        """Return the error for ``wanted`` bytes that do not exist."""
        return DecodeError(
            TRUNCATED,
            f"expected {wanted} more byte{'s' if wanted != 1 else ''}, got {self.remaining}",
            self.pos,
            self.end,
        )

    def byte(self) -> int:
        """Read a byte."""
        pos = self.pos
        if pos >= self.end:
            raise self.truncated(1)
        self.pos = pos + 1
        return self.data[pos]

    def varint(self) -> int:
        """Read an unsigned number of seven bits a byte, lowest first (LEB128). Bits beyond 64 are dropped and
        reported.

        Raises ``DecodeError`` also for one of more than ``MAX_VARINT_BYTES``.
        """
        pos = self.pos
        if pos < self.end:
            byte = self.data[pos]
            if byte < 0x80:
                self.pos = pos + 1
                return byte
        return self._long_varint()

    def _long_varint(self) -> int:
        start, data = self.pos, self.data
        value = shift = 0
        for at in range(start, min(self.end, start + MAX_VARINT_BYTES)):
            byte = data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.pos = at + 1
                if value > _U64:
                    self.on_dropped(start, at + 1)
                return value & _U64
            shift += 7
        if self.remaining >= MAX_VARINT_BYTES:
            raise DecodeError(
                MALFORMED_VARINT,
                f"expected a varint of at most {MAX_VARINT_BYTES} bytes, got a longer one",
                start,
                start + MAX_VARINT_BYTES,
            )
        if not self.remaining:
            raise self.truncated(1)
        raise DecodeError(
            TRUNCATED, "expected the rest of a varint, got the end of the data", start, self.end
        )

    def svarint(self) -> int:
        """Read a signed number: a varint in zigzag form."""
        return unzigzag(self.varint())

    def count(self, what: str, least_bytes: int = 1) -> int:
        """Read a varint that counts following items of at least ``least_bytes`` bytes each."""
        start = self.pos
        found = self.varint()
        if found * least_bytes > self.end - self.pos:
            raise DecodeError(
                TRUNCATED,
                f"expected at most {self.remaining // least_bytes} {what} in the "
                f"{self.remaining} bytes that are left, got a count of {found}",
                start,
                self.pos,
            )
        return found

    def take(self, size: int) -> bytes:
        """Read ``size`` bytes."""
        if size > self.end - self.pos:
            raise self.truncated(size)
        start = self.pos
        self.pos = start + size
        return self.data[start : self.pos]

    def _fixed(self, count: int, letter: str, size: int) -> tuple[int, ...]:
        if count * size > self.end - self.pos:
            raise self.truncated(count * size)
        found = unpack_from(f"<{count}{letter}", self.data, self.pos)
        self.pos += count * size
        return found

    def u16(self) -> int:
        """Read two bytes as an unsigned number, little-endian."""
        return self._fixed(1, "H", 2)[0]

    def u32s(self, count: int) -> tuple[int, ...]:
        """Read ``count`` unsigned numbers of four bytes each, little-endian."""
        return self._fixed(count, "I", 4)

    def u64s(self, count: int) -> tuple[int, ...]:
        """Read ``count`` unsigned numbers of eight bytes each, little-endian."""
        return self._fixed(count, "Q", 8)

    def i8_array(self) -> tuple[int, ...]:
        """Read a count and that many signed bytes."""
        return self._fixed(self.count("elements"), "b", 1)

    def i32_array(self) -> tuple[int, ...]:
        """Read a count and that many signed numbers of four bytes."""
        return self._fixed(self.count("elements", 4), "i", 4)

    def i64_array(self) -> tuple[int, ...]:
        """Read a count and that many signed numbers of eight bytes."""
        return self._fixed(self.count("elements", 8), "q", 8)

    def align(self, alignment: int, base: int) -> None:
        """Skip padding up to the next multiple of ``alignment`` from ``base``. Padding may have any value."""
        pad = (base - self.pos) % alignment
        if pad > self.end - self.pos:
            raise self.truncated(pad)
        self.pos += pad


def zigzag(value: int) -> int:
    """Return the unsigned form of a signed 64-bit value: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return ((value << 1) ^ (value >> 63)) & _U64


def unzigzag(value: int) -> int:
    """Return the signed value of an unsigned form, the inverse of :func:`zigzag`."""
    return (value >> 1) ^ -(value & 1)


class ByteWriter:
    """Appends primitives to a growing buffer."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()

    def __len__(self) -> int:
        return len(self.buffer)

    def byte(self, value: int) -> None:
        """Append a byte, 0 to 255. Raises ValueError for another number."""
        self.buffer.append(value)

    def varint(self, value: int) -> None:
        """Append ``value``, in 0 .. 2**64 - 1, in the shortest form."""
        if value < 0x80:
            self.buffer.append(value)
            return
        assert value <= _U64, f"{value} does not fit in 64 bits"
        append = self.buffer.append
        while value >= 0x80:
            append(value & 0x7F | 0x80)
            value >>= 7
        append(value)

    def svarint(self, value: int) -> None:
        """Append a signed 64-bit value."""
        self.varint(zigzag(value))

    def raw(self, data: bytes | bytearray) -> None:
        """Append bytes as they are."""
        self.buffer += data

    def u16(self, value: int) -> None:
        """Append two bytes, little-endian."""
        self.buffer += value.to_bytes(2, "little")

    def u32(self, value: int) -> None:
        """Append four bytes, little-endian."""
        self.buffer += _U32_STRUCT.pack(value)

    def u64(self, value: int) -> None:
        """Append eight bytes, little-endian."""
        self.buffer += _U64_STRUCT.pack(value)

    def i8_array(self, values: tuple[int, ...]) -> None:
        """Append a count and each value as a signed byte. Raises ``RangeError`` for one that does not fit."""
        self._array(values, "b")

    def i32_array(self, values: tuple[int, ...]) -> None:
        """Append a count and each value in four signed bytes. Raises ``RangeError`` for one that does not fit."""
        self._array(values, "i")

    def i64_array(self, values: tuple[int, ...]) -> None:
        """Append a count and each value in eight signed bytes. Raises ``RangeError`` for one that does not fit."""
        self._array(values, "q")

    def _array(self, values: tuple[int, ...], letter: str) -> None:
        self.varint(len(values))
        self.buffer += Struct(f"<{len(values)}{letter}").pack(*values)

    def align(self, alignment: int) -> None:
        """Pad up to the next multiple of ``alignment`` bytes from the start of the buffer."""
        self.buffer += _PADDING * (-len(self.buffer) % alignment)


#: Raised by the array methods of ByteWriter for an element that does not fit.
RangeError = error
