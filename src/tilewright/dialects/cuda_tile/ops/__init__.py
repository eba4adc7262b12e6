"""The operations, one module for each family."""

from tilewright.dialects.cuda_tile.ops import (
    atomics,
    control_flow,
    conversions,
    core,
    floating_point,
    integer,
    matrix,
    memory,
    misc,
    module,
    multimem,
    reductions,
    testing,
    views,
)

__all__ = [
    "atomics",
    "control_flow",
    "conversions",
    "core",
    "floating_point",
    "integer",
    "matrix",
    "memory",
    "misc",
    "module",
    "multimem",
    "reductions",
    "testing",
    "views",
]
