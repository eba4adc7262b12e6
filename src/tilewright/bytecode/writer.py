"""Writing bytecode: the envelope, the globals and the headers of the kernels."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, Operation

from tilewright.bytecode.body_writer import BodyWriter
from tilewright.bytecode.debug import DebugWriter
from tilewright.bytecode.encoding import ByteWriter
from tilewright.bytecode.format import (
    ALIGNED,
    ARGUMENT_ATTRIBUTES_SINCE,
    GLOBAL_FIELDS_SINCE,
    INVALID_IR,
    KERNEL,
    KERNEL_HINTS,
    LOSSY_ATTRIBUTE,
    MAGIC,
    NOT_STORABLE,
    PRODUCER_SINCE,
    SECTIONS,
    SectionId,
)
from tilewright.bytecode.output import Output
from tilewright.bytecode.tables import constant_entry
from tilewright.bytecode.tagged import write_tagged
from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.attributes import OptimizationHintsAttr
from tilewright.dialects.cuda_tile.constants import TileConstantAttr
from tilewright.dialects.cuda_tile.ops.module import EntryOp, GlobalOp, ModuleOp, symbol_name
from tilewright.dialects.source_map import location_of
from tilewright.dialects.versions import BYTECODE_VERSIONS, LATEST, Version
from tilewright.garbage import rare_collections
from tilewright.nesting import deep_recursion

_NO_ARGUMENT_ATTRIBUTES = ArrayAttr(())
_NO_HINTS = OptimizationHintsAttr(DictionaryAttr({}))


@rare_collections
@deep_recursion()
def write(module: Operation, version: Version = LATEST) -> bytes:
    """Encode a ``cuda_tile.module``, or a builtin module around exactly one.

    ``version`` is ``(13, 5)`` or an older one. Does not verify. Raises TileIRError with everything that the version,
    or bytecode in general, cannot express; fields that are too new but have their default value are omitted. The
    module's name is not stored, and below 13.3 neither is its producer. Output is deterministic. Raises ValueError
    for a version that does not exist.
    """
    if version not in BYTECODE_VERSIONS:
        raise ValueError(f"unknown bytecode version {version}")
    writer = _FileWriter(Output(version))
    return writer.file(_tile_module(module))


def _tile_module(module: Operation) -> ModuleOp:
    if isinstance(module, ModuleOp):
        return module
    found = list(module.body.ops) if isinstance(module, BuiltinModuleOp) else [module]
    if len(found) != 1 or not isinstance(found[0], ModuleOp):
        names = ", ".join(op.name for op in found) or "nothing"
        raise TileIRError.single(
            INVALID_IR, f"expected one cuda_tile.module to write, got {names}", location_of(module)
        )
    return found[0]


class _FileWriter:
    """Writes one file."""

    def __init__(self, out: Output):
        self._out = out
        self._debug = DebugWriter(out)

    def file(self, module: ModuleOp) -> bytes:
        out = self._out
        self._check_attributes(module)
        global_section, function_section = ByteWriter(), ByteWriter()
        globals_ = [op for op in module.block.ops if isinstance(op, GlobalOp)]
        entries = [op for op in module.block.ops if isinstance(op, EntryOp)]
        self._refuse_others(module)
        global_section.varint(len(globals_))
        for op in globals_:
            self._global(global_section, op)
        function_section.varint(len(entries))
        for op in entries:
            self._function(function_section, op)
        function_section.align(SECTIONS[SectionId.FUNCTION].alignment)
        sections: list[tuple[SectionId, ByteWriter]] = []
        if globals_:
            sections.append((SectionId.GLOBAL, global_section))
        sections.append((SectionId.FUNCTION, function_section))
        sections += self._pools(module)
        out.collector.raise_if_errors()
        return self._assemble(sections)

    def _pools(self, module: ModuleOp) -> list[tuple[SectionId, ByteWriter]]:
        """Return the sections that are written after everything that refers to them."""
        out = self._out
        found: list[tuple[SectionId, ByteWriter]] = []
        if len(out.constants):
            found.append((SectionId.CONSTANT, buffer := ByteWriter()))
            out.constants.write(buffer, 8)
        debug = ByteWriter()
        if self._debug.write(debug):
            found.append((SectionId.DEBUG, debug))
        if len(out.types):
            found.append((SectionId.TYPE, buffer := ByteWriter()))
            out.types.write(buffer)
        if module.producer_name is not None and out.version >= PRODUCER_SINCE:
            found.append((SectionId.PRODUCER, buffer := ByteWriter()))
            buffer.varint(out.string(module.producer_name))
        found.append((SectionId.STRING, buffer := ByteWriter()))
        out.strings.write(buffer, 4)
        return found

    def _assemble(self, sections: list[tuple[SectionId, ByteWriter]]) -> bytes:
        file = ByteWriter()
        file.raw(MAGIC)
        for number in self._out.version:
            file.byte(number)
        file.u16(0)
        for section, payload in sections:
            alignment = SECTIONS[section].alignment
            file.byte(section | (ALIGNED if alignment else 0))
            file.varint(len(payload))
            if alignment:
                file.varint(alignment)
                file.align(alignment)
            file.raw(payload.buffer)
        file.byte(SectionId.END)
        return bytes(file.buffer)

    def _check_attributes(self, op: ModuleOp | EntryOp | GlobalOp) -> None:
        """Set the output's location to an operation, and report attributes that are not fields."""
        self._out.at(op)
        known = op.get_irdl_definition().properties
        for name in (*op.attributes, *(key for key in op.properties if key not in known)):
            self._out.problem(
                LOSSY_ATTRIBUTE,
                f"attribute '{name}' of {op.mnemonic()} is none of its fields: bytecode cannot "
                f"hold it",
            )

    def _refuse_others(self, module: ModuleOp) -> None:
        for op in module.block.ops:
            if not isinstance(op, GlobalOp | EntryOp):
                self._out.at(op)
                self._out.problem(
                    NOT_STORABLE, f"bytecode has no form for the operation {op.name} in a module"
                )

    def _symbol(self, op: EntryOp | GlobalOp) -> int:
        name = symbol_name(op)
        try:
            encoded = name.encode("utf-8")
        except UnicodeEncodeError:
            encoded = b""
        if not encoded:
            self._out.problem(
                INVALID_IR, f"expected a symbol name in UTF-8 for {op.mnemonic()}, got {name!r}"
            )
        return self._out.strings.index(encoded)

    def _global(self, buffer: ByteWriter, op: GlobalOp) -> None:
        self._check_attributes(op)
        out = self._out
        value = op.properties.get("value")
        if not isinstance(value, TileConstantAttr):
            out.problem(INVALID_IR, f"global @{op.symbol} has no value")
            return
        if value.type.rank != 1:
            out.problem(INVALID_IR, f"expected global @{op.symbol} to have rank 1")
        buffer.varint(self._symbol(op))
        buffer.varint(out.types.index(value.type))
        buffer.varint(out.constants.index(constant_entry(value)))
        buffer.varint(op.alignment_value & (2**64 - 1))
        if out.version >= GLOBAL_FIELDS_SINCE:
            buffer.varint(int(op.is_private))
            buffer.varint(int(op.is_constant))
            return
        for name, is_set in (("private", op.is_private), ("constant", op.is_constant)):
            if is_set:
                out.needs(f"'{name}' of global @{op.symbol}", GLOBAL_FIELDS_SINCE)

    def _function(self, buffer: ByteWriter, op: EntryOp) -> None:
        self._check_attributes(op)
        out = self._out
        if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
            out.problem(INVALID_IR, f"expected kernel @{op.symbol} to have one block")
            return
        signature = op.function_type_value
        if signature.outputs.data:
            out.problem(INVALID_IR, f"kernel @{op.symbol} has results")
        if [argument.type for argument in op.block.args] != list(signature.inputs.data):
            out.problem(
                INVALID_IR,
                f"the block arguments of kernel @{op.symbol} have other types than its signature",
            )
        buffer.varint(self._symbol(op))
        for index, parameter in enumerate(signature.inputs.data):
            out.part = ("type", "argument", index)
            out.types.index(parameter)
        out.part = None
        buffer.varint(out.types.index(signature))
        header = ByteWriter()
        flags = self._hints_and_attributes(header, op)
        location = self._debug.location(op.location)
        body = BodyWriter(out, self._debug)
        body.write_body(op.block)
        buffer.byte(flags)
        buffer.varint(self._debug.add_function([location, *body.locations]))
        buffer.raw(header.buffer)
        buffer.varint(len(body.buffer))
        buffer.raw(body.buffer.buffer)

    def _hints_and_attributes(self, header: ByteWriter, op: EntryOp) -> int:
        """Append what is between a kernel's debug number and its body. Returns its flags."""
        out = self._out
        hints = op.hints or _NO_HINTS
        flags = KERNEL
        attributes = op.properties.get("arg_attrs")
        has_attributes = _has_entries(attributes)
        if _has_entries(op.properties.get("res_attrs")):
            out.problem(NOT_STORABLE, f"kernel @{op.symbol} has attributes of results")
        if out.version >= ARGUMENT_ATTRIBUTES_SINCE:
            write_tagged(out, header, hints)
            write_tagged(
                out,
                header,
                attributes if attributes and has_attributes else _NO_ARGUMENT_ATTRIBUTES,
            )
            return flags
        if has_attributes:
            out.needs(f"argument attributes of kernel @{op.symbol}", ARGUMENT_ATTRIBUTES_SINCE)
        if hints.value.data:
            flags |= KERNEL_HINTS
            write_tagged(out, header, hints)
        return flags


def _has_entries(attributes: object) -> bool:
    """Whether an array of dictionaries has any entry."""
    return isinstance(attributes, ArrayAttr) and any(
        not isinstance(item, DictionaryAttr) or item.data
        for item in cast(ArrayAttr[Attribute], attributes).data
    )
