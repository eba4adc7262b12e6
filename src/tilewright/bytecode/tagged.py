"""Tagged attributes: elements of arrays, values of dictionaries, assume predicates."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.utils.exceptions import VerifyException

from tilewright.bytecode.encoding import ByteWriter, Cursor, DecodeError
from tilewright.bytecode.format import (
    BAD_ATTRIBUTE,
    BAD_FLAGS,
    MAX_ATTRIBUTE_DEPTH,
    NOT_STORABLE,
    TOO_DEEP,
    AttributeTag,
)
from tilewright.bytecode.output import Output
from tilewright.bytecode.tables import Tables, shown_type
from tilewright.dialects.cuda_tile.attributes import (
    BoundedAttr,
    DivByAttr,
    OptimizationHintsAttr,
    SameElementsAttr,
    number_of,
)
from tilewright.dialects.cuda_tile.constants import FloatBitsAttr, scalar_bits
from tilewright.dialects.cuda_tile.types import ELEMENT_TYPES, element_name
from tilewright.numerics.element_types import FORMATS, ElementFormat, signed
from tilewright.numerics.floats import bits_to_float, float_to_bits

#: Values that sized integer arrays in attributes cannot hold; the format reserves them.
I32_EXTREMES = (-(2**31), 2**31 - 1)
I64_EXTREMES = (-(2**63), 2**63 - 1)


def check_extremes(
    values: tuple[int, ...], extremes: tuple[int, int], start: int, end: int
) -> None:
    """Raise ``DecodeError`` over bytes ``start .. end`` for array elements that the format does not allow in
    attributes: those in ``extremes``.
    """
    for extreme in extremes:
        if extreme in values:
            raise DecodeError(
                BAD_ATTRIBUTE, f"the array element {extreme} is not allowed", start, end
            )


@lru_cache(maxsize=4096)
def integer(value: int, width: int) -> IntegerAttr:
    """Return an integer attribute, shared by equal uses; true is stored as in xDSL."""
    return IntegerAttr(value, IntegerType(width))


def read_int_pattern(cursor: Cursor, width: int) -> int:
    """Read a varint with a two's complement pattern of ``width`` bits, as a signed value.

    Raises ``DecodeError`` if higher bits are set.
    """
    start = cursor.pos
    bits = cursor.varint()
    if bits >> width:
        raise DecodeError(
            BAD_ATTRIBUTE, f"expected an integer of {width} bits, got {bits}", start, cursor.pos
        )
    return signed(bits, width)


def read_tagged(
    cursor: Cursor, tables: Tables, depth: int = 0, *, in_dictionary: bool = False
) -> Attribute:
    """Read a tag and the attribute that follows it; ``depth`` is the number of attributes around it.

    Raises ``DecodeError`` for a tag that no attribute has here, for an attribute that does not verify, and for one
    nested deeper than ``MAX_ATTRIBUTE_DEPTH``.
    """
    start = cursor.pos
    if depth == MAX_ATTRIBUTE_DEPTH:
        raise DecodeError(
            TOO_DEEP,
            f"attributes are nested deeper than {MAX_ATTRIBUTE_DEPTH} levels",
            start,
            cursor.end,
        )
    tag = cursor.varint()
    try:
        if tag == AttributeTag.FLOAT:
            return _float(cursor, tables, in_dictionary)
        read = _TAGGED_READERS.get(tag)
        if read is None:
            raise DecodeError(
                BAD_ATTRIBUTE, f"no attribute has the tag {tag} here", start, cursor.pos
            )
        return read(cursor, tables, depth)
    except VerifyException as error:
        raise DecodeError(BAD_ATTRIBUTE, str(error), start, cursor.pos) from error


def _integer(cursor: Cursor, tables: Tables, depth: int) -> Attribute:
    start = cursor.pos
    ty = tables.types.type(cursor)
    if not isinstance(ty, IntegerType):
        raise DecodeError(
            BAD_ATTRIBUTE, f"expected an integer type, got {shown_type(ty)}", start, cursor.pos
        )
    width = cast(IntegerType, ty).width.data
    value = int(cursor.byte() != 0) if width == 1 else read_int_pattern(cursor, width)
    return integer(value, width)


def _float(cursor: Cursor, tables: Tables, in_dictionary: bool) -> Attribute:
    start = cursor.pos
    ty = tables.types.type(cursor)
    fmt = FORMATS.get(element_name(ty))
    if fmt is None or not fmt.is_float:
        raise DecodeError(
            BAD_ATTRIBUTE, f"expected a float type, got {shown_type(ty)}", start, cursor.pos
        )
    at = cursor.pos
    bits = cursor.byte() if fmt.bits <= 8 else cursor.svarint()
    if fmt.bits == 64:
        bits &= fmt.mask
    if not 0 <= bits <= fmt.mask:
        raise DecodeError(
            BAD_ATTRIBUTE,
            f"expected a bit pattern of {fmt.bits} bits for {fmt.name}, got {bits}",
            at,
            cursor.pos,
        )
    return _float_attribute(ty, fmt, bits, in_dictionary)


def _float_attribute(
    ty: Attribute, fmt: ElementFormat, bits: int, in_dictionary: bool
) -> Attribute:
    """Return MLIR's float attribute for hints, as in text, if it can hold the bits; else our own."""
    if in_dictionary and isinstance(ty, AnyFloat):
        value = bits_to_float(bits, fmt)
        if float_to_bits(value, fmt) == bits:
            return FloatAttr(value, ty)
    return FloatBitsAttr(ty, bits)


def _bool(cursor: Cursor, tables: Tables, depth: int) -> Attribute:
    return integer(int(cursor.byte() != 0), 1)


def _type(cursor: Cursor, tables: Tables, depth: int) -> Attribute:
    return tables.types.type(cursor)


def _string(cursor: Cursor, tables: Tables, depth: int) -> Attribute:
    return tables.strings.attribute(cursor)


def read_array(cursor: Cursor, tables: Tables, depth: int = 0) -> Attribute:
    """Read a count and that many tagged attributes. Raises ``DecodeError`` as ``read_tagged`` does."""
    count = cursor.count("array elements")
    return ArrayAttr([read_tagged(cursor, tables, depth + 1) for _ in range(count)])


def _dictionary(cursor: Cursor, tables: Tables, depth: int) -> DictionaryAttr:
    entries: dict[str, Attribute] = {}
    for _ in range(cursor.count("dictionary entries", 2)):
        start = cursor.pos
        key = tables.strings.text(cursor)
        if not key or key in entries:
            why = "appears twice" if key else "is empty"
            raise DecodeError(BAD_ATTRIBUTE, f"the dictionary key {key!r} {why}", start, cursor.pos)
        entries[key] = read_tagged(cursor, tables, depth + 1, in_dictionary=True)
    return DictionaryAttr(dict(sorted(entries.items())))


def read_hints(cursor: Cursor, tables: Tables, depth: int = 0) -> Attribute:
    """Read a dictionary of optimization hints. Raises DecodeError (``bytecode-bad-attribute``) if ill-formed."""
    start = cursor.pos
    entries = _dictionary(cursor, tables, depth)
    try:
        return OptimizationHintsAttr(entries)
    except VerifyException as error:
        raise DecodeError(BAD_ATTRIBUTE, str(error), start, cursor.pos) from error


def _flag_byte(cursor: Cursor, known: int) -> int:
    start = cursor.pos
    flags = cursor.byte()
    if flags & ~known:
        raise DecodeError(
            BAD_FLAGS, f"expected flags in 0 .. {known}, got {flags}", start, cursor.pos
        )
    return flags


def _div_by(cursor: Cursor, tables: Tables, depth: int) -> Attribute:
    divisor = cursor.varint()
    flags = _flag_byte(cursor, 3)
    every = cursor.svarint() if flags & 1 else None
    along = cursor.svarint() if flags & 2 else None
    return DivByAttr(divisor, every, along)


def _same_elements(cursor: Cursor, tables: Tables, depth: int) -> Attribute:
    start = cursor.pos
    values = cursor.i64_array()
    check_extremes(values, I64_EXTREMES, start, cursor.pos)
    return SameElementsAttr(values)


def _bounded(cursor: Cursor, tables: Tables, depth: int) -> Attribute:
    flags = _flag_byte(cursor, 3)
    lower = cursor.svarint() if flags & 1 else None
    upper = cursor.svarint() if flags & 2 else None
    return BoundedAttr(lower, upper)


_TAGGED_READERS: dict[int, Callable[[Cursor, Tables, int], Attribute]] = {
    AttributeTag.INTEGER: _integer,
    AttributeTag.BOOL: _bool,
    AttributeTag.TYPE: _type,
    AttributeTag.STRING: _string,
    AttributeTag.ARRAY: read_array,
    AttributeTag.DIV_BY: _div_by,
    AttributeTag.SAME_ELEMENTS: _same_elements,
    AttributeTag.DICTIONARY: _dictionary,
    AttributeTag.OPTIMIZATION_HINTS: read_hints,
    AttributeTag.BOUNDED: _bounded,
}


def write_tagged(out: Output, buffer: ByteWriter, attribute: Attribute, depth: int = 0) -> None:
    """Append a tag and the attribute. Reports what bytecode cannot hold."""
    if depth == MAX_ATTRIBUTE_DEPTH:
        out.problem(NOT_STORABLE, f"attributes are nested deeper than {depth} levels")
        return
    for cls, write in _TAGGED_WRITERS:
        if isinstance(attribute, cls):
            write(out, buffer, attribute, depth)
            return
    out.problem(NOT_STORABLE, f"bytecode has no form for the attribute {attribute}")


def _write_integer(out: Output, buffer: ByteWriter, attribute: IntegerAttr, depth: int) -> None:
    ty, value = attribute.type, attribute.value.data
    if not isinstance(ty, IntegerType) or ty not in ELEMENT_TYPES.values():
        out.problem(NOT_STORABLE, f"bytecode has no form for the integer {attribute}")
    elif ty.width.data == 1:
        buffer.byte(AttributeTag.BOOL)
        buffer.byte(int(value != 0))
    else:
        buffer.byte(AttributeTag.INTEGER)
        buffer.varint(out.types.index(ty))
        buffer.varint(value & ((1 << ty.width.data) - 1))


def _write_float(
    out: Output, buffer: ByteWriter, attribute: FloatAttr | FloatBitsAttr, depth: int
) -> None:
    found = scalar_bits(attribute)
    if found is None:
        out.problem(NOT_STORABLE, f"bytecode has no form for the float {attribute}")
        return
    name, bits = found
    width = FORMATS[name].bits
    buffer.byte(AttributeTag.FLOAT)
    buffer.varint(out.types.index(ELEMENT_TYPES[name]))
    if width <= 8:
        buffer.byte(bits)
    else:
        buffer.svarint(signed(bits, 64) if width == 64 else bits)


def _write_type(out: Output, buffer: ByteWriter, attribute: Attribute, depth: int) -> None:
    buffer.byte(AttributeTag.TYPE)
    buffer.varint(out.types.index(attribute))


def _write_string(out: Output, buffer: ByteWriter, attribute: StringAttr, depth: int) -> None:
    buffer.byte(AttributeTag.STRING)
    buffer.varint(out.string(attribute.data))


def _write_array(out: Output, buffer: ByteWriter, attribute: ArrayAttr, depth: int) -> None:
    buffer.byte(AttributeTag.ARRAY)
    write_array(out, buffer, attribute, depth)


def write_array(out: Output, buffer: ByteWriter, attribute: ArrayAttr, depth: int = 0) -> None:
    """Append an array without its tag."""
    buffer.varint(len(attribute.data))
    for item in attribute.data:
        write_tagged(out, buffer, item, depth + 1)


def _write_dictionary(
    out: Output, buffer: ByteWriter, attribute: DictionaryAttr, depth: int
) -> None:
    buffer.byte(AttributeTag.DICTIONARY)
    write_dictionary(out, buffer, attribute, depth)


def write_dictionary(
    out: Output, buffer: ByteWriter, attribute: DictionaryAttr, depth: int = 0
) -> None:
    """Append a dictionary, ordered by key, without its tag."""
    buffer.varint(len(attribute.data))
    for key, value in sorted(attribute.data.items()):
        if not key:
            out.problem(NOT_STORABLE, "bytecode has no form for an empty dictionary key")
        buffer.varint(out.string(key))
        write_tagged(out, buffer, value, depth + 1)


def _write_hints(
    out: Output, buffer: ByteWriter, attribute: OptimizationHintsAttr, depth: int
) -> None:
    buffer.byte(AttributeTag.OPTIMIZATION_HINTS)
    write_dictionary(out, buffer, attribute.value, depth)


def _write_div_by(out: Output, buffer: ByteWriter, attribute: DivByAttr, depth: int) -> None:
    buffer.byte(AttributeTag.DIV_BY)
    buffer.varint(attribute.divisor.data)
    _write_optional_pair(out, buffer, attribute.every, attribute.along)


def _write_bounded(out: Output, buffer: ByteWriter, attribute: BoundedAttr, depth: int) -> None:
    buffer.byte(AttributeTag.BOUNDED)
    _write_optional_pair(out, buffer, attribute.lower, attribute.upper)


def _write_optional_pair(
    out: Output, buffer: ByteWriter, first: Attribute, second: Attribute
) -> None:
    given = (number_of(first), number_of(second))
    buffer.byte(sum(1 << index for index, value in enumerate(given) if value is not None))
    for value in given:
        if value is None:
            continue
        if not I64_EXTREMES[0] <= value <= I64_EXTREMES[1]:
            out.problem(NOT_STORABLE, f"{value} does not fit in the 64 bits that bytecode has")
        buffer.svarint(value)


def _write_same_elements(
    out: Output, buffer: ByteWriter, attribute: SameElementsAttr, depth: int
) -> None:
    buffer.byte(AttributeTag.SAME_ELEMENTS)
    values = attribute.values.data
    if not all(I64_EXTREMES[0] < value < I64_EXTREMES[1] for value in values):
        out.problem(NOT_STORABLE, f"bytecode has no form for the array elements {list(values)}")
        return
    buffer.i64_array(values)


_TAGGED_WRITERS: tuple[tuple[type[Attribute], Callable[..., None]], ...] = (
    (IntegerAttr, _write_integer),
    (FloatBitsAttr, _write_float),
    (FloatAttr, _write_float),
    (DictionaryAttr, _write_dictionary),
    (StringAttr, _write_string),
    (ArrayAttr, _write_array),
    (OptimizationHintsAttr, _write_hints),
    (DivByAttr, _write_div_by),
    (SameElementsAttr, _write_same_elements),
    (BoundedAttr, _write_bounded),
    (TypeAttribute, _write_type),
)
