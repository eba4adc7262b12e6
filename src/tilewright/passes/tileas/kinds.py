"""What layouts mean to operations: which keep them, pass them on, or need one of their own."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileas.elementwise import is_elementwise as is_elementwise

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
SCAN = "nv_tileaa.scan"
DOT = "nv_tileaa.dot"
LOADS = frozenset(f"nv_tileaa.{name}" for name in ("load", "tiled_load", "gather_load"))
STORES = frozenset(f"nv_tileaa.{name}" for name in ("store", "tiled_store", "scatter_store"))
ATOMICS = frozenset(
    f"nv_tileaa.{name}" for name in ("atomic_rmw", "tiled_atomic_rmw", "atomic_cas")
)


def is_tile(value: SSAValue) -> bool:
    return isinstance(value.type, T.TileType)


def tiles_of(values: object) -> list[SSAValue]:
    return [value for value in values if is_tile(value)]  # pyright: ignore[reportGeneralTypeIssues]
