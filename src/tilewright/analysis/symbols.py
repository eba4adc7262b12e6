"""Symbols: unique names in a module, and references to globals."""

from __future__ import annotations

from difflib import get_close_matches

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Operation
from xdsl.traits import SymbolTable

from tilewright.analysis.reports import DiagnosticCollector
from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.ops.core import GLOBAL_TYPE, UNKNOWN_SYMBOL, GetGlobalOp
from tilewright.dialects.cuda_tile.ops.module import GlobalOp
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.declare import Related, attr, type_of
from tilewright.dialects.syntax.directives import format_symbol

DUPLICATE_SYMBOL = define_code(
    "duplicate-symbol",
    "Two operations of a module have the same symbol.",
    "Entries and globals share one namespace.",
)

_Table = dict[str, Operation]


class SymbolTables:
    """The symbol tables of operations, built on first use."""

    def __init__(self) -> None:
        self._tables: dict[int, _Table] = {}

    def enclosing(self, op: Operation) -> _Table:
        """Return the symbols visible at an operation, by name: those of the nearest symbol table, read once.

        Of equal names the first counts. Empty outside of any symbol table.
        """
        current = op.parent_op()
        while current is not None and not current.has_trait(SymbolTable):
            current = current.parent_op()
        if current is None:
            return {}
        if (known := self._tables.get(id(current))) is None:
            known = self._tables[id(current)] = {}
            for name, inner in _symbols(current):
                known.setdefault(name, inner)
        return known


def _symbols(table: Operation) -> list[tuple[str, Operation]]:
    found: list[tuple[str, Operation]] = []
    for region in table.regions:
        for block in region.blocks:
            for op in block.ops:
                name = op.get_attr_or_prop("sym_name")
                if isinstance(name, StringAttr) and name.data:
                    found.append((name.data, op))
    return found


def check_unique(table: Operation, collector: DiagnosticCollector) -> None:
    """Report duplicate names among the symbols directly in ``table``."""
    first: _Table = {}
    for name, op in _symbols(table):
        if (earlier := first.setdefault(name, op)) is not op:
            collector.error(
                DUPLICATE_SYMBOL,
                f"redefinition of symbol named '{name}'",
                op,
                attr("sym_name"),
                notes=[Related("the first definition is here", earlier, attr("sym_name"))],
            )


def check_get_global(op: GetGlobalOp, tables: SymbolTables, collector: DiagnosticCollector) -> None:
    """Check that the symbol names a global, and that the result points to its element type."""
    reference = op.properties["name"]
    assert isinstance(reference, SymbolRefAttr)
    path = [reference.root_reference.data, *(n.data for n in reference.nested_references)]
    shown = "::".join(format_symbol(part).removeprefix("@") for part in path)
    symbols = tables.enclosing(op)
    target = symbols.get(path[0]) if len(path) == 1 else None
    if not isinstance(target, GlobalOp):
        names = [name for name, found in symbols.items() if isinstance(found, GlobalOp)]
        near = get_close_matches(path[0], names, n=1)
        found = f", but '{target.name}'" if target is not None else ""
        collector.error(
            UNKNOWN_SYMBOL,
            f"'{shown}' does not reference a valid global{found}",
            op,
            attr("name"),
            notes=[Related("the symbol is defined here", target)] if target is not None else (),
            help=f"did you mean {format_symbol(near[0])}?" if near else "",
        )
        return
    _check_pointee(op, target, shown, collector)


def _check_pointee(
    op: GetGlobalOp, target: GlobalOp, shown: str, collector: DiagnosticCollector
) -> None:
    result, value = op.result.type, target.properties.get("value")
    pointer = result.element_type if isinstance(result, T.TileType) else None
    held = getattr(value, "type", None)
    if not isinstance(pointer, T.PtrType) or not isinstance(held, T.TileType):
        return
    if pointer.pointee != held.element_type:
        collector.error(
            GLOBAL_TYPE,
            f"pointee type of result type '{format_type(pointer)}' does not match type "
            f"'{format_type(held.element_type)}' of the global @{shown}",
            op,
            type_of("result"),
            notes=[Related("the global is defined here", target)],
        )
