"""The 73 operations of the roster, one module for each family, and the extensions."""

from tilewright.dialects.nv_tileaa.ops import (
    arithmetic,
    contraction,
    extensions,
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
    "extensions",
    "functions",
    "hints",
    "memory",
    "pointers",
    "queues",
    "shapes",
]
