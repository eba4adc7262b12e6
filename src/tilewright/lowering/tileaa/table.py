"""The table of lowerings: one function for each operation of ``cuda_tile``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from xdsl.ir import SSAValue

from tilewright.diagnostics import TileIRError, define_code
from tilewright.dialects.backends import Table
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops import testing
from tilewright.dialects.cuda_tile.ops.module import FUNCTIONS, GlobalOp, ModuleOp
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa.base import BLOCK_SCALE_CAPABILITY
from tilewright.dialects.source_map import location_of
from tilewright.lowering.tileaa.state import Lowering, Nested

NOT_LOWERED = define_code(
    "not-lowered",
    "The program cannot be lowered to nv_tileaa.",
    "Operations of test builds and developer previews have no lowering, and a few programs need "
    "features that the target or nv_tileaa lacks; the message says which.",
)

#: Lowers an operation: appends to ``block`` and returns the values of its results. Operations with regions return a
#: generator, see ``Nested``.
Rule: TypeAlias = Callable[[Lowering, Any], Sequence[SSAValue] | Nested]

LOWERINGS: Table[Rule] = Table("the lowering to nv_tileaa", by_class=True)
REFUSED: dict[type[TileOp], str] = LOWERINGS.refused
"""Operations that are refused, and why."""
lowers = LOWERINGS.rule

LOWERINGS.refuse(
    "it only tests the bytecode of test builds",
    testing.BytecodeNewAttributeOp,
    testing.BytecodeEvolutionOp,
)
LOWERINGS.refuse(
    "it calls a function of a developer preview, which is not supported", testing.PreviewCallOp
)
LOWERINGS.refuse(
    "it belongs to a developer preview, which is not supported", testing.PreviewExternImplOp
)
LOWERINGS.leave("`functions`", ModuleOp, GlobalOp, *FUNCTIONS)


def refuse(op: TileOp, why: str, help: str = "") -> TileIRError:
    """Returns the error ``not-lowered`` at an operation, to be raised."""
    message = f"'{op.name}' cannot be lowered to nv_tileaa: {why}"
    return TileIRError.single(NOT_LOWERED, message, location_of(op), help=help)


def require_block_scale(low: Lowering, op: TileOp, what: str) -> None:
    """Raises ``TileIRError`` (``aa-target``) if the target lacks block-scaled formats, which ``what`` needs."""
    if low.options.capability < BLOCK_SCALE_CAPABILITY:
        raise TileIRError.single(
            codes.TARGET,
            f"'{op.name}' cannot be lowered for {low.options.target}: {what} needs sm_"
            f"{BLOCK_SCALE_CAPABILITY} or later",
            location_of(op),
        )


def rule_of(op: TileOp) -> Rule:
    """The rule of an operation. Raises ``TileIRError`` (``not-lowered``) if it is refused."""
    if (rule := LOWERINGS.rule_of(op)) is None:
        raise refuse(op, REFUSED[type(op)])
    return rule
