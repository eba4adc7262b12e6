"""The base of scheduling passes: run on each function, then record on it that the pass has run."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.passes.base import NV_TILEAA, TilePass
from tilewright.passes.tileas.progress import record_pass


@dataclass(frozen=True)
class FunctionPass(TilePass):
    """A rewrite of each function that has a body."""

    LEVEL: ClassVar = NV_TILEAA

    def rewrite(self, root: Operation) -> None:
        for func in [op for op in root.walk() if isinstance(op, FuncOp)]:
            if func.body.blocks:
                self.rewrite_function(func)
                record_pass(func, self.name)

    @abstractmethod
    def rewrite_function(self, func: FuncOp) -> None:
        """Do the work on one function with a body, in place."""
