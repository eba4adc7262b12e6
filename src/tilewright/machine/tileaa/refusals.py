"""Operations of ``nv_tileaa`` that the machine refuses, and those that are not steps."""

from __future__ import annotations

from tilewright.dialects.nv_tileaa.base import TileAAOp
from tilewright.dialects.nv_tileaa.ops import functions, shapes
from tilewright.machine.compile import IMPLEMENTATIONS

IMPLEMENTATIONS.refuse(
    "nothing says which elements of the activation are in the window at an index",
    shapes.ConvTileOp,
)

#: Operations that define the structure of a module; `Program` reads them.
STRUCTURE: frozenset[type[TileAAOp]] = frozenset({functions.FuncOp, functions.GlobalOp})
IMPLEMENTATIONS.leave("`Program` reads it", *STRUCTURE)
