"""Where a thread is, and what threads do together: operations of ``gpu``."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    IndexType,
    IntegerType,
    i8,
)
from xdsl.dialects.gpu import DimensionAttr
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from tilewright.dialects.declare import Report, attr, enum_property, examples, same_type, type_of
from tilewright.dialects.narrowing import is_vector, memref_type
from tilewright.dialects.syntax.directives import Flag, StringField, TypedValues
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base import constraints as K
from tilewright.dialects.upstream.base.directives import (
    ATTRIBUTES,
    Choice,
    Number,
    OneToOne,
    syntax,
)
from tilewright.dialects.upstream.base.operations import UpstreamOp, upstream_op
from tilewright.dialects.upstream.base.shapes import element_of
from tilewright.dialects.upstream.gpu import attributes as A
from tilewright.dialects.upstream.gpu.spaces import is_shared

_UPPER_BOUND = Number("upper_bound", "upper_bound")
_DIMENSION = K.Kind("a dimension", DimensionAttr)
_REDUCTION = K.Kind("an all_reduce_op", A.AllReduceOperationAttr)


def _is_number(ty: Attribute) -> bool:
    return isinstance(ty, IntegerType | AnyFloat)


def _is_row(ty: Attribute) -> bool:
    return _is_number(element_of(ty)) and not (is_vector(ty) and ty.get_num_dims() > 1)


_ROW = K.Kind("an integer or float, or a vector of one dimension of such", Attribute, _is_row)
_PRINTED = K.Kind(
    "an integer, float or index", Attribute, lambda t: _is_number(t) or isinstance(t, IndexType)
)


class DimensionOp(UpstreamOp):
    """A number of the launch along one dimension, less than ``upper_bound`` where that is there."""

    dimension = prop_def(_DIMENSION)
    upper_bound = opt_prop_def(K.INDEX_NUMBER)
    result = result_def(K.INDEX)

    traits = traits_def(Pure())
    HIDDEN: ClassVar = frozenset({"dimension", "upper_bound"})
    SYNTAX: ClassVar = (Choice("dimension", DimensionAttr), _UPPER_BOUND, ATTRIBUTES)

    @property
    def axis(self) -> int:
        """0 for x, 1 for y, 2 for z."""
        return "xyz".index(enum_property(self, "dimension"))


@upstream_op("gpu", "thread_id")
class ThreadIdOp(DimensionOp):
    """The place of the thread in its block."""

    EXAMPLES: ClassVar = examples("%x = gpu.thread_id x upper_bound 128")


@upstream_op("gpu", "block_id")
class BlockIdOp(DimensionOp):
    """The place of the block in the grid."""

    EXAMPLES: ClassVar = examples("%x = gpu.block_id y")


@upstream_op("gpu", "block_dim")
class BlockDimOp(DimensionOp):
    """How many threads a block has."""

    EXAMPLES: ClassVar = examples("%x = gpu.block_dim z")


@upstream_op("gpu", "grid_dim")
class GridDimOp(DimensionOp):
    """How many blocks the grid has."""

    EXAMPLES: ClassVar = examples("%x = gpu.grid_dim x")


@upstream_op("gpu", "global_id")
class GlobalIdOp(DimensionOp):
    """The place of the thread among those of all blocks."""

    EXAMPLES: ClassVar = examples("%x = gpu.global_id x")


@upstream_op("gpu", "cluster_id")
class ClusterIdOp(DimensionOp):
    """The place of the cluster in the grid."""

    EXAMPLES: ClassVar = examples("%x = gpu.cluster_id x")


@upstream_op("gpu", "cluster_dim")
class ClusterDimOp(DimensionOp):
    """How many clusters the grid has."""

    EXAMPLES: ClassVar = examples("%x = gpu.cluster_dim x")


@upstream_op("gpu", "cluster_block_id")
class ClusterBlockIdOp(DimensionOp):
    """The place of the block in its cluster."""

    EXAMPLES: ClassVar = examples("%x = gpu.cluster_block_id x")


@upstream_op("gpu", "cluster_dim_blocks")
class ClusterDimBlocksOp(DimensionOp):
    """How many blocks a cluster has."""

    EXAMPLES: ClassVar = examples("%x = gpu.cluster_dim_blocks x")


@upstream_op("gpu", "lane_id")
class LaneIdOp(UpstreamOp):
    """The place of the thread in its warp."""

    upper_bound = opt_prop_def(K.INDEX_NUMBER)
    result = result_def(K.INDEX)

    traits = traits_def(Pure())
    HIDDEN: ClassVar = frozenset({"upper_bound"})
    SYNTAX: ClassVar = (_UPPER_BOUND, ATTRIBUTES)
    EXAMPLES: ClassVar = examples("%lane = gpu.lane_id")


class SubgroupNumberOp(UpstreamOp):
    """A number about the warps of a block."""

    upper_bound = opt_prop_def(K.INDEX_NUMBER)
    result = result_def(K.INDEX)

    traits = traits_def(Pure())
    HIDDEN: ClassVar = frozenset({"upper_bound"})
    SYNTAX: ClassVar = syntax(_UPPER_BOUND, "attr-dict : type($result)")


@upstream_op("gpu", "subgroup_id")
class SubgroupIdOp(SubgroupNumberOp):
    """The place of the warp in the block, whose threads are counted x first."""

    EXAMPLES: ClassVar = examples("%warp = gpu.subgroup_id : index")


@upstream_op("gpu", "num_subgroups")
class NumSubgroupsOp(SubgroupNumberOp):
    """How many warps the block has."""

    EXAMPLES: ClassVar = examples("%warps = gpu.num_subgroups : index")


@upstream_op("gpu", "subgroup_size")
class SubgroupSizeOp(SubgroupNumberOp):
    """How many threads a warp has: 32."""

    EXAMPLES: ClassVar = examples("%size = gpu.subgroup_size : index")


@upstream_op("gpu", "barrier")
class BarrierOp(UpstreamOp):
    """Waits for all threads of the block, and orders their accesses of memory."""

    SYNTAX: ClassVar = (ATTRIBUTES,)
    UNDEFINED: ClassVar = ("a thread of the block that has not ended does not come",)
    EXAMPLES: ClassVar = examples("gpu.barrier")


@upstream_op("gpu", "dynamic_shared_memory")
class DynamicSharedMemoryOp(UpstreamOp):
    """The shared memory whose size the launch says."""

    resultMemref = result_def(K.MEMREF)

    SYNTAX: ClassVar = syntax("attr-dict : type($resultMemref)")
    EXAMPLES: ClassVar = examples(
        "%bytes = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>"
    )

    def check(self, report: Report) -> None:
        ty = memref_type(self.resultMemref)
        if not is_shared(ty):
            report.error(
                codes.MEMORY_SPACE,
                f"expected the result to lie in shared memory, got '{format_type(ty)}'",
                type_of("resultMemref"),
            )
        if ty.element_type != i8 or list(ty.get_shape()) != [DYNAMIC_INDEX]:
            report.error(
                codes.ELEMENT_TYPE,
                f"expected a row of bytes of open length, '?xi8', got '{format_type(ty)}'",
                type_of("resultMemref"),
            )


@upstream_op("gpu", "shuffle")
class ShuffleOp(UpstreamOp):
    """``value`` of another lane among ``width`` lanes, and whether there is such a lane."""

    value = operand_def(_ROW)
    offset = operand_def(K.I32)
    width = operand_def(K.I32)
    mode = prop_def(K.Kind("a shuffle_mode", A.ShuffleModeAttr))
    shuffleResult = result_def(K.ANY_VALUE)
    valid = result_def(K.I1)

    RELATIONS: ClassVar = (same_type("value", "shuffleResult"),)
    INFER: ClassVar = {"shuffleResult": "value"}
    HIDDEN: ClassVar = frozenset({"mode"})
    SYNTAX: ClassVar = syntax(
        Choice("mode", A.ShuffleModeAttr), "$value, $offset, $width attr-dict : type($value)"
    )
    UNDEFINED: ClassVar = ("a lane among those does not take part",)
    EXAMPLES: ClassVar = examples(
        """
        %offset = arith.constant 1 : i32
        %width = arith.constant 32 : i32
        %x = arith.constant 1.0 : f32
        %y, %valid = gpu.shuffle xor %x, %offset, %width : f32
        """
    )


@upstream_op("gpu", "subgroup_reduce")
class SubgroupReduceOp(UpstreamOp):
    """The values of all lanes of the warp, combined."""

    value = operand_def(_ROW)
    op = prop_def(_REDUCTION)
    uniform = opt_prop_def(K.FLAG)
    result = result_def(K.ANY_VALUE)

    RELATIONS: ClassVar = (same_type("value", "result"),)
    HIDDEN: ClassVar = frozenset({"op", "uniform"})
    SYNTAX: ClassVar = syntax(
        Choice("op", A.AllReduceOperationAttr),
        "$value",
        Flag("uniform"),
        "attr-dict",
        OneToOne("value", "result"),
    )
    EXAMPLES: ClassVar = examples(
        """
        %x = arith.constant 1 : i32
        %y = gpu.subgroup_reduce add %x uniform : (i32) -> i32
        """
    )

    def check(self, report: Report) -> None:
        ty, kind = self.value.type, enum_property(self, "op")
        if not A.combines(kind, element_of(ty)):
            report.error(
                codes.REDUCTION,
                f"'{kind}' does not combine values of '{format_type(ty)}'",
                attr("op"),
            )


@upstream_op("gpu", "printf")
class PrintfOp(UpstreamOp):
    """Prints values as the C function of that name does."""

    args = var_operand_def(_PRINTED)
    format = prop_def(K.STRING)

    HIDDEN: ClassVar = frozenset({"format"})
    SYNTAX: ClassVar = (StringField("format"), ATTRIBUTES, TypedValues("args"))
    EXAMPLES: ClassVar = examples('gpu.printf "%d\\n" %i : index')
