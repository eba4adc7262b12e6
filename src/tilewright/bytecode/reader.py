"""Reading bytecode: the envelope, the module, its globals and the headers of its kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region

from tilewright.bytecode.body_reader import BodyReader
from tilewright.bytecode.debug import UNKNOWN, DebugTable
from tilewright.bytecode.encoding import Cursor, DecodeError
from tilewright.bytecode.format import (
    ALIGNED,
    ARGUMENT_ATTRIBUTES_SINCE,
    BAD_ATTRIBUTE,
    BAD_FLAGS,
    BAD_FUNCTION,
    BAD_SECTION,
    DROPPED_BITS,
    GLOBAL_FIELDS_SINCE,
    HEADER_SIZE,
    KERNEL,
    KERNEL_HINTS,
    MAGIC,
    MODULE_NAME,
    NOT_BYTECODE,
    PREVIEW,
    PRIVATE_KERNEL,
    SECTIONS,
    UNKNOWN_VERSION,
    SectionId,
    is_bytecode,
)
from tilewright.bytecode.tables import ConstantTable, StringTable, Tables, shown_type
from tilewright.bytecode.tagged import integer, read_tagged
from tilewright.bytecode.types import TypeTable, read_enum
from tilewright.diagnostics import ByteSpan, Diagnostic, Severity, TileIRError
from tilewright.dialects.cuda_tile.attributes import OptimizationHintsAttr
from tilewright.dialects.cuda_tile.enums import SymbolVisibility, SymbolVisibilityAttr
from tilewright.dialects.cuda_tile.ops.module import EntryOp, GlobalOp, ModuleOp
from tilewright.dialects.cuda_tile.types import TileType
from tilewright.dialects.source_map import BytecodeSource, set_source
from tilewright.dialects.versions import BYTECODE_VERSIONS, Version, format_version
from tilewright.garbage import rare_collections
from tilewright.nesting import deep_recursion
from tilewright.numerics.element_types import signed


@rare_collections
@deep_recursion()
def read(
    data: bytes, filename: str = "<bytes>", *, warnings: list[Diagnostic] | None = None
) -> ModuleOp:
    """Decode a bytecode file of any version into a module.

    Types are checked and every reference is valid, but operations still have to be verified. Bad input
    raises TileIRError with one error, which names the bytes and what they belong to. ``warnings``
    receives diagnostics about odd but readable input.
    """
    reader = _FileReader(bytes(data), filename, [] if warnings is None else warnings)
    try:
        return reader.module()
    except DecodeError as error:
        raise TileIRError.single(
            error.code, error.message, reader.place(error.start, error.end)
        ) from error


def _nowhere() -> str:
    return "header"


class _FileReader:
    """Reads one file; ``where`` names what is being read."""

    def __init__(self, data: bytes, filename: str, warnings: list[Diagnostic]):
        self._data = data
        self._filename = filename
        self._warnings = warnings
        self._where: Callable[[], str] = _nowhere
        self._cursor = Cursor(data, 0, len(data), self._dropped_bits)

    def place(self, start: int, end: int) -> ByteSpan:
        return ByteSpan(self._filename, start, end, self._where())

    def _warn(self, code: str, message: str, start: int, end: int) -> None:
        self._warnings.append(Diagnostic(Severity.WARNING, code, message, self.place(start, end)))

    def _dropped_bits(self, start: int, end: int) -> None:
        self._warn(
            DROPPED_BITS,
            "a varint has more than 64 bits: the upper ones were dropped, as NVIDIA's tools do",
            start,
            end,
        )

    def _reading(self, what: str) -> None:
        self._where = lambda: what

    def module(self) -> ModuleOp:
        version = self._header()
        sections = self._sections()
        tables = self._tables(version, sections)
        module = ModuleOp.make(MODULE_NAME, self._producer(sections, tables))
        set_source(module, BytecodeSource(self._filename, 0, len(self._data), "module"))
        block = module.block
        if (cursor := sections.get(SectionId.GLOBAL)) is not None:
            self._reading("global section")
            block.add_ops(self._globals(cursor, tables))
        self._reading("debug section")
        debug = DebugTable(sections.get(SectionId.DEBUG), tables)
        self._reading("function section")
        cursor = sections[SectionId.FUNCTION]
        for _ in range(cursor.count("functions", 5)):
            block.add_op(self._function(cursor, tables, debug))
        return module

    def _header(self) -> Version:
        cursor = self._cursor
        if not is_bytecode(self._data):
            raise DecodeError(
                NOT_BYTECODE,
                f"expected Tile IR bytecode, which starts with {MAGIC.hex(' ')}, got "
                f"{self._data[:8].hex(' ') or 'an empty file'}",
                0,
                min(len(MAGIC), len(self._data)),
            )
        cursor.pos = len(MAGIC)
        version = (cursor.byte(), cursor.byte())
        if version not in BYTECODE_VERSIONS:
            known = (
                f"{format_version(BYTECODE_VERSIONS[0])} to {format_version(BYTECODE_VERSIONS[-1])}"
            )
            raise DecodeError(
                UNKNOWN_VERSION,
                f"expected bytecode of version {known}, got {format_version(version)}",
                8,
                10,
            )
        tag = cursor.u16()
        if tag:
            what = "preview content" if tag == 1 else f"content of an unknown kind, tag {tag:#06x}"
            raise DecodeError(
                PREVIEW,
                f"the file is marked to hold {what}, which is not supported",
                10,
                HEADER_SIZE,
            )
        return version

    def _sections(self) -> dict[SectionId, Cursor]:
        """Return the section payloads. Sections without an alignment rule may have any alignment."""
        cursor = self._cursor
        found: dict[SectionId, Cursor] = {}
        self._reading("section header")
        while True:
            start = cursor.pos
            first = cursor.byte()
            number = first & ~ALIGNED
            if number == SectionId.END:
                break
            if number not in _SECTION_NUMBERS:
                raise DecodeError(
                    BAD_SECTION, f"no section has the number {number}", start, cursor.pos
                )
            section = SectionId(number)
            rule = SECTIONS[section]
            if section in found:
                raise DecodeError(
                    BAD_SECTION, f"the {rule.name} section appears twice", start, cursor.pos
                )
            length = cursor.varint()
            self._skip_padding(cursor, start, bool(first & ALIGNED), section)
            if length > cursor.remaining:
                raise cursor.truncated(length)
            found[section] = cursor.sub(cursor.pos, cursor.pos + length)
            cursor.pos += length
        self._check_end(cursor, start, first, found)
        return found

    def _skip_padding(self, cursor: Cursor, start: int, aligned: bool, section: SectionId) -> None:
        rule = SECTIONS[section]
        alignment = cursor.varint() if aligned else 0
        if aligned and (not alignment or alignment & (alignment - 1)):
            raise DecodeError(
                BAD_SECTION,
                f"expected the alignment of the {rule.name} section to be a power of two, got "
                f"{alignment}",
                start,
                cursor.pos,
            )
        if rule.alignment and (not aligned or alignment % rule.alignment):
            raise DecodeError(
                BAD_SECTION,
                f"expected the alignment of the {rule.name} section to be a multiple of "
                f"{rule.alignment}, got {alignment or 'none'}",
                start,
                cursor.pos,
            )
        if aligned:
            cursor.align(alignment, 0)

    def _check_end(
        self, cursor: Cursor, start: int, first: int, found: dict[SectionId, Cursor]
    ) -> None:
        if first & ALIGNED:
            raise DecodeError(BAD_SECTION, "the end marker has an alignment", start, cursor.pos)
        if cursor.remaining:
            raise DecodeError(
                BAD_SECTION,
                f"{cursor.remaining} bytes follow the end marker",
                cursor.pos,
                cursor.end,
            )
        for section, rule in SECTIONS.items():
            if rule.required and section not in found:
                raise DecodeError(
                    BAD_SECTION, f"there is no {rule.name} section", start, cursor.pos
                )

    def _tables(self, version: Version, sections: dict[SectionId, Cursor]) -> Tables:
        self._reading("string section")
        strings = StringTable(sections[SectionId.STRING])
        self._reading("type section")
        types = TypeTable(sections.get(SectionId.TYPE), version)
        self._reading("constant section")
        constants = ConstantTable(sections.get(SectionId.CONSTANT))
        return Tables(version, strings, types, constants, self._warn)

    def _producer(self, sections: dict[SectionId, Cursor], tables: Tables) -> str | None:
        cursor = sections.get(SectionId.PRODUCER)
        if cursor is None:
            return None
        self._reading("producer section")
        return tables.strings.text(cursor) or None

    def _globals(self, cursor: Cursor, tables: Tables) -> list[Operation]:
        return [self._global(cursor, tables) for _ in range(cursor.count("globals", 4))]

    def _global(self, cursor: Cursor, tables: Tables) -> GlobalOp:
        start = cursor.pos
        name = tables.strings.symbol(cursor)
        what = f"global @{name.data}"
        self._reading(what)
        at = cursor.pos
        ty = tables.types.type(cursor)
        if not isinstance(ty, TileType) or ty.rank != 1:
            raise DecodeError(
                BAD_FUNCTION,
                f"expected a tile of rank 1 for a global, got {shown_type(ty)}",
                at,
                cursor.pos,
            )
        properties: dict[str, Attribute] = {
            "sym_name": name,
            "value": tables.constants.constant(cursor, ty),
            "alignment": integer(signed(cursor.varint(), 64), 64),
            "symbol_visibility": _PUBLIC,
        }
        if tables.version >= GLOBAL_FIELDS_SINCE:
            properties["symbol_visibility"] = read_enum(
                cursor, SymbolVisibilityAttr, tables.version
            )
            if cursor.varint():
                properties["constant"] = _UNIT
        found = GlobalOp.create(properties=properties)
        set_source(found, BytecodeSource(self._filename, start, cursor.pos, what))
        return found

    def _function(self, cursor: Cursor, tables: Tables, debug: DebugTable) -> EntryOp:
        start = cursor.pos
        name = tables.strings.symbol(cursor)
        what = f"function @{name.data}"
        self._reading(what)
        signature = _read_signature(cursor, tables)
        has_hints = _read_kernel_flags(cursor, tables.version)
        at = cursor.pos
        number = cursor.varint()
        first_location = debug.first_reference(number, at, cursor.pos) if number else None
        properties: dict[str, Attribute] = {"sym_name": name, "function_type": signature}
        if has_hints and (hints := _read_kernel_hints(cursor, tables)) is not None:
            properties["optimization_hints"] = hints
        if tables.version >= ARGUMENT_ATTRIBUTES_SINCE:
            found = _read_argument_attributes(cursor, tables, len(signature.inputs.data))
            if found is not None:
                properties["arg_attrs"] = found
        length = cursor.varint()
        if length > cursor.remaining:
            raise cursor.truncated(length)
        body = cursor.sub(cursor.pos, cursor.pos + length)
        cursor.pos += length
        location = UNKNOWN
        if first_location is not None:
            location = debug.location(first_location, at)
        reader = BodyReader(body, tables, debug, first_location, self._filename, name.data)
        self._where = reader.describe
        block = Block(arg_types=signature.inputs.data)
        reader.read_body(block)
        entry = EntryOp.create(
            properties=properties,
            regions=[Region(block)],
            location=location,  # pyright: ignore[reportArgumentType]
        )
        set_source(entry, BytecodeSource(self._filename, start, cursor.pos, what))
        self._reading("function section")
        return entry


_SECTION_NUMBERS = frozenset(section.value for section in SECTIONS)
_PUBLIC = SymbolVisibilityAttr(SymbolVisibility.PUBLIC)
_UNIT = UnitAttr()


def _read_signature(cursor: Cursor, tables: Tables) -> FunctionType:
    start = cursor.pos
    found = tables.types.type(cursor)
    if not isinstance(found, FunctionType) or found.outputs.data:
        raise DecodeError(
            BAD_FUNCTION,
            f"expected the type of a function without results, got {shown_type(found)}",
            start,
            cursor.pos,
        )
    return found


def _read_kernel_flags(cursor: Cursor, version: Version) -> bool:
    """Return whether hints follow. Rejects everything but public kernels."""
    start = cursor.pos
    flags = cursor.byte()
    always = version >= ARGUMENT_ATTRIBUTES_SINCE
    known = KERNEL if always else KERNEL | KERNEL_HINTS
    if not flags & KERNEL:
        raise DecodeError(
            PREVIEW,
            "the function is not a kernel; device functions are preview content, which is not "
            "supported",
            start,
            cursor.pos,
        )
    if flags & PRIVATE_KERNEL:
        raise DecodeError(
            BAD_FUNCTION, "the kernel is marked private; kernels are public", start, cursor.pos
        )
    if flags & ~known:
        raise DecodeError(
            BAD_FLAGS,
            f"expected the flags of a kernel to be within {known:#04x}, got {flags:#04x}",
            start,
            cursor.pos,
        )
    return always or bool(flags & KERNEL_HINTS)


def _read_kernel_hints(cursor: Cursor, tables: Tables) -> OptimizationHintsAttr | None:
    """Return the hints, or None if there are none; newer files do not distinguish these from empty ones."""
    start = cursor.pos
    found = read_tagged(cursor, tables)
    if not isinstance(found, OptimizationHintsAttr):
        raise DecodeError(
            BAD_ATTRIBUTE, f"expected optimization hints, got {found}", start, cursor.pos
        )
    return found if found.value.data else None


def _read_argument_attributes(cursor: Cursor, tables: Tables, parameters: int) -> ArrayAttr | None:
    """Return a dictionary for each parameter; a lone dictionary stands for a list of one."""
    start = cursor.pos
    found = read_tagged(cursor, tables)
    given = cast(ArrayAttr[Attribute], found).data if isinstance(found, ArrayAttr) else (found,)
    items = [item for item in given if isinstance(item, DictionaryAttr)]
    if len(items) != len(given):
        raise DecodeError(
            BAD_ATTRIBUTE,
            f"expected a dictionary for each parameter, got {found}",
            start,
            cursor.pos,
        )
    if not any(item.data for item in items):
        return None
    if len(items) != parameters:
        raise DecodeError(
            BAD_FUNCTION,
            f"expected attributes for {parameters} parameters, got them for {len(items)}",
            start,
            cursor.pos,
        )
    return ArrayAttr(items)
