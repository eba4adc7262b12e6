"""The scheduling pipeline: which passes run on a kernel, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from tilewright.diagnostics import TileIRError, define_code
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.source_map import location_of
from tilewright.garbage import rare_collections
from tilewright.lowering.calls import without_calls
from tilewright.lowering.nvgpu.driver import Kernel
from tilewright.model.choices import gpu_of
from tilewright.model.tables import Gpu
from tilewright.nesting import deep_recursion
from tilewright.passes.pipelines import PIPELINES, parse_pipeline, run_pipeline
from tilewright.passes.tileas import tma
from tilewright.passes.tileas.allocate import Allocate, allocate
from tilewright.passes.tileas.assign_layouts import AssignLayouts, assign_layouts
from tilewright.passes.tileas.avoid_conflicts import AvoidConflicts, avoid_conflicts
from tilewright.passes.tileas.choose_block_order import OrderBlocks, choose_order
from tilewright.passes.tileas.decisions import FREE, Decisions
from tilewright.passes.tileas.direct_copies import DirectCopies, direct_copies
from tilewright.passes.tileas.expand import Expand, expand
from tilewright.passes.tileas.insert_barriers import InsertBarriers, insert_barriers
from tilewright.passes.tileas.limit_residency import LimitResidency, limit_residency
from tilewright.passes.tileas.pipeline import DEFAULT_STAGES, Pipeline, pipeline
from tilewright.passes.tileas.pipeline_products import PipelineProducts, pipeline_products
from tilewright.passes.tileas.progress import LAST_PASS, is_scheduled, last_pass, record_pass
from tilewright.passes.tileas.remarks import Remark, Remarks
from tilewright.passes.tileas.remove_conversions import RemoveConversions, remove_conversions
from tilewright.passes.tileas.schedule import Schedule, schedule_products
from tilewright.passes.tileas.specialize import Specialize, specialize
from tilewright.passes.tileas.split_depths import SplitDepths, split_depths
from tilewright.passes.tileas.split_tiles import SplitTiles, split_tiles
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.tma import TmaPipelines
from tilewright.passes.tileas.tma_stores import TmaStores, choose_tma_stores, store_by_maps
from tilewright.passes.tileas.warp_counts import block_warps

SCHEDULED = define_code(
    "already-scheduled",
    "A kernel is scheduled too far for this decision, or not as far as its attribute says.",
    "The attribute `nv_tileas.done` of its function names the last pass of the pipeline `tileas` "
    "that has run; compiling runs the remaining ones.",
)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A kernel at the level of ``nv_tileas``, and what was decided on the way."""

    module: ModuleOp
    remarks: tuple[Remark, ...]


@dataclass(frozen=True, slots=True)
class _Work:
    """A function with what its passes need to know. ``gpu``: the tables that say how many stages rings have, where nobody else
    does."""

    func: FuncOp
    warps: int
    target: Target
    remarks: Remarks
    decisions: Decisions

    @property
    def gpu(self) -> Gpu | None:
        return gpu_of(self.target.compute) if self.decisions.stages is None else None


def _order_blocks(work: _Work) -> None:
    choose_order(work.func, work.warps, work.target, work.remarks, work.decisions.band)


def _limit_residency(work: _Work) -> None:
    limit_residency(work.func, work.warps, work.target, work.remarks, work.decisions.resident)


def _assign_layouts(work: _Work) -> None:
    assign_layouts(work.func, 32 * work.warps, work.target, work.remarks, work.decisions)


def _tma(work: _Work) -> None:
    choose_tma_stores(work.func, work.target, work.remarks)
    stages = work.decisions.stages or tma.DEFAULT_STAGES
    tma.tma_pipelines(work.func, stages, work.target, work.remarks, work.gpu)


def _pipeline(work: _Work) -> None:
    stages = work.decisions.stages or DEFAULT_STAGES
    pipeline(work.func, stages, work.target.shared_bytes, work.remarks, work.gpu)


def _specialize(work: _Work) -> None:
    specialize(work.func, work.warps, work.target, work.remarks, work.decisions.agents)


#: The passes of a schedule, in order, as the pipeline ``tileas`` has them, with what is decided for the GPU at hand.
STEPS: Mapping[str, Callable[[_Work], object]] = {
    OrderBlocks.name: _order_blocks,
    SplitTiles.name: lambda work: split_tiles(
        work.func, work.warps, work.remarks, work.decisions.parts
    ),
    SplitDepths.name: lambda work: split_depths(
        work.func, work.target.shared_bytes, work.remarks, work.decisions.depths
    ),
    LimitResidency.name: _limit_residency,
    AssignLayouts.name: _assign_layouts,
    AvoidConflicts.name: lambda work: avoid_conflicts(work.func),
    RemoveConversions.name: lambda work: remove_conversions(work.func, work.remarks),
    TmaPipelines.name: _tma,
    Pipeline.name: _pipeline,
    Expand.name: lambda work: expand(work.func),
    DirectCopies.name: lambda work: direct_copies(
        work.func, work.target.shared_bytes, work.remarks
    ),
    Schedule.name: lambda work: schedule_products(work.func, work.remarks),
    TmaStores.name: lambda work: store_by_maps(work.func, work.target.shared_bytes, work.remarks),
    Specialize.name: _specialize,
    PipelineProducts.name: lambda work: pipeline_products(work.func, work.warps, work.remarks),
    Allocate.name: lambda work: allocate(work.func, work.target.shared_bytes, work.remarks),
    InsertBarriers.name: lambda work: insert_barriers(work.func),
}


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

    One that has been scheduled so far goes on from there (``nv_tileas.done``). ``num_warps`` is for kernels without a
    hint. What the compiler decides is told behind what stands in ``remarks``; it follows ``decisions``. Raises
    ``TileIRError`` where these come too late, where a block cannot have as many warps as a hint says
    (``bad-block-warps``), and for calls that cannot be inlined (``not-lowered-to-threads``).
    """
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
    kernels = [op for op in module.ops if isinstance(op, FuncOp)]
    if not any(map(is_scheduled, kernels)):
        run_pipeline(module, parse_pipeline(",".join(PIPELINES["tileaa"])))
    for func in [op for op in module.ops if isinstance(op, FuncOp)]:
        work = _Work(func, block_warps(func, num_warps), target, remarks, decisions)
        for name in _left(func, decisions):
            remarks.made_by = name
            STEPS[name](work)
            record_pass(func, name)
    remarks.made_by = ""
    return Scheduled(module, tuple(remarks.found))


def _left(func: FuncOp, decisions: Decisions) -> list[str]:
    """The passes that have not worked on a function yet. Of one with layouts that says nothing these are assumed to be as they
    shall be."""
    names = list(STEPS)
    if not is_scheduled(func):
        return names
    last = last_pass(func) or RemoveConversions.name
    if last not in names:
        raise TileIRError.single(
            SCHEDULED,
            f"'{LAST_PASS}' is not a pass of the pipeline tileas: '{last}'",
            location_of(func),
            help=f"the passes are {', '.join(names)}",
        )
    if decisions != FREE:
        raise TileIRError.single(
            SCHEDULED,
            f"'{func.symbol}' is already scheduled up to '{last}': decisions come too late",
            location_of(func),
            help="apply decisions before the kernel is scheduled, or edit its text",
        )
    return names[names.index(last) + 1 :]


def _has_twin(module: ModuleOp, func: FuncOp) -> bool:
    """Whether a copy without calls stands beside a function."""
    return any(
        isinstance(op, FuncOp) and op is not func and op.symbol == func.symbol for op in module.ops
    )
