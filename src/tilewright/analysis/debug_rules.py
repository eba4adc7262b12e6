"""Debug-info rules: a location with a scope belongs to the enclosing function."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from tilewright.analysis.reports import DiagnosticCollector
from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile.debug_info import (
    CALL_SITES,
    DISubprogramAttr,
    debug_location,
    subprogram_of,
)
from tilewright.dialects.cuda_tile.ops.module import FUNCTIONS, EntryOp, FuncOp, ModuleOp
from tilewright.dialects.declare import Related, attr

DEBUG_SCOPE = define_code(
    "debug-scope",
    "The debug info of an operation does not belong to its function.",
    "The location of a function has a di_subprogram as its scope, whose linkageName is the "
    "function's symbol. Scopes inside the function lead to that subprogram. A function without a "
    "scope has no operations with one; globals have none.",
)


def check_module_scopes(module: ModuleOp, collector: DiagnosticCollector) -> None:
    """Report debug info scopes on operations of a module that are not functions."""
    for region in module.regions:
        for block in region.blocks:
            for op in block.ops:
                if isinstance(op, FUNCTIONS):
                    check_function_scopes(op, collector)
                elif debug_location(op.location) is not None:
                    collector.error(
                        DEBUG_SCOPE,
                        f"'{op.name}' has debug info scope, but only functions may have one here",
                        op,
                    )


def check_function_scopes(function: EntryOp | FuncOp, collector: DiagnosticCollector) -> None:
    """Check that the scope of a function is its own, and that its operations' scopes lead to it."""
    location = debug_location(function.location)
    own: DISubprogramAttr | None = None
    if isinstance(function.location, CALL_SITES):
        collector.error(DEBUG_SCOPE, "Function location must not be a CallSiteLoc.", function)
        return
    if location is not None:
        if not isinstance(location.scope, DISubprogramAttr):
            collector.error(
                DEBUG_SCOPE,
                "Function location must have cuda_tile.di_subprogram debug info scope.",
                function,
            )
            return
        own = location.scope
        _check_name(function, own, collector)
    wrong = list(_foreign_scopes(function, own))
    if not wrong:
        return
    message = (
        "Operation debug info scope does not match function debug info scope"
        if own is not None
        else "Operation has debug info scope, but function debug info scope is undefined."
    )
    notes = [Related("the function is here", function, attr("sym_name"))]
    if len(wrong) > 1:
        notes.append(
            Related(f"the same holds for {len(wrong) - 1} more, up to this one", wrong[-1])
        )
    collector.error(DEBUG_SCOPE, message, wrong[0], notes=notes)


def _check_name(
    function: EntryOp | FuncOp, scope: DISubprogramAttr, collector: DiagnosticCollector
) -> None:
    name = function.properties.get("sym_name")
    if isinstance(name, StringAttr) and name.data != scope.linkage_name.data:
        collector.error(
            DEBUG_SCOPE,
            f'Function name "{name.data}" does not match subprogram scope linkage name '
            f'"{scope.linkage_name.data}".',
            function,
            attr("sym_name"),
        )


def _foreign_scopes(function: Operation, own: DISubprogramAttr | None) -> Iterator[Operation]:
    """Yield the operations inside a function whose scope does not lead to ``own``."""
    fits: dict[int, bool] = {}
    stack = [iter(block.ops) for region in function.regions for block in region.blocks]
    while stack:
        op = next(stack[-1], None)
        if op is None:
            stack.pop()
            continue
        location = op.location
        known = fits.get(id(location))
        if known is None:
            found = debug_location(location)
            known = found is None or (own is not None and subprogram_of(found.scope) == own)
            fits[id(location)] = known
        if not known:
            yield op
        stack += [iter(block.ops) for region in op.regions for block in region.blocks]
