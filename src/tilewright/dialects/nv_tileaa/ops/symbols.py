"""What symbols refer to: found in the nearest operation around that holds symbols."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from math import prod

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Operation
from xdsl.traits import SymbolTable

from tilewright.dialects.cuda_tile.types import DYNAMIC
from tilewright.dialects.declare import Related, Report, attr, type_of
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp, ancestors
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.dialects.syntax.directives import format_symbol


def symbols_around(op: Operation) -> dict[str, Operation] | None:
    """The symbols visible at an operation; None where nothing around it holds symbols."""
    table = next((a for a in ancestors(op) if a.has_trait(SymbolTable)), None)
    if table is None:
        return None
    found: dict[str, Operation] = {}
    for region in table.regions:
        for block in region.blocks:
            for inner in block.ops:
                name = inner.get_attr_or_prop("sym_name")
                if isinstance(name, StringAttr):
                    found.setdefault(name.data, inner)
    return found


def reference(op: Operation, name: str) -> str:
    """The name that a property refers to, with its nesting."""
    found = op.properties[name]
    assert isinstance(found, SymbolRefAttr)
    return "::".join([found.root_reference.data, *(n.data for n in found.nested_references)])


def find_target(
    op: TileAAOp, report: Report, name: str, kinds: Collection[str], what: str
) -> Operation | None:
    """The operation that a property refers to; reports and gives None where it is of no kind of
    ``kinds``. Nothing is said about an operation that stands in no module yet."""
    symbols = symbols_around(op)
    if symbols is None:
        return None
    wanted = reference(op, name)
    target = symbols.get(wanted)
    if target is not None and target.name in kinds:
        return target
    names = [n for n, found in symbols.items() if found.name in kinds]
    near = get_close_matches(wanted, names, n=1)
    found = f", but '{target.name}'" if target is not None else ""
    report.error(
        codes.SYMBOL,
        f"'{wanted}' does not reference {what} in the module{found}",
        attr(name),
        notes=(Related("the symbol is defined here", target),) if target is not None else (),
        help=f"did you mean {format_symbol(near[0])}?" if near else "",
    )
    return None


def check_global_reference(op: TileAAOp, report: Report) -> None:
    """The result of get_global is the memory of the global that it names."""
    target = find_target(op, report, "symbol", {"nv_tileaa.global"}, "a global")
    held = target.properties.get("type") if target is not None else None
    if target is None or not isinstance(held, T.MemrefType):
        return
    result = op.results[0].type
    problem, code = "", codes.POINTEE
    space = getattr(result, "space", held.space)
    if space != held.space:
        problem = f"address space {held.space} of the global, got {space}"
        code = codes.ADDRESS_SPACE
    elif isinstance(result, T.PtrType):
        if result.pointee != held.element_type:
            problem = (
                f"a pointer to '{format_type(held.element_type)}', got '{format_type(result)}'"
            )
    elif isinstance(result, T.MemrefType):
        same_extents = DYNAMIC in result.dims or prod(result.dims) == prod(held.dims)
        if result.element_type != held.element_type or not same_extents:
            problem = f"the global's type '{format_type(held)}', got '{format_type(result)}'"
    if problem:
        report.error(
            code,
            f"expected {problem}",
            type_of("result"),
            notes=(Related("the global is defined here", target),),
        )
