"""Which operations work element by element, so that one layout holds for all of their tiles."""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.dialects.nv_tileaa import types as T

_ELEMENTWISE = frozenset(
    f"nv_tileaa.{name}"
    for name in (
        *("addf", "subf", "mulf", "divf", "fma", "sqrt", "rsqrt", "exp2", "clampf", "mulhiui"),
        *("addptr", "int_to_ptr", "ptr_to_int", "fp_to_fp", "assume"),
    )
)


def is_elementwise(op: Operation) -> bool:
    """Whether each element of the results comes from those at its place, so that one layout holds
    for all of the operation's tiles."""
    name = op.name
    if name == "nv_tileaa.bitcast":
        given, wanted = (T.dims_of(value.type) for value in (op.operands[0], op.results[0]))
        return given == wanted
    if name in _ELEMENTWISE:
        return True
    return name.startswith(("arith.", "math.")) and name != "arith.constant"


def has_mixed_layouts(op: Operation) -> bool:
    """Whether the tiles of an operation on elements have different layouts, or only some have one."""
    found = [
        value.type.layout
        for value in (*op.operands, *op.results)
        if isinstance(value.type, T.TileType)
    ]
    return any(layout != found[0] for layout in found) and is_elementwise(op)
