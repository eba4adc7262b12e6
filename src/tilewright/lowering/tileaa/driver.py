"""Lowers whole modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import builtin
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32
from xdsl.ir import Block, Operation, Region

from tilewright.diagnostics import Collector, TileIRError
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops.module import Function, GlobalOp, ModuleOp
from tilewright.dialects.nv_tileaa.base import CAPABILITY
from tilewright.garbage import rare_collections
from tilewright.lowering.tileaa import (
    arithmetic,
    assumptions,
    contraction,
    memory,
    shapes,
    views,
)
from tilewright.lowering.tileaa.functions import lower_function, lower_global
from tilewright.lowering.tileaa.options import TileAAOptions
from tilewright.lowering.tileaa.state import Lowering
from tilewright.nesting import deep_recursion
from tilewright.passes.base import clone_with_locations, inherit_location

#: The modules that register rules, beside those of functions and control flow.
FAMILIES = (arithmetic, assumptions, contraction, memory, shapes, views)

AnyModule = ModuleOp | builtin.ModuleOp


@dataclass(frozen=True, slots=True)
class Lowered:
    """The result of the lowering; ``origins`` maps each operation in ``module`` to the ``cuda_tile`` one it was lowered
    from.
    """

    module: builtin.ModuleOp
    origins: Mapping[Operation, TileOp]


@rare_collections
@deep_recursion()
def lower_to_tileaa(module: AnyModule, options: TileAAOptions | None = None) -> Lowered:
    """Lower a verified module to ``nv_tileaa``. The input is not changed, and the result verifies.

    A single ``cuda_tile`` module becomes a builtin module with its functions and globals; a builtin module around
    several keeps them apart. Operations keep their locations. Takes time linear in the number of operations, at any
    nesting depth.

    Raises ``TileIRError``, with one diagnostic per refused function: ``not-lowered``, and ``aa-target`` for what the
    target lacks.
    """
    low = Lowering(options or TileAAOptions())
    problems = Collector()
    if isinstance(module, ModuleOp):
        new = _lower_module(low, module, problems)
    else:
        inner = list(module.ops)
        alone = inner[0] if len(inner) == 1 and not module.attributes else None
        if isinstance(alone, ModuleOp) and module.sym_name is None:
            new = _lower_module(low, alone, problems)
        else:
            new = _lower_around(low, module, problems)
    problems.raise_if_errors()
    return Lowered(new, low.origins)


def _lower_module(low: Lowering, module: ModuleOp, problems: Collector) -> builtin.ModuleOp:
    block = Block()
    for op in module.block.ops:
        assert isinstance(op, Function | GlobalOp)
        try:
            new = lower_global(low, op) if isinstance(op, GlobalOp) else lower_function(low, op)
        except TileIRError as error:
            problems.diagnostics += error.diagnostics
        else:
            block.add_op(new)
    attributes = {CAPABILITY: IntegerAttr(low.options.capability, i32)}
    new = builtin.ModuleOp(Region(block), attributes, StringAttr(module.symbol))
    low.place(new, module)
    return new


def _lower_around(low: Lowering, module: builtin.ModuleOp, problems: Collector) -> builtin.ModuleOp:
    """Lower the cuda_tile modules in a builtin module; the rest is cloned."""
    block = Block()
    for op in module.ops:
        match op:
            case ModuleOp():
                block.add_op(_lower_module(low, op, problems))
            case builtin.ModuleOp():
                block.add_op(_lower_around(low, op, problems))
            case _:
                block.add_op(clone_with_locations(op, {}))
    new = builtin.ModuleOp(Region(block), dict(module.attributes), module.sym_name)
    inherit_location(new, module)
    return new
