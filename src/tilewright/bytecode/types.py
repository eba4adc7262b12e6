"""The type section: a table of types, decoded on first use, and written once each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tilewright.bytecode.encoding import ByteWriter, Cursor, DecodeError, RangeError
from tilewright.bytecode.format import (
    BAD_ENUM,
    BAD_FLAGS,
    BAD_TYPE,
    MAX_TYPE_DEPTH,
    NEEDS_VERSION,
    NOT_STORABLE,
    POINTER_FLAGS_SINCE,
    TOO_DEEP,
    TYPE_SINCE,
    VIEW_FLAGS_SINCE,
    TypeTag,
)
from tilewright.bytecode.tables import Pool, read_index, read_spans, shown_type
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.enums import (
    PaddingValue,
    PaddingValueAttr,
    PtrAttr,
    PtrAttrAttr,
    TileEnumAttribute,
)
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.versions import Version, format_version
from tilewright.numerics.element_types import FORMAT_OF_TAG, FORMATS

_HAS_ATTRIBUTE = 1

_EnumT = TypeVar("_EnumT", bound=TileEnumAttribute)


def read_enum(cursor: Cursor, cls: type[_EnumT], version: Version) -> _EnumT:
    """Read an enumeration value, which must exist in the version. Raises ``DecodeError`` if it does not."""
    start = cursor.pos
    code = cursor.varint()
    found = cls.from_code(code)
    if found is None:
        raise DecodeError(
            BAD_ENUM,
            f"expected a value of {cls.enum_type.__name__} in 0 .. {len(cls.enum_type) - 1}, got "
            f"{code}",
            start,
            cursor.pos,
        )
    since = cls.SINCE.get(found.data)
    if since is not None and since > version:
        raise DecodeError(
            BAD_ENUM,
            f"{found.data.value} of {cls.enum_type.__name__} needs bytecode version "
            f"{format_version(since)}, but the file has {format_version(version)}",
            start,
            cursor.pos,
        )
    return found  # pyright: ignore[reportReturnType]


class TypeTable:
    """The types of a file, by index."""

    def __init__(self, cursor: Cursor | None, version: Version):
        self.version = version
        self._cursor = cursor
        self._spans = [] if cursor is None else read_spans(cursor, "types", 4)
        #: By index; None if not decoded yet.
        self.decoded: list[Attribute | None] = [None] * len(self._spans)
        self._open: list[int] = []
        self._interned: dict[Attribute, Attribute] = {}

    def type(self, cursor: Cursor) -> Attribute:
        """Read an index; returns that type, the same object for the same index.

        Raises ``DecodeError`` for an index that the table does not have, and for a type that is malformed.
        """
        index = read_index(cursor, len(self.decoded), "type")
        return self.decoded[index] or self._decode(index)

    def _decode(self, index: int) -> Attribute:
        start, end = self._spans[index]
        if index in self._open:
            raise DecodeError(BAD_TYPE, f"type {index} contains itself", start, end)
        if len(self._open) == MAX_TYPE_DEPTH:
            raise DecodeError(
                TOO_DEEP, f"types are nested deeper than {MAX_TYPE_DEPTH} levels", start, end
            )
        assert self._cursor is not None
        entry = self._cursor.sub(start, end)
        self._open.append(index)
        try:
            ty = self._read(entry)
        except VerifyException as error:
            raise DecodeError(BAD_TYPE, f"type {index}: {error}", start, end) from error
        self._open.pop()
        if entry.remaining:
            raise DecodeError(
                BAD_TYPE,
                f"type {index}, {shown_type(ty)}, is followed by {entry.remaining} bytes that "
                f"belong to nothing",
                entry.pos,
                end,
            )
        if not isinstance(ty, FunctionType):
            ty = self._interned.setdefault(ty, ty)
        self.decoded[index] = ty
        return ty

    def _read(self, entry: Cursor) -> Attribute:
        start = entry.pos
        tag = entry.varint()
        if (fmt := FORMAT_OF_TAG.get(tag)) is not None:
            since, name = fmt.since, fmt.name
        elif tag in _READERS:
            since, name = TYPE_SINCE[TypeTag(tag)], TypeTag(tag).name.lower()
        else:
            raise DecodeError(BAD_TYPE, f"no type has the tag {tag}", start, entry.pos)
        if since > self.version:
            raise DecodeError(
                BAD_TYPE,
                f"type {name} needs bytecode version {format_version(since)}, but the file has "
                f"{format_version(self.version)}",
                start,
                entry.pos,
            )
        return T.ELEMENT_TYPES[fmt.name] if fmt is not None else _READERS[tag](entry, self)


def _part(entry: Cursor, table: TypeTable) -> Attribute:
    """Read a type that is part of another one; rejects function types.

    Nested function types could double in size at every level.
    """
    start = entry.pos
    found = table.type(entry)
    if isinstance(found, FunctionType):
        raise DecodeError(
            BAD_TYPE, "a function type cannot be a part of another type", start, entry.pos
        )
    return found


def _flag(entry: Cursor) -> bool:
    """Read the only flag that a type can have."""
    start = entry.pos
    flags = entry.varint()
    if flags & ~_HAS_ATTRIBUTE:
        raise DecodeError(
            BAD_FLAGS, f"expected the flags of a type to be 0 or 1, got {flags}", start, entry.pos
        )
    return bool(flags)


def _pointer_flag(entry: Cursor, table: TypeTable) -> bool:
    return table.version >= POINTER_FLAGS_SINCE and _flag(entry)


def _ptr_attr(entry: Cursor, table: TypeTable, present: bool) -> PtrAttr | None:
    return read_enum(entry, PtrAttrAttr, table.version).data if present else None


def _padding(entry: Cursor, table: TypeTable, present: bool) -> PaddingValue | None:
    return read_enum(entry, PaddingValueAttr, table.version).data if present else None


def _check_tile_size(dims: tuple[int, ...], start: int, end: int) -> None:
    """Reject an oversized tile before its extents are multiplied, since the product may be enormous."""
    count = 1
    for dim in dims:
        count *= max(dim, 1)
        if count > T.MAX_TILE_ELEMENTS:
            raise DecodeError(
                BAD_TYPE,
                f"a tile would exceed the maximum of {T.MAX_TILE_ELEMENTS} elements",
                start,
                end,
            )


def _tile_dims(entry: Cursor) -> tuple[int, ...]:
    start = entry.pos
    dims = entry.i32_array()
    _check_tile_size(dims, start, entry.pos)
    return dims


def _read_ptr(entry: Cursor, table: TypeTable) -> Attribute:
    flag = _pointer_flag(entry, table)
    pointee = _part(entry, table)
    return T.PtrType(pointee, _ptr_attr(entry, table, flag))


def _read_tile(entry: Cursor, table: TypeTable) -> Attribute:
    element = _part(entry, table)
    start = entry.pos
    dims = entry.i64_array()
    _check_tile_size(dims, start, entry.pos)
    return T.tile(dims, element)


def _read_tensor_view(entry: Cursor, table: TypeTable) -> Attribute:
    flag = _pointer_flag(entry, table)
    element = _part(entry, table)
    shape, strides = entry.i64_array(), entry.i64_array()
    return T.TensorViewType(element, shape, strides, _ptr_attr(entry, table, flag))


def _read_partition_view(entry: Cursor, table: TypeTable) -> Attribute:
    has_flags = table.version >= VIEW_FLAGS_SINCE
    present = has_flags and _flag(entry)
    tile = _tile_dims(entry)
    view = _part(entry, table)
    dim_map = entry.i32_array()
    if not has_flags:
        present = entry.byte() != 0
    return T.PartitionViewType(tile, view, dim_map, _padding(entry, table, present))


def _read_gather_scatter_view(entry: Cursor, table: TypeTable) -> Attribute:
    present = _flag(entry)
    tile = _tile_dims(entry)
    view = _part(entry, table)
    sparse_dim = entry.varint()
    return T.GatherScatterViewType(tile, view, sparse_dim, _padding(entry, table, present))


def _read_strided_view(entry: Cursor, table: TypeTable) -> Attribute:
    present = _flag(entry)
    tile = _tile_dims(entry)
    strides = entry.i32_array()
    view = _part(entry, table)
    dim_map = entry.i32_array()
    return T.StridedViewType(tile, strides, view, dim_map, _padding(entry, table, present))


def _read_function(entry: Cursor, table: TypeTable) -> Attribute:
    inputs = [_part(entry, table) for _ in range(entry.count("inputs"))]
    results = [_part(entry, table) for _ in range(entry.count("results"))]
    return FunctionType.from_lists(inputs, results)


def _read_token(entry: Cursor, table: TypeTable) -> Attribute:
    return T.TOKEN


_READERS: dict[int, Callable[[Cursor, TypeTable], Attribute]] = {
    TypeTag.PTR: _read_ptr,
    TypeTag.TILE: _read_tile,
    TypeTag.TENSOR_VIEW: _read_tensor_view,
    TypeTag.PARTITION_VIEW: _read_partition_view,
    TypeTag.FUNCTION: _read_function,
    TypeTag.TOKEN: _read_token,
    TypeTag.GATHER_SCATTER_VIEW: _read_gather_scatter_view,
    TypeTag.STRIDED_VIEW: _read_strided_view,
}


class TypeWriter:
    """Assigns an index to every type, parts before the types that contain them."""

    def __init__(self, version: Version, problem: Callable[[str, str], None]):
        self.version = version
        self.problem = problem
        self._pool = Pool()
        # By identity, which is fast to look up; the type is kept alive so that its id is not reused.
        self._known: dict[int, tuple[Attribute, int]] = {}

    def __len__(self) -> int:
        return len(self._pool)

    def index(self, ty: Attribute) -> int:
        """Return the index of a type. At first use, reports what the version cannot express."""
        known = self._known.get(id(ty))
        if known is None:
            known = self._known[id(ty)] = (ty, self._add(ty))
        return known[1]

    def write(self, out: ByteWriter) -> None:
        """Append the type section: count, offsets of four bytes, entries."""
        self._pool.write(out, 4)

    def _add(self, ty: Attribute) -> int:
        entry = ByteWriter()
        name = T.ELEMENT_NAMES.get(ty)
        if name is not None:
            fmt = FORMATS[name]
            self.require(fmt.since, ty)
            entry.varint(fmt.tag)
        elif type(ty) in _WRITERS:
            tag, write = _WRITERS[type(ty)]
            self.require(TYPE_SINCE[tag], ty)
            entry.varint(tag)
            try:
                write(entry, self, ty)
            except RangeError:
                self.problem(NOT_STORABLE, f"a number in '{format_type(ty)}' is too large")
        else:
            self.problem(NOT_STORABLE, f"bytecode has no form for the type '{format_type(ty)}'")
            return 0
        return self._pool.index(bytes(entry.buffer))

    def require(self, since: Version, ty: Attribute, what: str = "") -> None:
        """Report a type newer than the requested version (``needs-version``); ``since`` is the first that has it."""
        if since > self.version:
            self.problem(
                NEEDS_VERSION,
                f"{what}type '{format_type(ty)}' needs {format_version(since)}, but "
                f"{format_version(self.version)} was asked for",
            )


def _write_pointer_flags(
    entry: ByteWriter, types: TypeWriter, ty: T.PtrType | T.TensorViewType
) -> None:
    """Write the flags of a pointer or tensor view, if the version has them."""
    found = ty.ptr_attr
    if isinstance(found, PtrAttrAttr):
        types.require(found.SINCE[found.data], ty, f"{found.data.value} of ")
    if types.version >= POINTER_FLAGS_SINCE:
        entry.varint(_HAS_ATTRIBUTE if isinstance(found, PtrAttrAttr) else 0)


def _write_optional_enum(entry: ByteWriter, found: Attribute) -> None:
    if isinstance(found, TileEnumAttribute):
        entry.varint(found.code)


def _write_ptr(entry: ByteWriter, types: TypeWriter, ty: T.PtrType) -> None:
    _write_pointer_flags(entry, types, ty)
    entry.varint(types.index(ty.pointee))
    if types.version >= POINTER_FLAGS_SINCE:
        _write_optional_enum(entry, ty.ptr_attr)


def _write_tile(entry: ByteWriter, types: TypeWriter, ty: T.TileType) -> None:
    entry.varint(types.index(ty.element_type))
    entry.i64_array(ty.dims)


def _write_tensor_view(entry: ByteWriter, types: TypeWriter, ty: T.TensorViewType) -> None:
    _write_pointer_flags(entry, types, ty)
    entry.varint(types.index(ty.element_type))
    entry.i64_array(ty.dims)
    entry.i64_array(ty.stride_dims)
    if types.version >= POINTER_FLAGS_SINCE:
        _write_optional_enum(entry, ty.ptr_attr)


def _write_partition_view(entry: ByteWriter, types: TypeWriter, ty: T.PartitionViewType) -> None:
    has_flags = types.version >= VIEW_FLAGS_SINCE
    present = int(ty.padding is not None)
    if has_flags:
        entry.varint(present)
    entry.i32_array(ty.tile_dims)
    entry.varint(types.index(ty.tensor_view))
    entry.i32_array(ty.dim_map_dims)
    if not has_flags:
        entry.byte(present)
    _write_optional_enum(entry, ty.padding_value)


def _write_gather_scatter_view(
    entry: ByteWriter, types: TypeWriter, ty: T.GatherScatterViewType
) -> None:
    entry.varint(int(ty.padding is not None))
    entry.i32_array(ty.tile_dims)
    entry.varint(types.index(ty.tensor_view))
    entry.varint(ty.sparse_dim.data)
    _write_optional_enum(entry, ty.padding_value)


def _write_strided_view(entry: ByteWriter, types: TypeWriter, ty: T.StridedViewType) -> None:
    entry.varint(int(ty.padding is not None))
    entry.i32_array(ty.tile_dims)
    entry.i32_array(ty.traversal)
    entry.varint(types.index(ty.tensor_view))
    entry.i32_array(ty.dim_map_dims)
    _write_optional_enum(entry, ty.padding_value)


def _write_function(entry: ByteWriter, types: TypeWriter, ty: FunctionType) -> None:
    for part in (ty.inputs.data, ty.outputs.data):
        entry.varint(len(part))
        for member in part:
            entry.varint(types.index(member))


def _write_token(entry: ByteWriter, types: TypeWriter, ty: T.TokenType) -> None:
    return None


_WRITERS: dict[type[Attribute], tuple[TypeTag, Callable[..., None]]] = {
    T.PtrType: (TypeTag.PTR, _write_ptr),
    T.TileType: (TypeTag.TILE, _write_tile),
    T.TensorViewType: (TypeTag.TENSOR_VIEW, _write_tensor_view),
    T.PartitionViewType: (TypeTag.PARTITION_VIEW, _write_partition_view),
    FunctionType: (TypeTag.FUNCTION, _write_function),
    T.TokenType: (TypeTag.TOKEN, _write_token),
    T.GatherScatterViewType: (TypeTag.GATHER_SCATTER_VIEW, _write_gather_scatter_view),
    T.StridedViewType: (TypeTag.STRIDED_VIEW, _write_strided_view),
}
