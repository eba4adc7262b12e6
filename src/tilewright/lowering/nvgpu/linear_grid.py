"""Grids beyond the hardware's limits, launched as one row of blocks along x.

A GPU takes at most 65,535 blocks along y and z, and 2**31 - 1 along x. A kernel with a linearized grid is launched with
the product of all three extents, and recovers its block index from the extents, which are three further parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.dialects.gpu import DimensionAttr, DimensionEnum
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.diagnostics import TileIRError, define_code
from tilewright.dialects.source_map import location_of, set_source, source_of
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.dialects.upstream.gpu import kernels as gpu_kernels
from tilewright.dialects.upstream.gpu import ops as gpu_ops
from tilewright.dialects.upstream.gpu.kernels import CLUSTER_SIZES
from tilewright.lowering.nvgpu.parameters import add_parameter, copy_with_kernel
from tilewright.lowering.nvgpu.types import I32, INDEX

GRID_TOO_LARGE = define_code(
    "grid-too-large",
    "A grid has more blocks than a GPU supports.",
    "The product of all extents is at most 2**31 - 1. Let each block do more work.",
)
#: The largest grid extent along x, and along y or z.
MAX_X, MAX_YZ = 2**31 - 1, 65_535
_CLUSTERS = frozenset(
    {
        *("gpu.cluster_id", "gpu.cluster_dim", "gpu.cluster_block_id", "gpu.cluster_dim_blocks"),
        *("nvvm.cluster.arrive", "nvvm.cluster.wait", "nvvm.cluster.arrive.relaxed"),
    }
)


def must_fold(grid: Sequence[int]) -> bool:
    """Whether a GPU accepts this grid only as one row of blocks. Raises ``TileIRError`` (``grid-too-large``) if not
    even so.
    """
    x, y, z = grid
    if x <= MAX_X and max(y, z) <= MAX_YZ:
        return False
    if x * y * z > MAX_X:
        raise TileIRError.single(
            GRID_TOO_LARGE,
            f"the grid {tuple(grid)} has {x * y * z:,} blocks, but a GPU supports at most "
            f"{MAX_X:,} if y or z exceeds {MAX_YZ:,}",
            help="let each block do more work",
        )
    return True


def linearize_grid(module: b.ModuleOp, entry: str) -> b.ModuleOp:
    """A copy of the module whose kernel ``entry`` takes its grid as one row, with the three extents (i32) as last
    parameters.

    Raises ``TileIRError`` (``grid-too-large``) for a kernel with clusters, and for one that calls functions while
    functions of the module query the block or grid index.
    """
    found = next(
        op
        for op in module.walk()
        if isinstance(op, gpu_kernels.FuncOp) and op.is_kernel and op.symbol == entry
    )
    _check(module, found)
    copy, kernel = copy_with_kernel(module, found)
    extents = [add_parameter(kernel, I32, f"blocks_{axis}") for axis in "xyz"]
    for op in list(kernel.walk()):
        if isinstance(op, gpu_ops.BlockIdOp | gpu_ops.GridDimOp | gpu_ops.GlobalIdOp):
            _Folded(op, extents).replace()
    return copy


def _check(module: b.ModuleOp, kernel: gpu_kernels.FuncOp) -> None:
    asks = (gpu_ops.BlockIdOp, gpu_ops.GridDimOp, gpu_ops.GlobalIdOp)
    elsewhere = any(isinstance(op, asks) and not _is_inside(op, kernel) for op in module.walk())
    calls = any(op.name in ("func.call", "llvm.call") for op in kernel.walk())
    clusters = any(name in kernel.attributes for name in CLUSTER_SIZES)
    clusters = clusters or any(op.name in _CLUSTERS for op in kernel.walk())
    if clusters or (calls and elsewhere):
        why = "has clusters" if clusters else "calls functions that read their block index"
        raise TileIRError.single(
            GRID_TOO_LARGE,
            f"a grid has at most {MAX_YZ:,} blocks in y and in z, and kernel '{kernel.symbol}' "
            f"{why}, so its blocks cannot be linearized",
            location_of(kernel),
            help=f"put the largest extent of the grid first: x takes up to {MAX_X:,}",
        )


def _is_inside(op: Operation, kernel: Operation) -> bool:
    found: Operation | None = op
    while found is not None and found is not kernel:
        found = found.parent_op()
    return found is kernel


class _Folded:
    """Replaces a query of the block or grid by its result in the linearized grid."""

    def __init__(self, op: gpu_ops.DimensionOp, extents: Sequence[SSAValue]):
        self.op, self.extents = op, extents

    def replace(self) -> None:
        op = self.op
        if isinstance(op, gpu_ops.GridDimOp):
            found = self.extent(op.axis)
        elif isinstance(op, gpu_ops.BlockIdOp):
            found = self.block(op.axis)
        else:
            size = self.asked(gpu_ops.BlockDimOp, op.axis)
            first = self.one(A.MuliOp, (self.block(op.axis), size))
            found = self.one(A.AddiOp, (first, self.asked(gpu_ops.ThreadIdOp, op.axis)))
        op.result.replace_all_uses_with(found)
        op.detach()
        op.erase()

    def block(self, axis: int) -> SSAValue:
        """The block index along an axis; x varies fastest."""
        number = self.asked(gpu_ops.BlockIdOp, 0)
        for before in range(axis):
            number = self.one(A.DivUIOp, (number, self.extent(before)))
        return number if axis == 2 else self.one(A.RemUIOp, (number, self.extent(axis)))

    def extent(self, axis: int) -> SSAValue:
        return self.one(V.IndexCastOp, (self.extents[axis],))

    def asked(self, kind: type[Operation], axis: int) -> SSAValue:
        dimension = DimensionAttr(tuple(DimensionEnum)[axis])
        return self.one(kind, (), {"dimension": dimension})

    def one(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        properties: dict[str, Attribute] | None = None,
    ) -> SSAValue:
        made = kind.create(operands=operands, result_types=[INDEX], properties=properties or {})
        made.location = self.op.location
        if (source := source_of(self.op)) is not None:
            set_source(made, source)
        block = self.op.parent
        assert block is not None
        block.insert_op_before(made, self.op)
        return made.results[0]
