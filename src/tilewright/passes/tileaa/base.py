"""Base classes of passes on ``nv_tileaa``."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.passes.base import NV_TILEAA, Level, TilePass


@dataclass(frozen=True)
class TileAAPass(TilePass):
    """A rewrite of ``nv_tileaa`` in place, function by function."""

    LEVEL: ClassVar[Level] = NV_TILEAA

    def rewrite(self, root: Operation) -> None:
        for op in root.walk():
            if isinstance(op, FuncOp):
                self.rewrite_function(op)

    @abstractmethod
    def rewrite_function(self, function: FuncOp) -> None:
        """Rewrite a verified function in place, so that it still verifies."""
