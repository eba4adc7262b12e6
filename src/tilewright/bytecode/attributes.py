"""Encodings of untagged attribute fields, whose kind the operation fixes: enumerations, numbers, strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute

from tilewright.bytecode.encoding import ByteWriter, Cursor, DecodeError
from tilewright.bytecode.format import BAD_ATTRIBUTE, NOT_STORABLE
from tilewright.bytecode.output import Output
from tilewright.bytecode.tables import Tables, constant_entry
from tilewright.bytecode.tagged import (
    I32_EXTREMES,
    check_extremes,
    integer,
    read_array,
    read_hints,
    read_int_pattern,
    read_tagged,
    write_array,
    write_dictionary,
    write_tagged,
)
from tilewright.bytecode.types import read_enum
from tilewright.dialects.cuda_tile.attributes import OptimizationHintsAttr
from tilewright.dialects.cuda_tile.constants import TileConstantAttr
from tilewright.dialects.cuda_tile.constraints import FieldKind
from tilewright.dialects.cuda_tile.enums import TileEnumAttribute
from tilewright.dialects.declare import bool_array, bool_values
from tilewright.dialects.versions import Version

#: Reads a field's value; the type is that of the operation's first result, if any.
FieldReader = Callable[[Cursor, Tables, Attribute | None], Attribute]
#: Appends a field's value, which is known to be of the right kind.
FieldWriter = Callable[[Output, ByteWriter, Attribute], None]

#: Shared arrays of ``false``, by number of elements.
_FALSE = [bool_array((False,) * count) for count in range(9)]


def false_for_each(count: int) -> DenseArrayBase:
    """Return an array of that many ``false``."""
    return _FALSE[count] if count < len(_FALSE) else bool_array((False,) * count)


def _int_reader(width: int) -> FieldReader:
    def read(cursor: Cursor, tables: Tables, first_result: Attribute | None) -> Attribute:
        return integer(read_int_pattern(cursor, width), width)

    return read


def _enum_reader(cls: type[TileEnumAttribute], version: Version) -> FieldReader:
    known = {
        code: cls.from_code(code)
        for code, member in enumerate(cls.enum_type)
        if cls.SINCE.get(member, version) <= version
    }

    def read(cursor: Cursor, tables: Tables, first_result: Attribute | None) -> Attribute:
        start = cursor.pos
        found = known.get(cursor.varint())
        if found is None:
            cursor.pos = start
            return read_enum(cursor, cls, version)
        return found

    return read


def _read_bool(cursor: Cursor, tables: Tables, first_result: Attribute | None) -> Attribute:
    return integer(int(cursor.byte() != 0), 1)


def _read_string(cursor: Cursor, tables: Tables, first_result: Attribute | None) -> Attribute:
    return tables.strings.attribute(cursor)


def _read_symbol(cursor: Cursor, tables: Tables, first_result: Attribute | None) -> Attribute:
    return tables.strings.reference(cursor)


def _read_type(cursor: Cursor, tables: Tables, first_result: Attribute | None) -> Attribute:
    return tables.types.type(cursor)


def _read_constant(cursor: Cursor, tables: Tables, first_result: Attribute | None) -> Attribute:
    assert first_result is not None, "an operation with a constant has a result of its type"
    return tables.constants.constant(cursor, first_result)


def _read_i32s(cursor: Cursor, tables: Tables, first_result: Attribute | None) -> Attribute:
    start = cursor.pos
    values = cursor.i32_array()
    check_extremes(values, I32_EXTREMES, start, cursor.pos)
    return DenseArrayBase.from_list(IntegerType(32), values)


def _read_bools(cursor: Cursor, tables: Tables, first_result: Attribute | None) -> Attribute:
    values = cursor.i8_array()
    return (
        bool_array([value != 0 for value in values]) if any(values) else false_for_each(len(values))
    )


def _read_array(cursor: Cursor, tables: Tables, first_result: Attribute | None) -> Attribute:
    return read_array(cursor, tables)


def _read_hints(cursor: Cursor, tables: Tables, first_result: Attribute | None) -> Attribute:
    return read_hints(cursor, tables)


def _tagged_reader(kind: FieldKind) -> FieldReader:
    """Return a reader of a tagged attribute that rejects those the field cannot hold."""

    def read(cursor: Cursor, tables: Tables, first_result: Attribute | None) -> Attribute:
        start = cursor.pos
        found = read_tagged(cursor, tables)
        if not kind.accepts(found):
            raise DecodeError(
                BAD_ATTRIBUTE, f"expected {kind.description}, got {found}", start, cursor.pos
            )
        return found

    return read


_READERS: dict[str, FieldReader] = {
    "bool": _read_bool,
    "str": _read_string,
    "sym": _read_symbol,
    "type": _read_type,
    "const": _read_constant,
    "i32s": _read_i32s,
    "bools": _read_bools,
    "array": _read_array,
    "hints": _read_hints,
}


def field_reader(kind: FieldKind, version: Version) -> FieldReader:
    """Return the reader of a kind of field in files of a version."""
    if kind.wire == "enum":
        return _enum_reader(kind.enum, version)
    if kind.wire == "int":
        return _int_reader(kind.width)
    if kind.wire == "tagged":
        return _tagged_reader(kind)
    return _READERS[kind.wire]


def _write_enum(out: Output, buffer: ByteWriter, value: Attribute) -> None:
    assert isinstance(value, TileEnumAttribute)
    buffer.varint(out.enum_code(value))


def _int_writer(width: int) -> FieldWriter:
    mask = (1 << width) - 1

    def write(out: Output, buffer: ByteWriter, value: Attribute) -> None:
        assert isinstance(value, IntegerAttr)
        buffer.varint(value.value.data & mask)

    return write


def _write_bool(out: Output, buffer: ByteWriter, value: Attribute) -> None:
    assert isinstance(value, IntegerAttr)
    buffer.byte(int(value.value.data != 0))


def _write_string(out: Output, buffer: ByteWriter, value: Attribute) -> None:
    assert isinstance(value, StringAttr)
    buffer.varint(out.string(value.data))


def _write_symbol(out: Output, buffer: ByteWriter, value: Attribute) -> None:
    assert isinstance(value, SymbolRefAttr)
    if value.nested_references.data:
        out.problem(NOT_STORABLE, f"bytecode has no form for the nested symbol {value}")
    buffer.varint(out.string(value.root_reference.data))


def _write_type(out: Output, buffer: ByteWriter, value: Attribute) -> None:
    assert isinstance(value, FunctionType)
    buffer.varint(out.types.index(value))


def _write_constant(out: Output, buffer: ByteWriter, value: Attribute) -> None:
    assert isinstance(value, TileConstantAttr)
    buffer.varint(out.constants.index(constant_entry(value)))


def _write_i32s(out: Output, buffer: ByteWriter, value: Attribute) -> None:
    assert isinstance(value, DenseArrayBase)
    values = tuple(int(v) for v in value.iter_values())
    if set(values) & set(I32_EXTREMES):
        out.problem(NOT_STORABLE, f"bytecode has no form for the array elements {list(values)}")
    buffer.i32_array(values)


def _write_bools(out: Output, buffer: ByteWriter, value: Attribute) -> None:
    buffer.i8_array(tuple(int(v) for v in bool_values(value)))


def _write_array(out: Output, buffer: ByteWriter, value: Attribute) -> None:
    assert isinstance(value, ArrayAttr)
    write_array(out, buffer, cast(ArrayAttr[Attribute], value))


def _write_hints(out: Output, buffer: ByteWriter, value: Attribute) -> None:
    assert isinstance(value, OptimizationHintsAttr)
    write_dictionary(out, buffer, value.value)


_WRITERS: dict[str, FieldWriter] = {
    "enum": _write_enum,
    "bool": _write_bool,
    "str": _write_string,
    "sym": _write_symbol,
    "type": _write_type,
    "const": _write_constant,
    "i32s": _write_i32s,
    "bools": _write_bools,
    "array": _write_array,
    "hints": _write_hints,
    "tagged": write_tagged,
}


def field_writer(kind: FieldKind) -> FieldWriter:
    """Return the writer of a kind of field."""
    return _int_writer(kind.width) if kind.wire == "int" else _WRITERS[kind.wire]
