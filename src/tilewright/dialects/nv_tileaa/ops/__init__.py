"""The 73 operations, one module for each family."""

from tilewright.dialects.nv_tileaa.ops import (
    arithmetic,
    contraction,
    functions,
    hints,
    memory,
    pointers,
    queues,
    shapes,
)

__all__ = [
    "arithmetic",
    "contraction",
    "functions",
    "hints",
    "memory",
    "pointers",
    "queues",
    "shapes",
]
