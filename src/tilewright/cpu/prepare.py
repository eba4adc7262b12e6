"""The pipeline ``cpu``: rewrites on ``nv_tileaa`` before code is planned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import Operation

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.lowering.calls import copy_function
from tilewright.passes.tileaa.constant_powers import constant_powers, powers_of
from tilewright.passes.tileaa.merge_reductions import merge_reductions, mergeable
from tilewright.passes.tileaa.narrow_comparisons import narrow_comparisons, wide_comparisons
from tilewright.passes.tileaa.unroll_loops import short_loops, unroll_loops
from tilewright.passes.tileaa.weaken_atomics import ordered_updates, weaken_atomics
from tilewright.passes.tileas.remarks import Remarks


@dataclass(frozen=True, slots=True)
class Step:
    """A pass: the operations of a function that it looks at, and the rewrite."""

    candidates: Callable[[FuncOp], list[Operation]]
    rewrite: Callable[[FuncOp, Remarks], None]


#: In the order of the pipeline ``cpu`` (``passes.pipelines``).
STEPS = (
    Step(short_loops, unroll_loops),
    Step(ordered_updates, weaken_atomics),
    Step(powers_of, constant_powers),
    Step(wide_comparisons, lambda function, remarks: narrow_comparisons(function)),
    Step(mergeable, lambda function, remarks: merge_reductions(function)),
)


def prepared(func: FuncOp, remarks: Remarks) -> FuncOp:
    """The function after the pipeline ``cpu``: itself where no pass finds anything, else a copy."""
    steps = [step for step in STEPS if step.candidates(func)]
    if not steps:
        return func
    copy = copy_function(func)
    for step in steps:
        step.rewrite(copy, remarks)
    return copy
