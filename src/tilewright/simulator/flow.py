"""The order in which diverged lanes continue, so that they reconverge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Block


def order_of(blocks: Sequence[Block]) -> list[tuple[int, int]]:
    """A sort key for each block: lanes at the block with the smallest key continue first.

    A block precedes those that are reachable from it but from which it is not reachable. If both are, as in a loop,
    textual order decides. Lanes that have left a loop therefore wait for the others.
    """
    number = {block: i for i, block in enumerate(blocks)}
    successors = [
        [number[target] for target in (block.last_op.successors if block.last_op else ())]
        for block in blocks
    ]
    reachable = [_reachable(successors, i) for i in range(len(blocks))]
    ranks = [0] * len(blocks)
    # The number of blocks that lead here without a way back is a topological order of strongly connected components.
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
