"""What layouts mean to operations: which keep them, pass them on, or need one of their own."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.dialects.nv_tileaa import types as T

_ELEMENTWISE = frozenset(
    f"nv_tileaa.{name}"
    for name in (
        *("addf", "subf", "mulf", "divf", "fma", "sqrt", "rsqrt", "exp2", "clampf", "mulhiui"),
        *("addptr", "int_to_ptr", "ptr_to_int", "fp_to_fp", "assume"),
    )
)
#: Without operands that are tiles, or with one that needs another layout than the result: cheap to
#: compute again where another layout is wanted.
SOURCES = frozenset(
    {"arith.constant", "ub.poison"}
    | {f"nv_tileaa.{name}" for name in ("splat", "make_range", "generate")}
)
BROADCAST = "nv_tileaa.broadcast"
PERMUTE = "nv_tileaa.permute"
#: Numbers of elements stay: a layout holds for the result as it is.
RESHAPES = frozenset({"nv_tileaa.view", "nv_tileaa.expand_dims"})
REDUCE = "nv_tileaa.reduce"
DOT = "nv_tileaa.dot"
LOADS = frozenset(f"nv_tileaa.{name}" for name in ("load", "tiled_load", "gather_load"))
STORES = frozenset(f"nv_tileaa.{name}" for name in ("store", "tiled_store", "scatter_store"))


def is_tile(value: SSAValue) -> bool:
    return isinstance(value.type, T.TileType)


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


def tiles_of(values: object) -> list[SSAValue]:
    return [value for value in values if is_tile(value)]  # pyright: ignore[reportGeneralTypeIssues]
