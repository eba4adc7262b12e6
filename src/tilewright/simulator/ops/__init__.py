"""How each operation runs, one module for each family."""

from tilewright.simulator.ops import (
    barriers,
    control,
    copies,
    elementwise,
    matrices,
    memrefs,
    threads,
    tma,
    vectors,
    warpgroups,
)

__all__ = [
    "barriers",
    "control",
    "copies",
    "elementwise",
    "matrices",
    "memrefs",
    "threads",
    "tma",
    "vectors",
    "warpgroups",
]
