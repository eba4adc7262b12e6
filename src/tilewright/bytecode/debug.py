"""The debug section: locations and their scopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, UnknownLoc
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tilewright.bytecode.encoding import ByteWriter, Cursor, DecodeError
from tilewright.bytecode.format import (
    BAD_DEBUG,
    BAD_INDEX,
    DECLARATION,
    DROPPED_DEBUG,
    MAX_DEBUG_PARTS,
    NOT_STORABLE,
    SUBPROGRAM_FLAGS_SINCE,
    TOO_DEEP,
    DebugTag,
)
from tilewright.bytecode.output import Output
from tilewright.bytecode.tables import Pool, Span, Tables, read_spans
from tilewright.dialects.cuda_tile.debug_info import (
    FUSED,
    NAMED,
    CallSiteAttr,
    DIAttr,
    DICompileUnitAttr,
    DIFileAttr,
    DILexicalBlockAttr,
    DILocalScope,
    DILocAttr,
    DISubprogramAttr,
    file_position,
)
from tilewright.dialects.syntax.directives import quote
from tilewright.dialects.versions import Version

UNKNOWN = UnknownLoc()
_LOCATIONS = (UnknownLoc, DILocAttr, CallSiteAttr)

_AttrT = TypeVar("_AttrT", bound=Attribute)


class _PartMissing(Exception):
    """An entry refers to another that must be read first. Internal to this module."""

    def __init__(self, reference: int) -> None:
        super().__init__(reference)
        self.reference = reference


class DebugTable:
    """The debug entries of a file, and the lists of references to them by function."""

    def __init__(self, cursor: Cursor | None, tables: Tables):
        self.tables = tables
        self._starts: tuple[int, ...] = ()
        self._references: tuple[int, ...] = ()
        self._spans: list[Span] = []
        self._cursor = cursor
        if cursor is not None:
            self._read_tables(cursor)
        #: By index. The number counts the parts of an entry; shared entries count at each use.
        self._decoded: dict[int, tuple[Attribute, int]] = {}
        self._parts = 0

    def _read_tables(self, cursor: Cursor) -> None:
        base = cursor.pos
        count = cursor.count("functions", 4)
        cursor.align(4, base)
        self._starts = cursor.u32s(count)
        count = cursor.count("references", 8)
        cursor.align(8, base)
        self._references = cursor.u64s(count)
        self._spans = read_spans(cursor, "debug entries", 4, base)

    def first_reference(self, function: int, start: int, end: int) -> int:
        """Return the position of a function's first location; its debug number counts from 1.

        The first is the function's own location, the others those of its operations, an operation before
        those in its regions. Raises ``DecodeError`` over bytes ``start .. end`` if there is no such list.
        """
        if function > len(self._starts):
            raise DecodeError(
                BAD_INDEX, f"the debug section has no list {function} of locations", start, end
            )
        return self._starts[function - 1]

    def location(self, index: int, start: int) -> Attribute:
        """Return the location that a reference index denotes; ``start`` is where it is used, in bytes of the file.

        Raises ``DecodeError`` for an index that the section does not have, and for an entry that is no location.
        """
        if index >= len(self._references):
            raise DecodeError(
                BAD_INDEX,
                f"the debug section has {len(self._references)} references to locations, fewer "
                f"than there are functions and operations",
                start,
                start,
            )
        reference = self._references[index]
        found = self._entry(reference, start, start)
        if not isinstance(found, _LOCATIONS):
            raise DecodeError(
                BAD_DEBUG,
                f"expected a location, got debug entry {reference}: {_kind(found)}",
                *self._spans[reference - 1],
            )
        return found

    def _entry(self, reference: int, start: int, end: int) -> Attribute:
        if reference == 0:
            return UNKNOWN
        self._check_exists(reference, start, end)
        known = self._decoded.get(reference) or self._decode(reference)
        self._parts += known[1]
        return known[0]

    def _check_exists(self, reference: int, start: int, end: int) -> None:
        if reference > len(self._spans):
            raise DecodeError(
                BAD_INDEX,
                f"debug entry {reference} does not exist: there are {len(self._spans)}, "
                f"counted from 1",
                start,
                end,
            )

    def _decode(self, reference: int) -> tuple[Attribute, int]:
        """Read an entry and all its parts. Not recursive, so any depth works.

        An entry that refers to an unread one is deferred until that one is read.
        """
        stack, opened = [reference], {reference}
        outer = self._parts
        while stack:
            try:
                self._read_entry(stack[-1])
            except _PartMissing as missing:
                part = missing.reference
                if part in opened:
                    raise DecodeError(
                        BAD_DEBUG, f"debug entry {part} contains itself", *self._spans[part - 1]
                    ) from None
                stack.append(part)
                opened.add(part)
            else:
                opened.discard(stack.pop())
        self._parts = outer
        return self._decoded[reference]

    def _read_entry(self, reference: int) -> None:
        """Read one entry whose parts are known. Raises ``_PartMissing`` if one is not."""
        start, end = self._spans[reference - 1]
        assert self._cursor is not None
        entry = self._cursor.sub(start, end)
        self._parts = 1
        read = _READERS.get(entry.varint())
        try:
            found = UNKNOWN if read is None else read(entry, self)
        except VerifyException as error:
            raise DecodeError(BAD_DEBUG, f"debug entry {reference}: {error}", start, end) from error
        if self._parts > MAX_DEBUG_PARTS:
            raise DecodeError(
                TOO_DEEP, f"a debug entry has more than {MAX_DEBUG_PARTS} parts", start, end
            )
        self._decoded[reference] = (found, self._parts)

    def part(self, entry: Cursor, cls: type[_AttrT]) -> _AttrT:
        """Return the entry referred to next, which must be of a class; reference 0 is the unknown location.

        Raises ``DecodeError`` for one that does not exist or is of another class. One that is not decoded yet ends
        the decoding of this entry, which is repeated behind it (``_PartMissing``).
        """
        start = entry.pos
        reference = entry.varint()
        found: Attribute = UNKNOWN
        if reference:
            self._check_exists(reference, start, entry.pos)
            if (known := self._decoded.get(reference)) is None:
                raise _PartMissing(reference)
            found = known[0]
            self._parts += known[1]
        if not isinstance(found, cls):
            raise DecodeError(
                BAD_DEBUG,
                f"expected {_CLASS_NAMES[cls]}, got debug entry {reference}: {_kind(found)}",
                start,
                entry.pos,
            )
        return found


_CLASS_NAMES: dict[type[Attribute], str] = {
    DIFileAttr: "a file",
    DICompileUnitAttr: "a compile unit",
    DISubprogramAttr: "a subprogram",
    DILocalScope: "a subprogram or lexical block",
    DILexicalBlockAttr: "a lexical block",
    DILocAttr: "a location",
    CallSiteAttr: "a call site",
    UnknownLoc: "unknown",
}


def _kind(found: Attribute) -> str:
    return _CLASS_NAMES[type(found)]


def _read_compile_unit(entry: Cursor, table: DebugTable) -> Attribute:
    return DICompileUnitAttr(table.part(entry, DIFileAttr))


def _read_file(entry: Cursor, table: DebugTable) -> Attribute:
    strings = table.tables.strings
    name = strings.text(entry)
    return DIFileAttr(name, strings.text(entry))


def _read_lexical_block(entry: Cursor, table: DebugTable) -> Attribute:
    scope = table.part(entry, DILocalScope)
    file = table.part(entry, DIFileAttr)
    return DILexicalBlockAttr(scope, file, IntAttr(entry.varint()), IntAttr(entry.varint()))


def _read_location(entry: Cursor, table: DebugTable) -> Attribute:
    scope = table.part(entry, DILocalScope)
    name = table.tables.strings.text(entry)
    return DILocAttr(file_position(name, entry.varint(), entry.varint()), scope)


def _read_subprogram(entry: Cursor, table: DebugTable) -> Attribute:
    strings = table.tables.strings
    file = table.part(entry, DIFileAttr)
    line = entry.varint()
    name = strings.text(entry)
    linkage_name = strings.text(entry)
    unit = table.part(entry, DICompileUnitAttr)
    scope_line = entry.varint()
    if table.tables.version >= SUBPROGRAM_FLAGS_SINCE:
        start = entry.pos
        flags = entry.varint()
        if flags & ~DECLARATION:
            raise DecodeError(
                BAD_DEBUG,
                f"expected the flags of a subprogram to be 0 or {DECLARATION}, got {flags}",
                start,
                entry.pos,
            )
        if flags:
            table.tables.warn(
                DROPPED_DEBUG,
                f"the subprogram {name} is marked as a declaration, which is not kept",
                start,
                entry.pos,
            )
    return DISubprogramAttr.make(file, line, name, linkage_name, unit, scope_line)


def _read_call_site(entry: Cursor, table: DebugTable) -> Attribute:
    parts: list[Attribute] = []
    for what in ("callee", "caller"):
        start = entry.pos
        found = table.part(entry, Attribute)
        if not isinstance(found, _LOCATIONS):
            raise DecodeError(
                BAD_DEBUG,
                f"expected a location for the {what}, got {_kind(found)}",
                start,
                entry.pos,
            )
        parts.append(found)
    return CallSiteAttr(*parts)


_READERS: dict[int, Callable[[Cursor, DebugTable], Attribute]] = {
    DebugTag.COMPILE_UNIT: _read_compile_unit,
    DebugTag.FILE: _read_file,
    DebugTag.LEXICAL_BLOCK: _read_lexical_block,
    DebugTag.LOCATION: _read_location,
    DebugTag.SUBPROGRAM: _read_subprogram,
    DebugTag.CALL_SITE: _read_call_site,
}


def _shown(attribute: Attribute) -> str:
    """Return a location in a few words; in full it may be of any length."""
    if isinstance(attribute, FUSED):
        return "a fused location"
    if isinstance(attribute, NAMED):
        return f"the location named {quote(attribute.desc.data)}"
    return f"the location {attribute}"


class DebugWriter:
    """Collects the locations of functions and operations."""

    def __init__(self, out: Output):
        self._out = out
        self._pool = Pool()
        self._starts: list[int] = []
        self._references: list[int] = []
        # By identity; the attribute is kept alive so that its id is not reused.
        self._known: dict[int, tuple[Attribute, int]] = {}

    def add_function(self, references: list[int]) -> int:
        """Store a function's location and those of its operations. Returns its debug number.

        If no location is known, nothing is stored and the number is 0.
        """
        if not any(references):
            return 0
        self._starts.append(len(self._references))
        self._references += references
        return len(self._starts)

    def location(self, location: Attribute) -> int:
        """Return the debug index of a location. Reports one that bytecode cannot hold."""
        if isinstance(location, UnknownLoc):
            return 0
        if not isinstance(location, DILocAttr | CallSiteAttr):
            self._out.problem(
                NOT_STORABLE,
                f"bytecode has no form for {_shown(location)}: only a position in a scope "
                f"(di_loc) and a call site of such can be stored",
            )
            return 0
        return self._index(location)

    def write(self, buffer: ByteWriter) -> bool:
        """Append the section, if there is anything in it. Returns whether there is."""
        if not self._starts:
            return False
        for values, size in ((self._starts, 4), (self._references, 8)):
            buffer.varint(len(values))
            buffer.align(size)
            for value in values:
                (buffer.u32 if size == 4 else buffer.u64)(value)
        self._pool.write(buffer, 4)
        return True

    def _index(self, attribute: Attribute) -> int:
        """Return the number of an attribute; its parts are numbered first. Not recursive."""
        stack = [attribute]
        while stack:
            top = stack[-1]
            if id(top) in self._known:
                stack.pop()
            elif missing := self._missing_parts(top):
                stack += reversed(missing)
            else:
                self._known[id(top)] = (stack.pop(), self._add(top))
        return self._known[id(attribute)][1]

    def _missing_parts(self, attribute: Attribute) -> list[Attribute]:
        if not isinstance(attribute, DIAttr):
            return []
        return [
            part
            for part in attribute.parameters
            if isinstance(part, DIAttr) and id(part) not in self._known
        ]

    def _add(self, attribute: Attribute) -> int:
        if isinstance(attribute, UnknownLoc):
            return 0
        if type(attribute) not in _WRITERS:
            self.not_storable(attribute)
            return 0
        tag, write = _WRITERS[type(attribute)]
        entry = ByteWriter()
        entry.varint(tag)
        write(self, entry, attribute)
        return self._pool.index(bytes(entry.buffer)) + 1

    def not_storable(self, attribute: Attribute) -> None:
        """Report an attribute that debug info of bytecode cannot hold (``bytecode-not-storable``)."""
        self._out.problem(
            NOT_STORABLE, f"bytecode has no form for {_shown(attribute)} in debug info"
        )

    @property
    def version(self) -> Version:
        """The version being written."""
        return self._out.version

    def refer(self, entry: ByteWriter, attribute: Attribute) -> None:
        """Append the index of another entry; 0 is an unknown location."""
        entry.varint(self._index(attribute))

    def text(self, entry: ByteWriter, text: StringAttr) -> None:
        """Append the index of a string of the string section."""
        entry.varint(self._out.string(text.data))

    def number(self, entry: ByteWriter, value: IntAttr) -> None:
        """Append a line or column. Reports one that exceeds 64 bits (``bytecode-not-storable``)."""
        if not 0 <= value.data < 2**64:
            self._out.problem(
                NOT_STORABLE, f"the line or column {value.data} is not in 0 .. 2**64 - 1"
            )
            return
        entry.varint(value.data)


def _write_compile_unit(
    writer: DebugWriter, entry: ByteWriter, attribute: DICompileUnitAttr
) -> None:
    writer.refer(entry, attribute.file)


def _write_file(writer: DebugWriter, entry: ByteWriter, attribute: DIFileAttr) -> None:
    writer.text(entry, attribute.file_name)
    writer.text(entry, attribute.directory)


def _write_lexical_block(
    writer: DebugWriter, entry: ByteWriter, attribute: DILexicalBlockAttr
) -> None:
    writer.refer(entry, attribute.scope)
    writer.refer(entry, attribute.file)
    writer.number(entry, attribute.line)
    writer.number(entry, attribute.column)


def _write_location(writer: DebugWriter, entry: ByteWriter, attribute: DILocAttr) -> None:
    source = attribute.source
    if not isinstance(source, FileLineColLoc):
        writer.not_storable(source)
        return
    writer.refer(entry, attribute.scope)
    writer.text(entry, source.filename)
    writer.number(entry, source.line)
    writer.number(entry, source.column)


def _write_subprogram(writer: DebugWriter, entry: ByteWriter, attribute: DISubprogramAttr) -> None:
    writer.refer(entry, attribute.file)
    writer.number(entry, attribute.line)
    writer.text(entry, attribute.function_name)
    writer.text(entry, attribute.linkage_name)
    writer.refer(entry, attribute.compile_unit)
    writer.number(entry, attribute.scope_line)
    if writer.version >= SUBPROGRAM_FLAGS_SINCE:
        entry.varint(0)


def _write_call_site(writer: DebugWriter, entry: ByteWriter, attribute: CallSiteAttr) -> None:
    writer.refer(entry, attribute.callee)
    writer.refer(entry, attribute.caller)


_WRITERS: dict[type[Attribute], tuple[DebugTag, Callable[..., None]]] = {
    DICompileUnitAttr: (DebugTag.COMPILE_UNIT, _write_compile_unit),
    DIFileAttr: (DebugTag.FILE, _write_file),
    DILexicalBlockAttr: (DebugTag.LEXICAL_BLOCK, _write_lexical_block),
    DILocAttr: (DebugTag.LOCATION, _write_location),
    DISubprogramAttr: (DebugTag.SUBPROGRAM, _write_subprogram),
    CallSiteAttr: (DebugTag.CALL_SITE, _write_call_site),
}
