"""Translation of ``nv_tileaa``, ``arith``, ``math`` and ``scf``.

Importing this package fills the table for that level. What operations compute and how they access memory is shared with
``cuda_tile``: the functions of ``machine.ops``.
"""

from tilewright.machine.tileaa import (
    accesses,
    agents,
    contraction,
    control_flow,
    elementwise,
    external_functions,
    functions,
    hints,
    pipelines,
    placement,
    programs,
    queues,
    refusals,
    shapes,
    stores,
    views,
)

__all__ = [
    "accesses",
    "agents",
    "contraction",
    "control_flow",
    "elementwise",
    "external_functions",
    "functions",
    "hints",
    "pipelines",
    "placement",
    "programs",
    "queues",
    "refusals",
    "shapes",
    "stores",
    "views",
]
