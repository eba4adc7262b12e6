"""Translations of ``nv_tileaa``, ``arith``, ``math`` and ``scf``.

Importing this package fills the table for that level. The functions in ``machine.ops``, which compute operations and
access memory, are shared with ``cuda_tile``.
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
