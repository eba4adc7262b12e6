"""Values are visible where their block dominates, by the definition: on every way from the entry."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tilewright.analysis.verifier import find_problems
from tilewright.text import parse

Graph = Sequence[Sequence[int]]
"""The successors of each block, two at most; block 0 is the entry, to which nothing leads."""


def _reached(graph: Graph, without: int | None = None) -> set[int]:
    found: set[int] = set()
    waiting = [0]
    while waiting:
        block = waiting.pop()
        if block not in found and block != without:
            found.add(block)
            waiting += graph[block]
    return found


def dominated(graph: Graph, block: int) -> set[int]:
    """The blocks that cannot be reached without coming through ``block``."""
    return _reached(graph) - _reached(graph, block)


def _text(graph: Graph, definer: int, user: int) -> str:
    lines: list[str] = []
    for block, successors in enumerate(graph):
        lines.append(f"^b{block}:" if block else "^b0(%c: i1):")
        if block == definer:
            lines.append("  %v = arith.constant 1 : i32")
        if block == user:
            lines.append("  %u = arith.addi %v, %v : i32")
        if not successors:
            lines.append("  func.return")
        elif len(successors) == 1:
            lines.append(f"  cf.br ^b{successors[0]}")
        else:
            lines.append(f"  cf.cond_br %c, ^b{successors[0]}, ^b{successors[1]}")
    body = "\n".join(lines[1:])
    return f"module {{\nfunc.func @f(%c: i1) {{\n{body}\n}}\n}}\n"


def _codes(graph: Graph, definer: int, user: int) -> list[str]:
    return [found.code for found in find_problems(parse(_text(graph, definer, user)))]


NAMED: dict[str, Graph] = {
    "line": [[1], [2], []],
    "diamond": [[1, 2], [3], [3], []],
    "one side": [[1, 2], [2], []],
    "loop": [[1], [2, 3], [1], []],
    "loop with two ways around": [[1], [2, 3], [4], [4], [1, 5], []],
    "two entries": [[1, 2], [2], [1, 3], []],
    "ladder": [[1, 2], [3, 4], [4], [5], [5], []],
}


def _random_graph(seed: int) -> Graph:
    rng = random.Random(seed)
    count = rng.randrange(4, 9)
    graph = [rng.sample(range(1, count), rng.randrange(3)) for _ in range(count)]
    graph[0] = graph[0] or [1]
    kept = sorted(_reached(graph))
    number = {block: index for index, block in enumerate(kept)}
    return [[number[successor] for successor in graph[block]] for block in kept]


GRAPHS = [*NAMED.values(), *map(_random_graph, range(25))]


@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_what_dominates_is_visible_and_nothing_else(graph: Graph) -> None:
    for definer in range(len(graph)):
        below = dominated(graph, definer)
        for user in range(len(graph)):
            found = _codes(graph, definer, user)
            assert found == ([] if user in below else ["value-not-visible"]), (definer, user)


def test_blocks_dominate_themselves() -> None:
    for graph in GRAPHS:
        assert all(block in dominated(graph, block) for block in range(len(graph)))
