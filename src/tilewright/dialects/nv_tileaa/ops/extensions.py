"""Operations beside the roster, for what ``cuda_tile`` has since: all are ``nv_tileaa.ext.*``."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryAllocEffect, MemoryReadEffect, MemoryWriteEffect, Pure

from tilewright.dialects.declare import (
    Report,
    attr,
    examples,
    int_property,
    same_type,
    type_of,
)
from tilewright.dialects.facts import Elements, Ordering, Pointing
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa import constraints as K
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp, check_same_element, tileaa_op
from tilewright.dialects.nv_tileaa.enums import FenceKindAttr, GridDependencyAttr
from tilewright.dialects.nv_tileaa.ops.shapes import check_slice
from tilewright.numerics.element_types import FORMATS

GROUP = "extension"

#: Spaces that scratch memory of a block may be in.
SCRATCH_SPACES = (0, 1, 5)


@tileaa_op("ext.alloca", group=GROUP)
class AllocaOp(TileAAOp):
    """Fresh memory for ``num_elem`` elements until the enclosing region ends; contents undefined.

    ``alignment`` counts bytes. With ``global`` other blocks may use the address.
    """

    num_elem = prop_def(K.INT64)
    alignment = prop_def(K.INT64)
    global_ = opt_prop_def(K.FLAG, prop_name="global")
    result = result_def(K.PTR)
    traits = traits_def(MemoryAllocEffect())
    POINTS: ClassVar = Pointing.NEW
    ORDERING: ClassVar = Ordering.NONE
    EXAMPLES: ClassVar = examples(
        "%r = nv_tileaa.ext.alloca {num_elem = 8 : i64, alignment = 16 : i64} "
        ": !nv_tileaa.ptr<f32, 1>",
        "%r = nv_tileaa.ext.alloca {num_elem = 1 : i64, alignment = 4 : i64, global} "
        ": !nv_tileaa.ptr<i32, 1>",
    )
    UNDEFINED: ClassVar = (
        "use of the memory after its region has ended",
        "without global: use by another block",
        "reading an element before it is written",
    )

    def check(self, report: Report) -> None:
        count, alignment = int_property(self, "num_elem"), int_property(self, "alignment")
        pointer = self.result.type
        assert isinstance(pointer, T.PtrType)
        if count < 0:
            report.error(
                codes.SCRATCH, f"num_elem must be at least 0, got {count}", attr("num_elem")
            )
        size = -(-FORMATS[T.element_name(pointer.pointee)].storage_bits // 8)
        if alignment < size or alignment & (alignment - 1):
            report.error(
                codes.SCRATCH,
                f"alignment must be a power of two of at least {size} bytes, the size of an "
                f"element, got {alignment}",
                attr("alignment"),
            )
        if pointer.space not in SCRATCH_SPACES:
            report.error(
                codes.ADDRESS_SPACE,
                f"expected a pointer to generic, global or local memory, got address space "
                f"{pointer.space} ({T.SPACES[pointer.space]})",
                type_of("result"),
            )


@tileaa_op("ext.fence", group=GROUP)
class FenceOp(TileAAOp):
    """Orders what comes before the token against what comes after it.

    ``alias``: also accesses that reach one location through different addresses.
    """

    token = operand_def(K.TOKEN)
    kind = prop_def(K.enum_kind(FenceKindAttr))
    result = result_def(K.TOKEN)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    EXAMPLES: ClassVar = examples(
        "%u = nv_tileaa.ext.fence %t {kind = alias} : !nv_tileaa.mem_token -> !nv_tileaa.mem_token",
    )


@tileaa_op("ext.grid_dependency", group=GROUP)
class GridDependencyOp(TileAAOp):
    """The dependences between grids.

    ``launch`` lets grids that depend on this one be scheduled, and orders no memory. ``wait`` waits
    for the grids that this one depends on: what they wrote is visible behind the token.
    """

    token = opt_operand_def(K.TOKEN)
    action = prop_def(K.enum_kind(GridDependencyAttr))
    result = result_def(K.TOKEN)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    EXAMPLES: ClassVar = examples(
        "%u = nv_tileaa.ext.grid_dependency {action = wait} : !nv_tileaa.mem_token",
        "%u = nv_tileaa.ext.grid_dependency %t {action = launch} "
        ": !nv_tileaa.mem_token -> !nv_tileaa.mem_token",
    )


@tileaa_op("ext.insert_slice", group=GROUP)
class InsertSliceOp(TileAAOp):
    """The destination with the part that starts at the offsets replaced by the source.

    Offsets count elements; they are given as ``offsets``, or as one operand for each axis.
    """

    destination = operand_def(K.TILE)
    source = operand_def(K.TILE)
    indices = var_operand_def(K.OFFSET)
    offsets = opt_prop_def(K.I64_ARRAY)
    result = result_def(K.TILE)
    traits = traits_def(Pure())
    ELEMENTS: ClassVar = Elements.MOVED
    COST: ClassVar = 3
    POINTS: ClassVar = Pointing.OPERANDS
    BRACKETS: ClassVar = "indices"
    RELATIONS: ClassVar = (same_type("destination", "result"),)
    EXAMPLES: ClassVar = examples(
        """
        %s = nv_tileaa.extract_slice %f {offsets = array<i64: 4>} : tile<8xf32> -> tile<4xf32>
        %r = nv_tileaa.ext.insert_slice %g, %s {offsets = array<i64: 0>}
          : tile<8xf32>, tile<4xf32> -> tile<8xf32>
        """,
        """
        %s = nv_tileaa.extract_slice %tile[%i, %j] : tile<8x16xf32>, index, index -> tile<2x16xf32>
        %r = nv_tileaa.ext.insert_slice %tile[%j, %i], %s
          : tile<8x16xf32>, tile<2x16xf32>, index, index -> tile<8x16xf32>
        """,
    )
    UNDEFINED: ClassVar = ("a slice that leaves the destination",)

    def check(self, report: Report) -> None:
        check_same_element(self, report, ["source"], "destination")
        check_slice(self, report, "destination", "source")
