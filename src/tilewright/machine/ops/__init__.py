"""Translations of each family of operations. Importing this package fills the table."""

from tilewright.machine.ops import (
    atomics,
    control_flow,
    effects,
    elementwise,
    matrix,
    memory,
    product_loops,
    reductions,
    refusals,
    tiles,
    views,
)

__all__ = [
    "atomics",
    "control_flow",
    "effects",
    "elementwise",
    "matrix",
    "memory",
    "product_loops",
    "reductions",
    "refusals",
    "tiles",
    "views",
]
