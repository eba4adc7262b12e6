"""Constants as NVIDIA's disassembler prints them, and the modes that its verifier takes."""

import random
import re
import struct

import pytest
from tests.oracles import OracleRejected, disassemble, requires_tileirdisasm

from tilewright.analysis.verifier import find_problems
from tilewright.bytecode import read
from tilewright.diagnostics import TileIRError
from tilewright.numerics import FLOAT_TYPES, FORMATS, float_to_bits, format_float
from tilewright.numerics.legality import ftof_rounding_modes

pytestmark = [pytest.mark.oracle, requires_tileirdisasm]

MODES = (
    "nearest_even",
    "zero",
    "negative_inf",
    "positive_inf",
    "approx",
    "full",
    "nearest_int_to_zero",
    "nearest_away",
)
VERSIONS = [(13, minor) for minor in range(1, 6)]


def varint(number: int) -> bytes:
    low = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([digit | 0x80 for digit in low[:-1]] + [low[-1]])


def padded(data: bytes, alignment: int) -> bytes:
    return data + b"\xcb" * (-len(data) % alignment)


def table(entries: list[bytes], offset_format: str) -> bytes:
    width = struct.calcsize(offset_format)
    offsets = [sum(map(len, entries[:index])) for index in range(len(entries))]
    packed = b"".join(struct.pack(offset_format, offset) for offset in offsets)
    return padded(varint(len(entries)), width) + packed + b"".join(entries)


def module(
    source: str, target: str, body: bytes, constants: list[bytes], version: tuple[int, int]
) -> bytes:
    """A kernel of ``body``. Types 2 and 3 are pairs of source and target elements."""
    pair = varint(1) + struct.pack("<q", 2)
    types = [
        varint(FORMATS[source].tag),
        varint(FORMATS[target].tag),
        b"\x0d\x00" + pair,
        b"\x0d\x01" + pair,
        b"\x10\x00\x00",
    ]
    hints = b"\x0b\x00\x06\x00" if version >= (13, 5) else b""
    body += b"\x5c\x00\x00"
    function = b"\x01\x00\x04\x02\x00" + hints + varint(len(body)) + body
    data = b"\x7fTileIR\x00" + bytes(version) + b"\x00\x00"
    sections = (
        (2, 8, function),
        (4, 8, table([varint(len(blob)) + blob for blob in constants], "<Q")),
        (5, 4, table(types, "<I")),
        (1, 4, table([b"k"], "<I")),
    )
    for number, alignment, payload in sections:
        header = bytes([number | 0x80]) + varint(len(payload)) + varint(alignment)
        data = padded(data + header, alignment) + payload
    return data + b"\x00"


def constant_op(index: int) -> bytes:
    return b"\x10\x02" + varint(index)


def accepted(source: str, target: str, op: bytes, version: tuple[int, int]) -> bool:
    """Whether the verifier takes ``op``, whose operands are all value 0, of the source type."""
    zero = bytes(max(FORMATS[source].constant_bytes or 0, 1))
    try:
        disassemble(module(source, target, constant_op(0) + op, [zero], version))
    except OracleRejected:
        return False
    return True


def accepted_here(source: str, target: str, op: bytes, version: tuple[int, int]) -> bool:
    """Whether our reader and verifier take ``op``."""
    zero = bytes(max(FORMATS[source].constant_bytes or 0, 1))
    try:
        found = read(module(source, target, constant_op(0) + op, [zero], version))
    except TileIRError:
        return False
    return not any(problem.is_error for problem in find_problems(found))


def sample_patterns(name: str) -> list[int]:
    fmt = FORMATS[name]
    if fmt.bits <= 8:
        return list(range(1 << fmt.bits))
    generator = random.Random(11)
    patterns = [generator.getrandbits(fmt.bits) for _ in range(2500)]
    for _ in range(2500):
        number = generator.choice(
            [
                generator.randrange(10 ** generator.randrange(1, 20)),
                generator.randrange(10**6) / 10 ** generator.randrange(12),
                generator.randrange(1, 2000) * 10.0 ** generator.randrange(-44, 38),
            ]
        )
        patterns.append(float_to_bits(generator.choice((-1, 1)) * number, fmt))
    return patterns


@pytest.mark.parametrize("name", FLOAT_TYPES)
def test_constants_are_printed_alike(name):
    fmt = FORMATS[name]
    patterns = sample_patterns(name)
    blobs = [bits.to_bytes(fmt.constant_bytes, "little") for bits in patterns]
    body = b"".join(map(constant_op, range(len(blobs))))
    text = disassemble(module(name, name, body, blobs, (13, 4)))
    printed = re.findall(r"constant <\w+: (\S+)> :", text)
    assert printed == [format_float(bits, fmt) for bits in patterns]


@pytest.mark.parametrize("source", FLOAT_TYPES)
def test_modes_of_ftof(source):
    for target in FLOAT_TYPES:
        expected = ftof_rounding_modes(source, target)
        for number, mode in enumerate(MODES):
            op = b"\x2a\x03" + bytes([number, 0])
            since = expected.get(mode)
            if since is None:
                assert not accepted(source, target, op, (13, 5)), (target, mode)
                continue
            assert accepted(source, target, op, since), (target, mode)
            if since > (13, 1):
                assert not accepted(source, target, op, (13, since[1] - 1)), (target, mode)


@pytest.mark.parametrize(
    ("name", "opcode", "has_flags", "operands", "first"),
    [
        ("addf", 0x02, True, 2, (13, 1)),
        ("mulf", 0x4C, True, 2, (13, 1)),
        ("divf", 0x14, True, 2, (13, 1)),
        ("fma", 0x28, True, 3, (13, 1)),
        ("sqrt", 0x64, True, 1, (13, 1)),
        ("exp", 0x17, False, 1, (13, 3)),
        ("tanh", 0x6A, False, 1, (13, 2)),
    ],
)
def test_modes_of_arithmetic(name, opcode, has_flags, operands, first):
    for element in FLOAT_TYPES:
        for number, mode in enumerate(MODES):
            op = bytes([opcode, 3, *([0] if has_flags else []), number]) + bytes(operands)
            version = max(first, FORMATS[element].since)
            expected = accepted_here(element, element, op, version)
            assert accepted(element, element, op, version) == expected, (element, mode)


def test_modes_of_itof():
    for target in FLOAT_TYPES:
        for number, mode in enumerate(MODES):
            op = b"\x3b\x03\x01" + bytes([number, 0])
            for version in VERSIONS:
                expected = accepted_here("i32", target, op, version)
                assert accepted("i32", target, op, version) == expected, (target, mode, version)


def test_pairs_of_bitcast():
    names = ("i1", "i8", "i16", "i32", "i64", *FLOAT_TYPES)
    for source in names:
        for target in names:
            op = b"\x09\x03\x00"
            expected = accepted_here(source, target, op, (13, 4))
            assert accepted(source, target, op, (13, 4)) == expected, (source, target)
