"""The pools of a file: strings, types and constants by index, decoded on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BytesAttr, FunctionType, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute

from tilewright.bytecode.encoding import ByteWriter, Cursor, DecodeError
from tilewright.bytecode.format import BAD_CONSTANT, BAD_INDEX, BAD_STRING, TRUNCATED
from tilewright.dialects.cuda_tile.constants import TileConstantAttr, element_bytes
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.cuda_tile.types import TileType
from tilewright.dialects.versions import Version
from tilewright.numerics.element_types import CONSTANT_TYPES, FORMATS

if TYPE_CHECKING:
    from tilewright.bytecode.types import TypeTable

Span = tuple[int, int]


def read_spans(cursor: Cursor, what: str, offset_size: int, base: int | None = None) -> list[Span]:
    """Return the byte ranges of a table's entries: a count, offsets of 4 or 8 bytes, then the data.

    Each entry extends to the next one, the last to the end of the cursor. The offsets are aligned
    relative to ``base``, by default the start of the table; ranges are positions in the file. Raises
    ``DecodeError`` for offsets that descend or leave the data.
    """
    base = cursor.pos if base is None else base
    count = cursor.count(what, offset_size)
    if not count:
        return []
    cursor.align(offset_size, base)
    table = cursor.pos
    offsets = cursor.u32s(count) if offset_size == 4 else cursor.u64s(count)
    data, size = cursor.pos, cursor.remaining
    previous = 0
    for index, offset in enumerate(offsets):
        if not previous <= offset <= size:
            at = table + index * offset_size
            raise DecodeError(
                TRUNCATED,
                f"expected the offset of {what} {index} to be in {previous} .. {size}, got "
                f"{offset}",
                at,
                at + offset_size,
            )
        previous = offset
    starts = [data + offset for offset in offsets]
    return list(zip(starts, [*starts[1:], cursor.end], strict=True))


def read_index(cursor: Cursor, limit: int, what: str) -> int:
    """Read an index below ``limit``. Raises ``DecodeError`` for another."""
    start = cursor.pos
    index = cursor.varint()
    if index >= limit:
        raise bad_index(what, index, limit, start, cursor.pos)
    return index


def bad_index(what: str, index: int, limit: int, start: int, end: int) -> DecodeError:
    """Return the error for an index into a table of ``limit`` entries (``bytecode-bad-index``).

    ``start`` and ``end`` are its byte offsets.
    """
    have = f"there are {limit}" if limit != 1 else "there is 1"
    return DecodeError(
        BAD_INDEX, f"{what} {index} does not exist: {have}, counted from 0", start, end
    )


def shown_type(ty: Attribute) -> str:
    """Format a type for a message. Function types are only described: they can be much larger than the file."""
    if isinstance(ty, FunctionType):
        return f"a function type with {len(ty.inputs.data)} inputs"
    return f"'{format_type(ty)}'"


class StringTable:
    """The strings of a file. Bytes that are not UTF-8 are preserved as lone surrogates."""

    def __init__(self, cursor: Cursor):
        self._data = cursor.data
        self._spans = read_spans(cursor, "strings", 4)
        self._attributes: dict[int, StringAttr] = {}
        self._symbols: dict[int, StringAttr] = {}
        self._references: dict[str, SymbolRefAttr] = {}

    def attribute(self, cursor: Cursor) -> StringAttr:
        """Read an index; returns that string. Bytes that are not UTF-8 become surrogates, and are written as they
        were.

        Raises ``DecodeError`` for an index that the table does not have.
        """
        index = read_index(cursor, len(self._spans), "string")
        found = self._attributes.get(index)
        if found is None:
            start, end = self._spans[index]
            text = self._data[start:end].decode("utf-8", "surrogateescape")
            found = self._attributes[index] = StringAttr(text)
        return found

    def text(self, cursor: Cursor) -> str:
        """Read an index; returns that string, with bytes that are not UTF-8 as lone surrogates.

        Raises ``DecodeError`` for an index that the table does not have.
        """
        return self.attribute(cursor).data

    def symbol(self, cursor: Cursor) -> StringAttr:
        """Read an index; returns that symbol name, which must be nonempty UTF-8.

        Raises ``DecodeError`` if it is not, and for an index that the table does not have.
        """
        index = read_index(cursor, len(self._spans), "string")
        found = self._symbols.get(index)
        if found is None:
            start, end = self._spans[index]
            name = self._data[start:end]
            if not name:
                raise DecodeError(BAD_STRING, "expected a symbol name, got ''", start, end)
            try:
                found = self._symbols[index] = StringAttr(name.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise DecodeError(
                    BAD_STRING, f"expected a symbol name in UTF-8, got {name[:64]!r}", start, end
                ) from error
        return found

    def reference(self, cursor: Cursor) -> SymbolRefAttr:
        """Read an index; returns a reference to that symbol. Raises ``DecodeError`` as ``symbol`` does."""
        name = self.symbol(cursor).data
        found = self._references.get(name)
        if found is None:
            found = self._references[name] = SymbolRefAttr(name)
        return found


class ConstantTable:
    """The untyped blobs of a file, interpreted by their uses."""

    def __init__(self, cursor: Cursor | None):
        self._cursor = cursor
        self._spans = [] if cursor is None else read_spans(cursor, "constants", 8)
        self._blobs: dict[int, bytes] = {}
        self._elements: dict[tuple[int, str, int], BytesAttr] = {}
        # By identity: the type table keeps every type alive, and hashing types is slow.
        self._constants: dict[tuple[int, int], TileConstantAttr] = {}

    def constant(self, cursor: Cursor, ty: Attribute) -> TileConstantAttr:
        """Read an index; returns that constant of a type, the same object for the same index and type.

        Raises ``DecodeError`` if ``ty`` is no tile of numbers, or if the data is not of its size.
        """
        start = cursor.pos
        index = read_index(cursor, len(self._spans), "constant")
        found = self._constants.get((index, id(ty)))
        if found is None:
            if not isinstance(ty, TileType) or ty.element not in CONSTANT_TYPES:
                raise DecodeError(
                    BAD_CONSTANT,
                    f"expected a tile of numbers for a constant, got {shown_type(ty)}",
                    start,
                    cursor.pos,
                )
            data = self._data(index, ty)
            found = self._constants[index, id(ty)] = TileConstantAttr.new([ty, data])
        return found

    def _data(self, index: int, ty: TileType) -> BytesAttr:
        """Return the elements' bytes, checked against the type; shared by all uses of a blob."""
        count = ty.element_count
        key = (index, ty.element, count)
        found = self._elements.get(key)
        if found is None:
            raw = self._blob(index)
            decode = _decode_bits if ty.element == "i1" else _decode_elements
            data = decode(raw, ty)
            if data is None:
                start, end = self._spans[index]
                raise DecodeError(
                    BAD_CONSTANT,
                    f"{len(raw)} bytes are no constant of type '{format_type(ty)}': expected "
                    f"{_expected_sizes(ty)}",
                    start,
                    end,
                )
            found = self._elements[key] = TileConstantAttr(ty, data).data
        return found

    def _blob(self, index: int) -> bytes:
        found = self._blobs.get(index)
        if found is None:
            assert self._cursor is not None
            entry = self._cursor.sub(*self._spans[index])
            found = self._blobs[index] = entry.take(entry.varint())
        return found


def _decode_elements(raw: bytes, ty: TileType) -> bytes | None:
    fmt = FORMATS[ty.element]
    size = element_bytes(fmt)
    if len(raw) not in (size, size * ty.element_count):
        return None
    if fmt.bits % 8 and max(raw[size - 1 :: size]) >> (fmt.bits % 8):
        return None
    return raw


_BITS_OF_DIGITS = bytes.maketrans(b"01", b"\x00\x01")
_DIGITS_OF_BITS = bytes.maketrans(b"\x00\x01", b"01")


def _decode_bits(raw: bytes, ty: TileType) -> bytes | None:
    """Return one byte for each element. A lone byte too small for a packed tile fills the tile."""
    count = ty.element_count
    if raw in (b"\x00", b"\xff") or (len(raw) == 1 and count > 8):
        return bytes([raw[0] & 1])
    if len(raw) != (count + 7) // 8:
        return None
    # Through binary digits, in linear time; importing NumPy would double the startup time.
    digits = f"{int.from_bytes(raw, 'little'):0{8 * len(raw)}b}"[::-1]
    return digits[:count].encode().translate(_BITS_OF_DIGITS)


def _expected_sizes(ty: TileType) -> str:
    fmt, count = FORMATS[ty.element], ty.element_count
    if fmt.bits == 1:
        return f"1 or {(count + 7) // 8} bytes, a bit for each element"
    size = element_bytes(fmt)
    spare = f", no bit set above the {fmt.bits} of the type" if fmt.bits % 8 else ""
    return f"{size} or {size * count} bytes{spare}"


class Tables:
    """The tables that every part of a file refers to."""

    __slots__ = ("constants", "strings", "types", "version", "warn")

    def __init__(
        self,
        version: Version,
        strings: StringTable,
        types: TypeTable,
        constants: ConstantTable,
        warn: Callable[[str, str, int, int], None],
    ):
        self.version = version
        self.strings = strings
        self.types = types
        self.constants = constants
        #: Called with code, message, start and end.
        self.warn = warn


class Pool:
    """Distinct byte strings in the order of their first use."""

    def __init__(self) -> None:
        self._indices: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._indices)

    def index(self, data: bytes) -> int:
        """Return the index of an entry, adding it if it is new."""
        return self._indices.setdefault(data, len(self._indices))

    def write(self, out: ByteWriter, offset_size: int) -> None:
        """Append the count, the padded offsets and the entries."""
        out.varint(len(self._indices))
        out.align(offset_size)
        offset = 0
        for data in self._indices:
            (out.u32 if offset_size == 4 else out.u64)(offset)
            offset += len(data)
        for data in self._indices:
            out.raw(data)


def constant_entry(constant: TileConstantAttr) -> bytes:
    """Return a constant as stored in the pool: its size in bytes, a varint, then its elements; of i1 eight a byte."""
    data = constant.data.data
    if constant.type.element == "i1":
        data = _encode_bits(data)
    out = ByteWriter()
    out.varint(len(data))
    out.raw(data)
    return bytes(out.buffer)


def _encode_bits(data: bytes) -> bytes:
    if len(data) == 1:
        return b"\xff" if data[0] else b"\x00"
    digits = data[::-1].translate(_DIGITS_OF_BITS)
    return int(digits, 2).to_bytes((len(data) + 7) // 8, "little")
