"""The table of lowering rules, and of refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.dialects import nv_tileaa
from tilewright.dialects.backends import Table
from tilewright.dialects.nv_tileaa.ops import contraction, functions, pointers, queues, shapes
from tilewright.lowering.nvgpu.state import ThreadLowering

Rule = Callable[[ThreadLowering, Any], None]

RULES: Table[Rule] = Table("the lowering to threads", dialect=nv_tileaa.NAME)
REFUSED = RULES.refused
"""Operations without a lowering to per-thread code, and why."""
lowers = RULES.rule

RULES.refuse(
    "agents and queues describe a schedule, which this lowering does not support",
    queues.CreateQueueOp,
    queues.QueueGetOp,
    queues.QueuePutOp,
    queues.CancelNextProgramIdOp,
    queues.IsValidProgramIdOp,
    functions.ExecuteOp,
)
RULES.refuse(
    "it calls an external function",
    functions.PluginOp,
    functions.InjectIROp,
    pointers.ExternElementwiseOp,
    pointers.ElementwiseInlineAsmOp,
    pointers.CallElementwiseIntrinsicOp,
)
RULES.refuse(
    "no cuda_tile operation lowers to it",
    contraction.ConvDotOp,
    shapes.ConvTileOp,
    contraction.HistogramOp,
)
RULES.refuse("kernels are launched from the host", functions.LaunchFuncOp)
RULES.refuse("calls are inlined before", functions.CallOp)
RULES.leave("the driver", functions.FuncOp, functions.GlobalOp, functions.ReturnOp)
RULES.leave("the operation around it", functions.YieldOp, queues.QueueYieldOp)
