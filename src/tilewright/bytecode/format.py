"""The constants of the bytecode format, and the diagnostic codes for malformed files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from tilewright.diagnostics import define_code
from tilewright.dialects.versions import (
    V13_1,
    V13_2,
    V13_3,
    V13_4,
    V13_5,
    Version,
)

MAGIC = b"\x7fTileIR\x00"
#: Magic, version and tag.
HEADER_SIZE = 12
#: The name given to modules read from bytecode, which does not store one.
MODULE_NAME = "kernels"

NOT_BYTECODE = define_code(
    "bytecode-magic",
    "The file is not Tile IR bytecode: it does not start with the magic bytes 7F 'TileIR' 00.",
)
UNKNOWN_VERSION = define_code(
    "bytecode-version",
    "The bytecode version of the file is not supported.",
    "Versions 13.1 to 13.5 can be read. Files name their version in bytes 8 and 9.",
)
PREVIEW = define_code(
    "bytecode-preview",
    "The file uses preview content, which is not supported.",
    "NVIDIA's tools read device functions, calls and further preview types only with a preview "
    "feature switched on, and change them between releases.",
)
TRUNCATED = define_code(
    "bytecode-truncated",
    "The file is truncated.",
    "The file was cut off, or a count or length exceeds the data that follows.",
)
MALFORMED_VARINT = define_code(
    "bytecode-varint", "A variable-length integer is longer than ten bytes."
)
DROPPED_BITS = define_code(
    "bytecode-dropped-bits",
    "A variable-length integer has more than 64 bits; the upper ones were dropped.",
    "Some versions of cuTile write negative float64 identities of reduce and scan this way. "
    "NVIDIA's tools read them without the sign, so a float64 maximum starts from +inf; so does "
    "Tilewright.",
)
BAD_SECTION = define_code(
    "bytecode-section",
    "The file is not a sequence of known sections, each at most once, with an end marker.",
)
BAD_INDEX = define_code(
    "bytecode-bad-index",
    "A string, type, constant, value or debug entry does not exist.",
)
BAD_STRING = define_code("bytecode-bad-string", "A name is empty or is not valid UTF-8.")
BAD_TYPE = define_code("bytecode-bad-type", "An entry of the type section is not a valid type.")
BAD_CONSTANT = define_code(
    "bytecode-bad-constant", "The data of a constant does not match its type."
)
BAD_FUNCTION = define_code(
    "bytecode-bad-function",
    "A kernel or global has an invalid type, flags or attributes.",
)
UNKNOWN_OPCODE = define_code(
    "bytecode-unknown-opcode", "No operation of the file's version has this opcode."
)
BAD_COUNT = define_code(
    "bytecode-bad-count",
    "An operation has the wrong number of results, operands or regions.",
)
BAD_FLAGS = define_code("bytecode-bad-flags", "A bit is set that has no meaning here.")
BAD_ENUM = define_code(
    "bytecode-bad-enum", "A number is not a value of its enumeration in the file's version."
)
BAD_ATTRIBUTE = define_code(
    "bytecode-bad-attribute", "An attribute is malformed or of a kind that is not allowed here."
)
BAD_BLOCK = define_code(
    "bytecode-bad-block",
    "A block is empty or does not end with a terminator, or a region has too many blocks.",
)
BAD_DEBUG = define_code(
    "bytecode-bad-debug-info", "An entry of the debug section is malformed or of the wrong kind."
)
TOO_DEEP = define_code(
    "bytecode-too-deep",
    "Regions, attributes or types are nested deeper than is supported, or a debug entry has more "
    "parts.",
    "The limits are far above what compilers produce; they keep hostile files from exhausting the "
    "stack.",
)
DROPPED_DEBUG = define_code(
    "bytecode-dropped-debug-info",
    "Part of a debug entry is dropped.",
    "A subprogram that is marked as a declaration is read like any other.",
)

NEEDS_VERSION = define_code(
    "needs-version",
    "The module uses something that the requested bytecode version does not have.",
    "Write a newer version, or avoid what the message names. Fields that have their default value "
    "do not need the newer version.",
)
LOSSY_ATTRIBUTE = define_code(
    "bytecode-lossy-attribute",
    "An attribute that is not part of its operation cannot be stored in bytecode.",
    "Remove it first: bytecode stores only the declared fields of an operation.",
)
NOT_STORABLE = define_code(
    "bytecode-not-storable",
    "Bytecode has no form for this operation, type, attribute or location.",
)
INVALID_IR = define_code(
    "bytecode-invalid-ir",
    "The module is too malformed to be written.",
    "Writing does not verify; run the verifier to get all errors.",
)


class SectionId(IntEnum):
    END = 0
    STRING = 1
    FUNCTION = 2
    DEBUG = 3
    CONSTANT = 4
    TYPE = 5
    GLOBAL = 6
    PRODUCER = 7


@dataclass(frozen=True, slots=True)
class SectionRule:
    """The required ``alignment`` of the payload; the file may state a multiple of it. 0 for none."""

    name: str
    alignment: int = 0
    required: bool = False


SECTIONS: dict[SectionId, SectionRule] = {
    SectionId.STRING: SectionRule("string", 4, required=True),
    SectionId.FUNCTION: SectionRule("function", 8, required=True),
    SectionId.DEBUG: SectionRule("debug", 8),
    SectionId.CONSTANT: SectionRule("constant", 8),
    SectionId.TYPE: SectionRule("type", 4),
    SectionId.GLOBAL: SectionRule("global"),
    SectionId.PRODUCER: SectionRule("producer"),
}
#: The bit in a section's first byte that says an alignment follows.
ALIGNED = 0x80


class TypeTag(IntEnum):
    """Tags of types other than numbers; those of numbers are in ``numerics``."""

    PTR = 12
    TILE = 13
    TENSOR_VIEW = 14
    PARTITION_VIEW = 15
    FUNCTION = 16
    TOKEN = 17
    GATHER_SCATTER_VIEW = 20
    STRIDED_VIEW = 21


TYPE_SINCE: dict[TypeTag, Version] = {
    tag: V13_3 if tag in (TypeTag.GATHER_SCATTER_VIEW, TypeTag.STRIDED_VIEW) else V13_1
    for tag in TypeTag
}
#: From this version on, pointers and tensor views start with a field of flags.
POINTER_FLAGS_SINCE: Version = V13_4
#: From this version on, a partition view starts with a field of flags; before, it ends with a byte
#: instead.
VIEW_FLAGS_SINCE: Version = V13_3


class AttributeTag(IntEnum):
    INTEGER = 1
    FLOAT = 2
    BOOL = 3
    TYPE = 4
    STRING = 5
    ARRAY = 6
    DENSE_ELEMENTS = 7
    DIV_BY = 8
    SAME_ELEMENTS = 9
    DICTIONARY = 10
    OPTIMIZATION_HINTS = 11
    BOUNDED = 12


class DebugTag(IntEnum):
    UNKNOWN = 0
    COMPILE_UNIT = 1
    FILE = 2
    LEXICAL_BLOCK = 3
    LOCATION = 4
    SUBPROGRAM = 5
    CALL_SITE = 6


#: From this version on, a subprogram ends with flags.
SUBPROGRAM_FLAGS_SINCE: Version = V13_5
DECLARATION = 1

PRIVATE_KERNEL = 1
KERNEL = 2
#: Up to 13.4: hints follow the header of the kernel.
KERNEL_HINTS = 4
#: From this version on, hints and argument attributes always follow the header.
ARGUMENT_ATTRIBUTES_SINCE: Version = V13_5
#: From this version on, a global has visibility and constancy.
GLOBAL_FIELDS_SINCE: Version = V13_3
PRODUCER_SINCE: Version = V13_3

#: The largest opcode of each version; readers reject larger ones.
MAX_OPCODE: dict[Version, int] = {
    V13_1: 0x6D,
    V13_2: 0x6E,
    V13_3: 0x75,
    V13_4: 0x7A,
    V13_5: 0x7D,
}
FIRST_PREVIEW_OPCODE = 0x4000

#: Equal to the nesting limit of text.
MAX_REGION_DEPTH = 200
MAX_ATTRIBUTE_DEPTH = 32
MAX_TYPE_DEPTH = 8
#: The maximum number of parts of a debug entry; shared entries count at each use.
MAX_DEBUG_PARTS = 1_000_000


def is_bytecode(data: bytes) -> bool:
    """Whether data starts like a bytecode file, with its magic number; the version may be an unknown one."""
    return data[: len(MAGIC)] == MAGIC
