"""Lowering whole modules."""

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

#: The files that fill the table, beside those of functions and control flow.
FAMILIES = (arithmetic, assumptions, contraction, memory, shapes, views)

AnyModule = ModuleOp | builtin.ModuleOp


@dataclass(frozen=True, slots=True)
class Lowered:
    """What a module has become.

    ``origins`` gives for each operation in ``module`` the one of ``cuda_tile`` that it stands for.
    """

    module: builtin.ModuleOp
    origins: Mapping[Operation, TileOp]


@rare_collections
@deep_recursion()
def lower_to_tileaa(module: AnyModule, options: TileAAOptions | None = None) -> Lowered:
    """A module of ``nv_tileaa`` that does what ``module`` does, which stays as it is.

    ``module`` is verified; so is the result, and nothing of ``cuda_tile`` is in it. One module of
    ``cuda_tile`` becomes the module with its functions and globals; a builtin module around
    several becomes one around as many. Operations keep their locations and places. Takes time
    linear in the operations, at any depth of nesting.

    Raises ``TileIRError`` with what is refused, one error for each function: ``not-lowered``, and
    ``aa-target`` for what the target does not have.
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
    """The same module with what becomes of the cuda_tile modules in it; the rest is copied."""
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
