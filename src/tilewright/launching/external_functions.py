"""Code that a module of ``nv_tileaa`` calls but does not hold: who calls it, and by which name."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from tilewright.dialects.nv_tileaa.ops import functions, pointers
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.symbols import reference, symbols_around

#: The property that holds or names the code of an operation.
_NAMES: dict[type[Operation], tuple[str, ...]] = {
    pointers.ExternElementwiseOp: ("symbol",),
    pointers.ElementwiseInlineAsmOp: ("asm_string",),
    pointers.CallElementwiseIntrinsicOp: ("intrinsic",),
    functions.InjectIROp: ("sym_name", "code"),
    functions.LaunchFuncOp: ("kernel",),
    functions.PluginOp: ("symbol", "code"),
    functions.ExecuteOp: ("symbol",),
}
FOREIGN = tuple(_NAMES)
"""Operations that may run such code."""


def plugin_name(op: Operation) -> str:
    """The name under which a function is given for what an operation runs."""
    key = next(name for name in _NAMES[type(op)] if name in op.properties)
    found = op.properties[key]
    return found.data if isinstance(found, StringAttr) else reference(op, key)


def function_named(op: Operation) -> FuncOp | None:
    """The function of the module that an operation names by its symbol."""
    if "symbol" not in op.properties or not isinstance(
        op, functions.PluginOp | functions.ExecuteOp
    ):
        return None
    target = (symbols_around(op) or {}).get(reference(op, "symbol"))
    return target if isinstance(target, FuncOp) else None


def missing_plugin(op: Operation) -> str:
    """Why an operation cannot be run for which no function was given."""
    name = plugin_name(op)
    return (
        f"'{op.name}' runs '{name}', which the machine does not have: give a function on NumPy "
        f"arrays for it, with plugins={{{name!r}: ...}}"
    )
