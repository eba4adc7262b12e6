"""The pass ``synthesize-debug-info-scopes``: gives functions without debug info a scope."""

from __future__ import annotations

from dataclasses import dataclass
from posixpath import split as split_path
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NameLoc,
    StringAttr,
)
from xdsl.ir import Attribute, Operation

from tilewright.dialects.cuda_tile.debug_info import (
    CallSiteAttr,
    DICompileUnitAttr,
    DIFileAttr,
    DILocAttr,
    DISubprogramAttr,
    debug_location,
    source_position,
)
from tilewright.dialects.cuda_tile.ops.module import Function, ModuleOp
from tilewright.dialects.source_map import TextSource, source_of
from tilewright.passes.base import TilePass, functions

UNKNOWN_FILE = "<unknown>"

#: File name as written, 1-based line, 1-based column; 0 where unknown.
Position = tuple[str, int, int]


@dataclass(frozen=True)
class SynthesizeDebugInfoScopes(TilePass):
    """Gives each function without debug info a subprogram, and its operations places in it.

    The compile unit is the file of the module's location, or ``<unknown>``; the subprogram has
    the function's symbol as name and linkage name and the line of its location, or 1. Locations
    come from ``loc(...)`` or else from where the text was read; an operation with neither gets
    line 0. Functions that have debug info are left alone. Cost: linear.
    """

    name: ClassVar[str] = "synthesize-debug-info-scopes"

    def rewrite(self, root: Operation) -> None:
        for function in functions(root):
            if debug_location(function.location) is None:
                _add_scope(function)


def _add_scope(function: Function) -> None:
    module = function.parent_op()
    known = position_of(module) if isinstance(module, ModuleOp) else None
    file_name = known[0] if known is not None else UNKNOWN_FILE
    directory, base = split_path(file_name)
    file = DIFileAttr(base, directory)
    own = position_of(function)
    line = own[1] if own is not None and own[1] > 0 else 1
    scope = DISubprogramAttr.make(
        file, line, function.symbol, function.symbol, DICompileUnitAttr(file)
    )
    wrapped = DILocAttr(_file_location(own or (file_name, line, 0)), scope)
    _set_location(function, wrapped)
    for op in function.walk():
        if op is not function:
            fallback = position_of(op) or (file_name, 0, 0)
            _set_location(op, _in_scope(op.location, scope, fallback))


def _set_location(op: Operation, location: Attribute) -> None:
    # xDSL types the field for its own locations; ours are attributes of the dialect.
    op.location = location  # pyright: ignore[reportAttributeAccessIssue]


def position_of(op: Operation) -> Position | None:
    """Where an operation comes from: its location, or else the text that it was read from."""
    found = source_position(op.location)
    if found is not None:
        return found
    source = source_of(op)
    if isinstance(source, TextSource):
        line, column = source.file.position(source.start)
        return source.file.name, line, column
    return None


def _file_location(position: Position) -> FileLineColLoc:
    name, line, column = position
    return FileLineColLoc(StringAttr(name), IntAttr(line), IntAttr(column))


def _in_scope(location: Attribute, scope: DISubprogramAttr, fallback: Position) -> Attribute:
    """The location with every source position put into the scope; call sites stay call sites."""
    if isinstance(location, CallSiteAttr | CallSiteLoc):
        return CallSiteAttr(
            _in_scope(location.callee, scope, fallback), _in_scope(location.caller, scope, fallback)
        )
    if isinstance(location, NameLoc):
        return _in_scope(location.location, scope, fallback)
    if isinstance(location, FusedLoc):
        parts = location.locations
        assert isinstance(parts, ArrayAttr)
        known = [part for part in parts.data if source_position(part) is not None]
        return _in_scope(known[0], scope, fallback) if known else _plain(None, scope, fallback)
    return _plain(source_position(location), scope, fallback)


def _plain(position: Position | None, scope: DISubprogramAttr, fallback: Position) -> DILocAttr:
    return DILocAttr(_file_location(position or fallback), scope)
