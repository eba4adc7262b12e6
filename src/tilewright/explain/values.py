"""The values of a module in an order that its text and its bytecode preserve."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue


def values_below(module: Operation) -> list[SSAValue]:
    """Return all results and block arguments: those of each operation, then the arguments of its blocks."""
    found: list[SSAValue] = []
    for op in module.walk():
        found += op.results
        found += [arg for region in op.regions for block in region.blocks for arg in block.args]
    return found
