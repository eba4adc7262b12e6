"""The order in which diverged lanes continue, so that they reconverge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Block


def order_of(blocks: Sequence[Block]) -> list[tuple[int, int]]:
    """For each block a key; of two blocks, lanes at the one with the smaller key go on first.

    A block comes before those that can be reached from it and from which it cannot be reached;
    where both can, as in a loop, the text decides. Lanes that left a loop so wait for the others.
    """
    number = {block: i for i, block in enumerate(blocks)}
    successors = [
        [number[target] for target in (block.last_op.successors if block.last_op else ())]
        for block in blocks
    ]
    reachable = [_reachable(successors, i) for i in range(len(blocks))]
    ranks = [0] * len(blocks)
    # How many blocks lead here without a way back is a topological number of loops.
    for i in range(len(blocks)):
        ranks[i] = sum(i in reachable[j] and j not in reachable[i] for j in range(len(blocks)))
    return [(rank, i) for i, rank in enumerate(ranks)]


def _reachable(successors: Sequence[Sequence[int]], start: int) -> set[int]:
    found: set[int] = set()
    todo = [start]
    while todo:
        for target in successors[todo.pop()]:
            if target not in found:
                found.add(target)
                todo.append(target)
    return found
