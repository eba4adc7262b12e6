"""Tree-order reductions and scans, for ``Arithmetic(reductions="tree")``.

Tile extents are powers of two, so both halves are always equal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.machine.values import Registers
from tilewright.numerics.arrays import Array

Combine = Callable[[list[Array], list[Array]], list[Array]]
"""Combines (elements, accumulators); one array per operand, all of one shape."""


def reduce_as_tree(
    body: Callable[[Registers, tuple[int, ...]], Combine],
    is_vector: bool,
    keep_all: bool,
    regs: Registers,
    rows: list[Array],
) -> list[Array]:
    """Reduce along the first dimension, or compute all prefixes if ``keep_all``.

    ``body`` prepares the combination for arrays of a shape, which is () unless ``is_vector``.
    """

    def combine(elements: list[Array], accumulators: list[Array]) -> list[Array]:
        if is_vector:
            return body(regs, elements[0].shape)(elements, accumulators)
        run = body(regs, ())
        found = [
            run([row[at, ...] for row in elements], [row[at, ...] for row in accumulators])
            for at in range(elements[0].shape[0])
        ]
        return [np.stack(column) for column in zip(*found, strict=True)]

    return _scan(combine, rows) if keep_all else _reduce(combine, rows)


def _reduce(combine: Combine, rows: list[Array]) -> list[Array]:
    while (count := rows[0].shape[0]) > 1:
        half = count // 2
        rows = combine([found[half:] for found in rows], [found[:half] for found in rows])
    return [found[0, ...] for found in rows]


def _scan(combine: Combine, rows: list[Array]) -> list[Array]:
    distance, count = 1, rows[0].shape[0]
    while distance < count:
        later = combine([found[distance:] for found in rows], [found[:-distance] for found in rows])
        rows = [
            np.concatenate([found[:distance], new]) for found, new in zip(rows, later, strict=True)
        ]
        distance *= 2
    return rows
