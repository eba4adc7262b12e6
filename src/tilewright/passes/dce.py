"""The pass ``dce``: removes operations whose results nothing uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation

from tilewright.passes.base import TilePass, blocks_below
from tilewright.passes.effects import is_dead


def erase_dead(root: Operation) -> None:
    """Erase the dead operations below ``root``, and those that become dead as a result."""
    # Inner blocks follow outer ones in the list, so walking backwards visits an operation only
    # after all its users.
    for block in reversed(blocks_below(root)):
        for op in reversed(block.ops):
            if is_dead(op):
                block.erase_op(op)


@dataclass(frozen=True)
class DeadCodeElimination(TilePass):
    """Erases effect-free operations whose results nothing uses.

    This includes if, for, reduce and scan if everything inside them is effect-free. Memory
    operations, assume, alloca, assert, print_tko and ``loop`` stay. An operation with at least one
    used result keeps its unused results. Cost: one walk from the last operation to the first.
    """

    name: ClassVar[str] = "dce"

    def rewrite(self, root: Operation) -> None:
        erase_dead(root)
