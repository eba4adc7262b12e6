"""Operations of ``nv_tileaa`` that the machine refuses, and those that are not steps."""

from __future__ import annotations

from tilewright.dialects.nv_tileaa.base import TileAAOp
from tilewright.dialects.nv_tileaa.ops import functions, shapes
from tilewright.machine.compile import IMPLEMENTATIONS

IMPLEMENTATIONS.refuse(
    "the elements of the activation in the window at an index are unspecified",
    shapes.ConvTileOp,
)

#: Operations that define the structure of a module; `Program` reads them.
STRUCTURE: frozenset[type[TileAAOp]] = frozenset({functions.FuncOp, functions.GlobalOp})
IMPLEMENTATIONS.leave("`Program` reads it", *STRUCTURE)
