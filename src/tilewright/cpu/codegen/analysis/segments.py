"""Cuts long code into segments, each computed in loop nests of its own.

A tile that is computed where it is read may depend on any number of others. The code of one nest is one basic block to LLVM
and one recursion here, so long code is cut, in program order. Values that one segment passes to the next lie in
buffers, and all buffers of one shape that a segment fills are filled in one nest. Short functions are not cut.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from tilewright.cpu.codegen.analysis import cost_model
from tilewright.dialects import facts
from tilewright.dialects.nv_tileaa import types as T

#: How many operations deep an element may be computed.
_DEPTH_LIMIT = 48
#: What the elements of all tiles of a part may cost together, in units of a simple operation.
_PART_LIMIT = 1024


@dataclass(slots=True)
class Segments:
    """The parts of a function. ``count`` is 1 where nothing is cut.

    ``part_of`` is the number of the part in which each tile is defined that is evaluated where it is
    read; ``last`` is the last operation of the run, without effects between, whose tiles of one shape are
    filled together; ``run_of`` names that run.
    """

    count: int = 1
    part_of: dict[Operation, int] = field(default_factory=dict)
    run_of: dict[Operation, object] = field(default_factory=dict)
    last: dict[object, Operation] = field(default_factory=dict)

    def leader(self, op: Operation) -> Operation:
        """The operation that stands for the nest in which the tile of an operation is filled."""
        return self.last[self.run_of[op]] if self.count > 1 and op in self.run_of else op

    def crosses(self, op: Operation, user: Operation) -> bool:
        """Whether a user stands in another part."""
        return self.count > 1 and self.part_of.get(user) != self.part_of.get(op)


def find_segments(ops: Sequence[Operation], kept: Collection[SSAValue] = ()) -> Segments:
    """The parts of a function, whose operations stand in the order of the program. Tiles that are ``kept``
    lie in buffers anyway."""
    found = Segments()
    depths: dict[SSAValue, int] = {}
    part = run = spent = 0
    for op in ops:
        if not cost_model.is_lazy(op):
            run += 1
            found.part_of[op] = part
            continue
        depth = 1 + max((depths.get(operand, 0) for operand in op.operands), default=0)
        tiles = [result for result in op.results if isinstance(result.type, T.TileType)]
        spent += facts.cost(op) if tiles else 0
        if tiles and (depth > _DEPTH_LIMIT or spent > _PART_LIMIT):
            part, spent, depth = part + 1, facts.cost(op), 1
            depths.clear()
        found.part_of[op] = part
        for result in tiles:
            depths[result] = 0 if result in kept else depth
            key = (op.parent, part, run, result.type.dims)  # pyright: ignore[reportAttributeAccessIssue]
            found.run_of[op], found.last[key] = key, op
    found.count = part + 1
    return found
