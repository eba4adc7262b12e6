"""The passes that make a schedule of a kernel, in order."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.garbage import rare_collections
from tilewright.lowering.calls import without_calls
from tilewright.lowering.nvgpu.driver import Kernel
from tilewright.model.choices import gpu_of
from tilewright.nesting import deep_recursion
from tilewright.passes.pipelines import PIPELINES, parse_pipeline, run_pipeline
from tilewright.passes.tileas import tma
from tilewright.passes.tileas.ahead import products_ahead
from tilewright.passes.tileas.allocate import allocate
from tilewright.passes.tileas.assign_layouts import assign_layouts, block_warps
from tilewright.passes.tileas.avoid_conflicts import avoid_conflicts
from tilewright.passes.tileas.block_orders import choose_order
from tilewright.passes.tileas.decisions import FREE, Decisions
from tilewright.passes.tileas.insert_barriers import insert_barriers
from tilewright.passes.tileas.pipeline import DEFAULT_STAGES, pipeline
from tilewright.passes.tileas.remarks import Remark, Remarks
from tilewright.passes.tileas.remove_conversions import remove_conversions
from tilewright.passes.tileas.schedule import schedule_products
from tilewright.passes.tileas.specialize import specialize
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.tma import tma_pipelines
from tilewright.passes.tileas.tma_stores import choose_tma_stores, store_by_maps


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A kernel at the level of ``nv_tileas``, and what was decided on the way."""

    module: ModuleOp
    remarks: tuple[Remark, ...]


@rare_collections
@deep_recursion()
def schedule(
    module: ModuleOp,
    entry: str,
    num_warps: int,
    target: Target,
    remarks: Remarks | None = None,
    decisions: Decisions = FREE,
) -> Scheduled:
    """A module of ``nv_tileaa``, in place, with one of its kernels at the level of ``nv_tileas``.
    What the compiler decides is told behind what stands in ``remarks``; it follows ``decisions``."""
    remarks = Remarks() if remarks is None else remarks
    functions = {op.symbol: op for op in module.ops if isinstance(op, FuncOp)}
    for name, func in functions.items():
        if name == entry:
            inlined = without_calls(func, functions, Kernel.refusal)
            if inlined is not func:
                block = func.parent_block()
                assert block is not None
                block.insert_op_before(inlined, func)
    for func in functions.values():
        if func.parent is not None and (func.symbol != entry or _has_twin(module, func)):
            func.detach()
    run_pipeline(module, parse_pipeline(",".join(PIPELINES["tileaa"])))
    for op in module.ops:
        if isinstance(op, FuncOp):
            warps = block_warps(op, num_warps)
            choose_order(op, warps, target, remarks, decisions.band)
            assign_layouts(op, 32 * warps, target, remarks, decisions)
            avoid_conflicts(op)
            remove_conversions(op, remarks)
            # So many stages as somebody wants, or as the tables of the GPU say.
            gpu = gpu_of(target.compute) if decisions.stages is None else None
            choose_tma_stores(op, target, remarks)
            tma_pipelines(op, decisions.stages or tma.DEFAULT_STAGES, target, remarks, gpu)
            pipeline(op, decisions.stages or DEFAULT_STAGES, target.shared_bytes, remarks, gpu)
            schedule_products(op, remarks)
            store_by_maps(op, target.shared_bytes, remarks)
            specialize(op, warps, target, remarks, decisions.agents)
            products_ahead(op, warps, remarks)
            allocate(op, target.shared_bytes, remarks)
            insert_barriers(op)
    return Scheduled(module, tuple(remarks.found))


def _has_twin(module: ModuleOp, func: FuncOp) -> bool:
    """Whether a copy without calls stands beside a function."""
    return any(
        isinstance(op, FuncOp) and op is not func and op.symbol == func.symbol for op in module.ops
    )
