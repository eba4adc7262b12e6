"""The table of code generators, and of refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError, define_code
from tilewright.dialects import nv_tileaa
from tilewright.dialects.backends import Table
from tilewright.dialects.nv_tileaa.ops import functions
from tilewright.dialects.nv_tileaa.ops.queues import QueueYieldOp
from tilewright.dialects.nv_tileaa.ops.shapes import ConvTileOp
from tilewright.dialects.source_map import location_of

UNSUPPORTED = define_code(
    "cpu-unsupported",
    "The operation cannot be compiled for this processor.",
    "The reference machine runs every operation of cuda_tile that has a meaning without a GPU; the "
    "message says what is missing here.",
)

Lowering = Callable[[Any, Any], None]
"""Makes code of an operation; takes the :class:`~tilewright.cpu.codegen.emitter.function.FunctionEmitter` too,
which this file is below of."""

LOWERINGS: Table[Lowering] = Table("the CPU", dialect=nv_tileaa.NAME)
REFUSED = LOWERINGS.refused
"""Operations without code, and why."""
lowers = LOWERINGS.rule

LOWERINGS.refuse(
    "the elements of the activation in the window at an index are unspecified", ConvTileOp
)
LOWERINGS.refuse("calls are replaced by what they call before code is made", functions.CallOp)
LOWERINGS.leave("the driver", functions.FuncOp, functions.GlobalOp)
LOWERINGS.leave("the operation around it", functions.YieldOp, QueueYieldOp)


def refuse(op: Operation, why: str, help: str = "") -> TileIRError:
    """The error (``cpu-unsupported``) that no code can be made of an operation, to be raised."""
    return TileIRError.single(
        UNSUPPORTED, f"no code for '{op.name}': {why}", location_of(op), help=help
    )
