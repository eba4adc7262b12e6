"""Bytecode files taken apart and put together by hand, broken ones too."""

from __future__ import annotations

from collections.abc import Iterable

MAGIC = bytes.fromhex("7f54696c65495200")
STRING, FUNCTION, DEBUG, CONSTANT, TYPE, GLOBAL, PRODUCER = range(1, 8)
ALIGNMENT = {STRING: 4, FUNCTION: 8, DEBUG: 8, CONSTANT: 8, TYPE: 4}

#: Kernel ``k(%0: tile<i32>) { addi %0, %0 overflow<no_signed_wrap>; return }`` at 13.1.
EXAMPLE = bytes.fromhex(
    "7f54696c654952000d010000821008cb0100020200080301010000 5c0000cbcb".replace(" ", "")
    + "851804cb03cbcbcb0000000001000000"
    + "04000000030d00001001010081 0904cb".replace(" ", "")
    + "01cbcbcb000000006b00"
)


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def parse_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def pad(data: bytes, alignment: int) -> bytes:
    return data + b"\xcb" * (-len(data) % alignment)


def table(entries: Iterable[bytes], width: int = 4) -> bytes:
    """A table of entries behind their offsets."""
    items = list(entries)
    out = pad(varint(len(items)), width)
    offset = 0
    for item in items:
        out += offset.to_bytes(width, "little")
        offset += len(item)
    return out + b"".join(items)


def strings(*texts: bytes) -> bytes:
    return table(texts)


def section(number: int, payload: bytes, at: int, alignment: int | None = None) -> bytes:
    """A section as it stands at a file offset; alignment 0 for none, None for the usual one."""
    alignment = ALIGNMENT.get(number, 0) if alignment is None else alignment
    if not alignment:
        return bytes([number]) + varint(len(payload)) + payload
    head = bytes([number | 0x80]) + varint(len(payload)) + varint(alignment)
    return head + b"\xcb" * (-(at + len(head)) % alignment) + payload


def join(
    sections: Iterable[tuple[int, bytes]], version: tuple[int, int] = (13, 1), tag: int = 0
) -> bytes:
    out = MAGIC + bytes(version) + tag.to_bytes(2, "little")
    for number, payload in sections:
        out += section(number, payload, len(out))
    return out + b"\x00"


def split(data: bytes) -> list[tuple[int, bytes]]:
    """The sections of a well-formed file, in order."""
    found: list[tuple[int, bytes]] = []
    at = 12
    while data[at]:
        number, aligned = data[at] & 0x7F, data[at] & 0x80
        length, at = parse_varint(data, at + 1)
        if aligned:
            alignment, at = parse_varint(data, at)
            at += -at % alignment
        found.append((number, data[at : at + length]))
        at += length
    return found


#: The types of ``kernel``: i32, its scalar tile, a function of it, f32, i1, token, its array.
I32, TILE_I32, SIGNATURE, F32, I1, TOKEN, ROW = range(7)
TYPES = (
    b"\x03",
    b"\x0d\x00\x00",
    b"\x10\x01\x01\x00",
    b"\x07",
    b"\x00",
    b"\x11",
    b"\x0d\x00\x01" + (4).to_bytes(8, "little"),
)
RETURN = b"\x5c\x00\x00"


def kernel(
    body: bytes,
    version: tuple[int, int] = (13, 1),
    *,
    types: Iterable[bytes] = TYPES,
    texts: Iterable[bytes] = (b"k",),
    constants: Iterable[bytes] = (),
    header: bytes = b"\x02\x00",
    signature: int = SIGNATURE,
    count: int = 1,
    extra: Iterable[tuple[int, bytes]] = (),
) -> bytes:
    """A file with the kernel ``k(%0: tile<i32>)``; ``header`` holds flags to argument attributes."""
    if version >= (13, 5) and header == b"\x02\x00":
        header += b"\x0b\x00\x06\x00"
    function = b"\x00" + varint(signature) + header + varint(len(body)) + body
    blobs = [varint(len(blob)) + blob for blob in constants]
    return join(
        [
            (FUNCTION, varint(count) + function),
            *([(CONSTANT, table(blobs, 8))] if blobs else []),
            (TYPE, table(types)),
            *extra,
            (STRING, strings(*texts)),
        ],
        version,
    )
