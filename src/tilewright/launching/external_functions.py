"""External code that a module of ``nv_tileaa`` calls: the calling operations, and the names of the code."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from tilewright.dialects.nv_tileaa.ops import functions, pointers
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.symbols import reference, symbols_around

#: The properties that may hold or name the code of an operation.
_NAMES: dict[type[Operation], tuple[str, ...]] = {
    pointers.ExternElementwiseOp: ("symbol",),
    pointers.ElementwiseInlineAsmOp: ("asm_string",),
    pointers.CallElementwiseIntrinsicOp: ("intrinsic",),
    functions.InjectIROp: ("sym_name", "code"),
    functions.LaunchFuncOp: ("kernel",),
    functions.PluginOp: ("symbol", "code"),
    functions.ExecuteOp: ("symbol",),
}
EXTERNAL = tuple(_NAMES)
"""Operations that may run external code."""


def plugin_name(op: Operation) -> str:
    """The name by which a caller supplies a plugin for an operation."""
    key = next(name for name in _NAMES[type(op)] if name in op.properties)
    found = op.properties[key]
    return found.data if isinstance(found, StringAttr) else reference(op, key)


def function_named(op: Operation) -> FuncOp | None:
    """The function of the module that an operation references by its symbol; None for other operations."""
    if "symbol" not in op.properties or not isinstance(
        op, functions.PluginOp | functions.ExecuteOp
    ):
        return None
    target = (symbols_around(op) or {}).get(reference(op, "symbol"))
    return target if isinstance(target, FuncOp) else None


def missing_plugin(op: Operation) -> str:
    """The message for an operation without a plugin."""
    name = plugin_name(op)
    return (
        f"'{op.name}' runs '{name}', which the machine does not have: give a function on NumPy "
        f"arrays for it, with plugins={{{name!r}: ...}}"
    )
