"""What the passes on layouts ask of an operation: which keep the layout of their operands, which pass it on, and which need one of their own."""

from __future__ import annotations

from xdsl.dialects import ub
from xdsl.ir import Operation, SSAValue

from tilewright.dialects.facts import Elements, elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import OPERATIONS
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp, ReduceOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.memory import Atomic, Load, Store
from tilewright.dialects.nv_tileaa.ops.shapes import BroadcastOp, PermuteOp
from tilewright.dialects.nv_tileas.elementwise import is_elementwise as is_elementwise


def is_source(op: Operation) -> bool:
    """Whether an operation has no operands that are tiles, or one that needs another layout than the
    result: it is cheap to compute again where another layout is wanted."""
    return isinstance(op, ub.PoisonOp) or elements(op) is Elements.MADE


BROADCAST = BroadcastOp.name
PERMUTE = PermuteOp.name
#: Numbers of elements stay: a layout holds for the result as it is.
RESHAPES = frozenset(cls.name for cls in OPERATIONS.values() if cls.ELEMENTS is Elements.RESHAPED)
REDUCE = ReduceOp.name
SCAN = ScanOp.name
DOT = DotOp.name
LOADS, STORES, ATOMICS = (
    frozenset(cls.name for cls in OPERATIONS.values() if issubclass(cls, family))
    for family in (Load, Store, Atomic)
)


def is_tile(value: SSAValue) -> bool:
    """Whether a value is a tile."""
    return isinstance(value.type, T.TileType)


def tiles_of(values: object) -> list[SSAValue]:
    """Those of some values that are tiles."""
    return [value for value in values if is_tile(value)]  # pyright: ignore[reportGeneralTypeIssues]
