"""The pass ``synthesize-debug-info-scopes``: gives functions without debug info a scope."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from posixpath import split as split_path
from typing import ClassVar

from xdsl.ir import Attribute, Operation

from tilewright.dialects.cuda_tile.debug_info import (
    CALL_SITES,
    FUSED,
    NAMED,
    CallSiteAttr,
    DICompileUnitAttr,
    DIFileAttr,
    DILocAttr,
    DISubprogramAttr,
    debug_location,
    file_position,
    fused_parts,
    source_position,
)
from tilewright.dialects.cuda_tile.ops.module import Function, ModuleOp
from tilewright.dialects.source_map import TextSource, source_of
from tilewright.passes.base import TilePass, functions

UNKNOWN_FILE = "<unknown>"

#: File name as written, 1-based line, 1-based column; 0 if unknown.
Position = tuple[str, int, int]


@dataclass(frozen=True)
class SynthesizeDebugInfoScopes(TilePass):
    """Gives each function without debug info a subprogram, and its operations locations in it.

    The compile unit is the file of the module's location, or ``<unknown>``. The subprogram takes its
    name and linkage name from the function's symbol, and file and line from the function's own
    location; if that is unknown, the compile unit's file and line 1. Locations come from
    ``loc(...)``, else from the text that was read; an operation with neither gets line 0. Functions
    that already have debug info are left alone. Cost: linear.
    """

    name: ClassVar[str] = "synthesize-debug-info-scopes"

    def rewrite(self, root: Operation) -> None:
        for function in functions(root):
            if debug_location(function.location) is None:
                _add_scope(function)


def _add_scope(function: Function) -> None:
    module = function.parent_op()
    known = position_of(module) if isinstance(module, ModuleOp) else None
    unit = DICompileUnitAttr(_file(UNKNOWN_FILE if known is None else known[0]))
    own = position_of(function)
    if own is None:
        own = (UNKNOWN_FILE if known is None else known[0], 0, 0)
    # A module may hold functions from several files, so each uses the file of its own location.
    file_name, line, _ = own
    scope = DISubprogramAttr.make(
        _file(file_name), max(line, 1), function.symbol, function.symbol, unit
    )
    position = own if line > 0 else (file_name, 1, 0)
    _set_location(function, DILocAttr(file_position(*position), scope))
    for op in function.walk():
        if op is not function:
            fallback = position_of(op) or (file_name, 0, 0)
            _set_location(op, _in_scope(op.location, scope, fallback))


def _file(path: str) -> DIFileAttr:
    directory, base = split_path(path)
    return DIFileAttr(base, directory)


def _set_location(op: Operation, location: Attribute) -> None:
    # xDSL types the field for its own locations; ours are attributes of the dialect.
    op.location = location  # pyright: ignore[reportAttributeAccessIssue]


def position_of(op: Operation) -> Position | None:
    """Return the source position of an operation: its location, else where its text was read, else None."""
    found = source_position(op.location)
    if found is not None:
        return found
    source = source_of(op)
    if isinstance(source, TextSource):
        line, column = source.file.position(source.start)
        return source.file.name, line, column
    return None


def _in_scope(location: Attribute, scope: DISubprogramAttr, fallback: Position) -> Attribute:
    """Return the location with every source position in ``scope``. Call sites stay call sites.

    Call sites may be nested to any depth and share parts, so each is rewritten only once.
    """
    done: dict[int, Attribute] = {}
    stack = [location]
    while stack:
        top = stack[-1]
        parts = _parts(top)
        if missing := [part for part in parts if id(part) not in done]:
            stack += missing
            continue
        stack.pop()
        if isinstance(top, CALL_SITES):
            done[id(top)] = CallSiteAttr(*(done[id(part)] for part in parts))
        elif parts:
            done[id(top)] = done[id(parts[0])]
        else:
            done[id(top)] = _plain(source_position(top), scope, fallback)
    return done[id(location)]


def _parts(location: Attribute) -> tuple[Attribute, ...]:
    """Return the locations a location is made of; of a fused one, the first with a position."""
    if isinstance(location, CALL_SITES):
        return (location.callee, location.caller)
    if isinstance(location, NAMED):
        return (location.location,)
    if isinstance(location, FUSED):
        known = (part for part in fused_parts(location) if source_position(part) is not None)
        return tuple(islice(known, 1))
    return ()


def _plain(position: Position | None, scope: DISubprogramAttr, fallback: Position) -> DILocAttr:
    return DILocAttr(file_position(*(position or fallback)), scope)
