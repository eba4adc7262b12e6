"""Reads a module from text: what may be at file level, and the module wrapped around it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects import builtin
from xdsl.ir import Block, Operation

from tilewright.diagnostics import ByteSpan, Diagnostic, SourceFile, Span, TileIRError, define_code
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.dialects.source_map import TextSource, set_source, source_of
from tilewright.garbage import rare_collections
from tilewright.text.operations import make_context
from tilewright.text.parser import TileParser

INVALID_UTF8 = define_code("invalid-utf8", "A text file is not valid UTF-8.")
BARE_OPERATION = define_code(
    "bare-operation",
    "A kernel or global is outside of any module.",
    "Put it into `cuda_tile.module @NAME { ... }`, or allow an implicit module.",
)
NO_MODULE = define_code("no-module", "The text contains no module.")

Module = ModuleOp | builtin.ModuleOp

IMPLICIT_NAME = "kernels"
_PRODUCER = re.compile(r"\A// Producer: ([^\n]*)")


@rare_collections
def parse(
    text: str | bytes,
    filename: str = "<string>",
    *,
    implicit_module: bool = True,
    allow_unregistered: bool = False,
) -> Module:
    """Parse a text into a module.

    Returns the ``cuda_tile.module`` if there is exactly one: written out, alone in a builtin module
    without name and attributes, or implicit around kernels and globals at file level. An implicit module
    is named ``kernels`` and takes its producer from a first line ``// Producer: NAME``. Otherwise returns
    the builtin module around everything. ``implicit_module=False`` rejects bare kernels.
    ``allow_unregistered`` accepts unknown operations in generic form, and attributes of unknown dialects.

    In a text that mentions ``nv_tileaa``, operations of ``arith`` and ``math`` are those of
    ``tilewright.dialects.arith``, and tiles without a prefix are its tiles.

    Operations carry their location (:func:`tilewright.dialects.source_map.location_of`). Only the grammar
    is checked; call the verifier for everything else. Raises :class:`TileIRError` with every error, in
    source order.
    """
    content = _decode(text, filename)
    file = SourceFile(filename, content)
    parser = _parser(file, allow_unregistered)
    operations = parser.parse_file()
    if parser.errors:
        raise TileIRError(sorted(parser.errors, key=_order), partial=operations)
    return _wrap(operations, file, implicit_module)


def _parser(file: SourceFile, allow_unregistered: bool) -> TileParser:
    """Return a parser for the level of a text, ``nv_tileaa`` if that word occurs in it."""
    if "nv_tileaa" not in file.text:
        return TileParser(make_context(allow_unregistered), file)
    from tilewright.dialects.nv_tileaa.type_syntax import TYPE_SYNTAX

    return TileParser(make_context(allow_unregistered, tileaa=True), file, TYPE_SYNTAX)


def _order(diagnostic: Diagnostic) -> int:
    return diagnostic.location.start if isinstance(diagnostic.location, Span) else 0


def _decode(text: str | bytes, filename: str) -> str:
    data = text
    if isinstance(text, str):
        if text.isascii():
            return text
        # Lone surrogates are invalid, too; their position is also given in bytes.
        data = text.encode("utf-8", "surrogatepass")
    assert isinstance(data, bytes | bytearray | memoryview)
    try:
        decoded = bytes(data).decode("utf-8")
    except UnicodeDecodeError as error:
        place = ByteSpan(filename, error.start, error.end, "text")
        raise TileIRError.single(
            INVALID_UTF8, f"invalid UTF-8 at byte {error.start}: {error.reason}", place
        ) from error
    return decoded.removeprefix("\ufeff")


def _wrap(operations: list[Operation], file: SourceFile, implicit_module: bool) -> Module:
    bare = [op for op in operations if isinstance(op, TileOp) and not isinstance(op, ModuleOp)]
    others = [op for op in operations if op not in bare]
    if not implicit_module and (bare or not operations):
        _refuse(bare, file)
    if bare or not operations:
        implicit = ModuleOp.make(IMPLICIT_NAME, _producer(file.text))
        set_source(implicit, TextSource(file, 0, 0))
        implicit.block.add_ops(bare)
        others.append(implicit)
    if len(others) == 1:
        return _only_module(others[0])
    return builtin.ModuleOp(others)


def _refuse(bare: Sequence[Operation], file: SourceFile) -> None:
    if not bare:
        end = len(file.text)
        raise TileIRError.single(NO_MODULE, "expected a module", Span(file, end, end))
    first = bare[0]
    source = source_of(first)
    raise TileIRError.single(
        BARE_OPERATION,
        f"'{first.name}' stands outside of any module",
        None if source is None else source.location(),
        help="put it into `cuda_tile.module @NAME { ... }`",
    )


def _producer(text: str) -> str | None:
    match = _PRODUCER.match(text)
    return match[1] if match else None


def _only_module(op: Operation) -> Module:
    if isinstance(op, ModuleOp):
        return op
    if not isinstance(op, builtin.ModuleOp):
        return builtin.ModuleOp([op])
    if not op.body.blocks:
        # Generic form can express a body without blocks; everything else relies on the single block.
        op.body.add_block(Block())
    inner = list(op.ops)
    if (
        len(inner) == 1
        and isinstance(inner[0], ModuleOp)
        and not op.attributes
        and not op.properties
    ):
        inner[0].detach()
        return inner[0]
    return op
