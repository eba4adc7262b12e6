"""Grid queries, prints and assertions."""

from __future__ import annotations

from xdsl.dialects import builtin as b
from xdsl.dialects import cf
from xdsl.dialects.gpu import DimensionAttr, DimensionEnum
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag, ReductionOp
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.dialects.upstream.gpu import ops as gpu_ops
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import I1, I64, INDEX

#: Attributes of assertions on tiles, see ``_places``.
SHAPE, REGISTERS, THREADS = "tilewright.shape", "tilewright.registers", "tilewright.threads"
_AXES = (DimensionEnum.X, DimensionEnum.Y, DimensionEnum.Z)


@lowers("get_program_id")
def program_id(low: ThreadLowering, op: TileAAOp) -> None:
    """The block index along the axis.

    Raises ``not-lowered-to-threads`` for the index of work taken over from another block.
    """
    if op.operands:
        raise low.refuse("it queries work that was taken over")
    low.bind(op.results[0], _along(low, gpu_ops.BlockIdOp, op))


@lowers("get_num_programs")
def num_programs(low: ThreadLowering, op: TileAAOp) -> None:
    """The grid extent along the axis."""
    low.bind(op.results[0], _along(low, gpu_ops.GridDimOp, op))


def _along(low: ThreadLowering, kind: type[Operation], op: TileAAOp) -> SSAValue:
    axis = DimensionAttr(_AXES[int_property(op, "axis")])
    index = low.one(kind, (), INDEX, {"dimension": axis})
    return low.one(V.IndexCastOp, (index,), low.type_of(op.results[0].type))


@lowers("assert")
def assertion(low: ThreadLowering, op: TileAAOp) -> None:
    """Each thread asserts its own elements. Attributes record their coordinates, for reports."""
    condition = low.value(op.operands[0])
    places: dict[str, Attribute] = {}
    if isinstance(condition.type, b.VectorType):
        places = _places(low, op.operands[0].type)
        condition = _all(low, condition)
    message = {"msg": op.properties["message"]}
    low.add(cf.AssertOp.create(operands=[condition], properties=message, attributes=places))
    for result in op.results:
        low.bind(result, None)


def _places(low: ThreadLowering, ty: Attribute) -> dict[str, Attribute]:
    """Attributes that say which elements a thread asserts: the shape of the tile, and the bases of its layout for the
    bits of the register and of the thread.
    """
    layout = low.distribution(ty)
    found = {SHAPE: T.dims_of(ty), REGISTERS: layout.register, THREADS: layout.thread}
    return {name: b.DenseArrayBase.from_list(I64, list(n)) for name, n in found.items()}


def _all(low: ThreadLowering, condition: SSAValue) -> SSAValue:
    kind = {"kind": CombiningKindAttr(CombiningKindFlag.AND)}
    return low.one(ReductionOp, (condition,), I1, kind)
