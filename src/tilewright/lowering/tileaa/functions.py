"""Kernels, functions and globals, and grid queries."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.dialects.cuda_tile.ops import core
from tilewright.dialects.cuda_tile.ops.module import EntryOp, Function, GlobalOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import KernelSpecAttr
from tilewright.dialects.nv_tileaa.ops import functions as F
from tilewright.dialects.nv_tileaa.ops.memory import GetGlobalOp
from tilewright.dialects.nv_tileaa.ops.queues import GetNumProgramsOp, GetProgramIdOp
from tilewright.lowering.tileaa.control_flow import Exit, Frame, find_exits, lower_block
from tilewright.lowering.tileaa.hints import number_hint
from tilewright.lowering.tileaa.state import Lowering, i32_number, run
from tilewright.lowering.tileaa.table import lowers, refuse
from tilewright.lowering.tileaa.types import lower_type

#: Cluster extents that no hint can set.
_ALONE = 1


def lower_function(low: Lowering, op: Function) -> Operation:
    """Lower a function with its body. An entry becomes a kernel, and its hints the kernel's specification.

    Raises ``TileIRError`` (``not-lowered``, ``aa-target``) at an operation that has no lowering.
    """
    signature = op.function_type_value
    returned = [lower_type(ty) for ty in signature.outputs.data]
    low.enter_function(op, find_exits(op), returned)
    block = Block(arg_types=low.types_of(op.block.args))
    for old, new in zip(op.block.args, block.args, strict=True):
        new.location = old.location
    low.bind(op.block.args, block.args)
    low.block = block
    frame = Frame((Exit.RETURN,), (returned,), _end_in_return)
    run(lower_block(low, block, op.block.first_op, None, frame))
    if shared := low.shared_operations():
        first = block.first_op
        assert first is not None
        block.insert_ops_before(shared, first)
    inputs = [argument.type for argument in block.args]
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(op.symbol),
        "function_type": FunctionType.from_lists(inputs, returned),
    }
    if isinstance(op, EntryOp):
        properties |= {"kernel": UnitAttr(), "kernel_spec": kernel_spec(low, op)}
    kept = ("arg_attrs", "res_attrs")
    attributes = {name: found for name in kept if (found := op.properties.get(name)) is not None}
    if isinstance(op, EntryOp) and low.options.grid:
        extents = (*low.options.grid, 1, 1)[:3]
        attributes[F.LAUNCH_GRID] = DenseArrayBase.from_list(i64, extents)
    new = F.FuncOp.create(properties=properties, attributes=attributes, regions=[Region(block)])
    low.place(new, op)
    return new


def _end_in_return(low: Lowering, values: Sequence[SSAValue]) -> None:
    low.emit(F.ReturnOp, values)


def kernel_spec(low: Lowering, op: EntryOp) -> KernelSpecAttr:
    """The launch specification of a kernel: its hints for the target, else the options."""
    options = low.options
    warps = number_hint(options, op, "num_worker_warps_per_cta") or options.num_warps
    cluster = number_hint(options, op, "num_cta_in_cga") or _ALONE
    fields: dict[str, int | Sequence[int]] = {
        "numWarps": warps,
        "clusterDim": [cluster, _ALONE, _ALONE],
    }
    if occupancy := number_hint(options, op, "occupancy"):
        fields["occupancy"] = occupancy
    return KernelSpecAttr.of(**fields)


def lower_global(low: Lowering, op: GlobalOp) -> Operation:
    """A global of the module, with its alignment in bytes.

    Raises ``TileIRError`` (``not-lowered``) if the alignment is not a power of two.
    """
    value, alignment = op.value_constant, op.alignment_value
    if alignment & (alignment - 1):
        raise refuse(op, f"its alignment, {alignment}, is not a power of two")
    ty = value.type
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(op.symbol),
        "type": T.MemrefType(ty.element_type, ty.dims, (1,)),
        "value": value,
    }
    if alignment:
        properties["alignment"] = IntegerAttr(alignment, i64)
    if op.is_constant:
        properties["constant"] = UnitAttr()
    attributes: dict[str, Attribute] = (
        {"sym_visibility": StringAttr("private")} if op.is_private else {}
    )
    new = F.GlobalOp.create(properties=properties, attributes=attributes)
    low.place(new, op)
    return new


@lowers(core.GetGlobalOp)
def get_global(low: Lowering, op: core.GetGlobalOp) -> Sequence[SSAValue]:
    """The pointer to the global of that name."""
    symbol = SymbolRefAttr(op.symbol)
    return low.emit(GetGlobalOp, (), low.types_of(op.results), {"symbol": symbol})


@lowers(core.GetTileBlockIdOp)
def get_tile_block_id(low: Lowering, op: core.GetTileBlockIdOp) -> Sequence[SSAValue]:
    """``get_program_id`` for each axis."""
    return _for_each_axis(low, op, GetProgramIdOp)


@lowers(core.GetNumTileBlocksOp)
def get_num_tile_blocks(low: Lowering, op: core.GetNumTileBlocksOp) -> Sequence[SSAValue]:
    """``get_num_programs`` for each axis."""
    return _for_each_axis(low, op, GetNumProgramsOp)


def _for_each_axis(
    low: Lowering, op: core.GetTileBlockIdOp | core.GetNumTileBlocksOp, kind: type[Operation]
) -> list[SSAValue]:
    """An operation of ``kind`` for x, y and z."""
    results = low.types_of(op.results)
    return [
        low.emit(kind, (), (ty,), {"axis": i32_number(axis)})[0] for axis, ty in enumerate(results)
    ]
