"""Operations that the machine refuses, with reasons, and operations that are not steps of a kernel."""

from __future__ import annotations

from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops import module, testing
from tilewright.machine.compile import IMPLEMENTATIONS

IMPLEMENTATIONS.refuse(
    "it calls a function outside Tile IR, in a library that the machine does not have",
    testing.PreviewCallOp,
    testing.PreviewExternImplOp,
)
IMPLEMENTATIONS.refuse(
    "it exercises bytecode tools and has no meaning",
    testing.BytecodeNewAttributeOp,
    testing.BytecodeEvolutionOp,
)
IMPLEMENTATIONS.refuse("it is not a kernel, and nothing in Tile IR calls it", module.FuncOp)

#: Operations that define the structure of a module; `Program` reads them.
STRUCTURE: frozenset[type[TileOp]] = frozenset({module.ModuleOp, module.EntryOp, module.GlobalOp})
IMPLEMENTATIONS.leave("`Program` reads it", *STRUCTURE)
