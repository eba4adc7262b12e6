"""The pass ``dce``: removes operations whose results nothing uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation

from tilewright.passes.base import TilePass, blocks_below
from tilewright.passes.effects import is_dead


def erase_dead(root: Operation) -> None:
    """Erase the operations below ``root`` that are dead, and those that die with them."""
    # Inner blocks come after outer ones in the list, so that going backwards an operation is
    # looked at only after all its users.
    for block in reversed(blocks_below(root)):
        for op in reversed(block.ops):
            if is_dead(op):
                block.erase_op(op)


@dataclass(frozen=True)
class DeadCodeElimination(TilePass):
    """Erases effect-free operations whose results nothing uses.

    So it does with an if, for, reduce or scan that holds only such operations. Memory operations,
    assume, alloca, assert, print_tko and ``loop`` stay, and so do unused results of operations
    that are needed otherwise. Cost: one walk from the last operation to the first.
    """

    name: ClassVar[str] = "dce"

    def rewrite(self, root: Operation) -> None:
        erase_dead(root)
