"""Copies of boxes between global and shared memory by the tensor memory accelerator."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import operand_def, opt_operand_def, result_def, var_operand_def

from tilewright.dialects.declare import Report, examples
from tilewright.dialects.narrowing import memref_type
from tilewright.dialects.nvgpu.base import NvgpuOp, nvgpu_op
from tilewright.dialects.nvgpu.constraints import MBARRIER_GROUP, TENSOR_MAP
from tilewright.dialects.nvgpu.signature import map_type, syntax
from tilewright.dialects.nvgpu.tensor_maps import check_box, check_coordinates, check_map
from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.dialects.syntax.directives import (
    Operand,
)
from tilewright.dialects.upstream.base import constraints as K
from tilewright.dialects.upstream.base.operations import SEGMENTS

GROUP = "TMA"

_MAP = "tensorMapDescriptor"
_ALIGNED = "the memref in shared memory is not aligned to 128 bytes"


@nvgpu_op("tma.async.load", group=GROUP)
class TmaAsyncLoadOp(NvgpuOp):
    """Starts to copy the box at ``coordinates`` into ``dst``; elements outside are filled.

    The bytes of the box are completed at barrier ``mbarId``. Coordinates count elements, innermost
    dimension first. With ``multicastMask`` the box goes to every block of the cluster whose bit is
    set. Each thread that executes this, save with a false ``predicate``, makes a copy.
    """

    dst = operand_def(K.MEMREF)
    barriers = operand_def(MBARRIER_GROUP)
    tensorMapDescriptor = operand_def(TENSOR_MAP)
    coordinates = var_operand_def(K.INDEX)
    mbarId = operand_def(K.INDEX)
    multicastMask = opt_operand_def(K.I16)
    predicate = opt_operand_def(K.I1)

    irdl_options = (SEGMENTS,)
    SYNTAX: ClassVar = syntax(
        Operand(_MAP),
        "[$coordinates*], $barriers[$mbarId] to $dst (multicast_mask = $multicastMask)? (, predicate = $predicate)? attr-dict :",
        map_type(_MAP),
        ", barrier-type -> type($dst)",
    )
    UNDEFINED: ClassVar = (
        _ALIGNED,
        "the destination is read or written before the phase has ended",
        "mbarId is not less than the number of barriers",
    )
    EXAMPLES: ClassVar = examples(
        "nvgpu.tma.async.load %map[%i, %j], %bars[%i] to %shared : !map, !bars -> memref<64x64xf16, 3>",
        "nvgpu.tma.async.load %map[%i, %j], %bars[%i] to %shared multicast_mask = %m16, predicate = %p : !map, !bars -> memref<64x64xf16, 3>",
    )

    def check(self, report: Report) -> None:
        ty, dst = self.tensorMapDescriptor.type, memref_type(self.dst)
        assert isinstance(ty, TensorMapDescriptorType)
        check_map(ty, _MAP, report)
        check_box(ty, dst, "dst", report)
        check_coordinates(ty, len(self.coordinates), "coordinates", report)


@nvgpu_op("tma.async.store", group=GROUP)
class TmaAsyncStoreOp(NvgpuOp):
    """Starts to copy ``src`` to the box at ``coordinates``; elements outside are left out.

    Coordinates count elements, innermost dimension first. Each thread that executes this, save
    with a false ``predicate``, makes a copy; it belongs to the thread's bulk groups.
    """

    src = operand_def(K.MEMREF)
    tensorMapDescriptor = operand_def(TENSOR_MAP)
    coordinates = var_operand_def(K.INDEX)
    predicate = opt_operand_def(K.I1)

    irdl_options = (SEGMENTS,)
    SYNTAX: ClassVar = syntax(
        "$src to",
        Operand(_MAP),
        "[$coordinates*] (, predicate = $predicate)? attr-dict : type($src) ->",
        map_type(_MAP),
    )
    UNDEFINED: ClassVar = (
        _ALIGNED,
        "the source was written through the generic proxy without a subsequent proxy fence",
    )
    EXAMPLES: ClassVar = examples(
        "nvgpu.tma.async.store %shared to %map[%i, %j], predicate = %p : memref<64x64xf16, 3> -> !map"
    )

    def check(self, report: Report) -> None:
        ty, src = self.tensorMapDescriptor.type, memref_type(self.src)
        assert isinstance(ty, TensorMapDescriptorType)
        check_map(ty, _MAP, report)
        check_box(ty, src, "src", report)
        check_coordinates(ty, len(self.coordinates), "coordinates", report)


@nvgpu_op("tma.create.descriptor", group=GROUP)
class TmaCreateDescriptorOp(NvgpuOp):
    """A tensor map of ``tensor`` with boxes of ``boxDimensions``, outermost first; on the host."""

    tensor = operand_def(K.UNRANKED_MEMREF)
    boxDimensions = var_operand_def(K.INDEX)
    tensorMap = result_def(TENSOR_MAP)

    SYNTAX: ClassVar = syntax(
        "$tensor box[$boxDimensions*] attr-dict : type($tensor) ->", map_type("tensorMap")
    )
    EXAMPLES: ClassVar = examples(
        "%made = nvgpu.tma.create.descriptor %unranked box[%i, %j] : memref<*xf16> -> !map"
    )

    def check(self, report: Report) -> None:
        ty = self.tensorMap.type
        assert isinstance(ty, TensorMapDescriptorType)
        check_map(ty, "tensorMap", report)
        check_coordinates(ty, len(self.boxDimensions), "boxDimensions", report)


@nvgpu_op("tma.prefetch.descriptor", group=GROUP)
class TmaPrefetchOp(NvgpuOp):
    """Brings the tensor map into the cache, save where ``predicate`` is there and false."""

    tensorMapDescriptor = operand_def(TENSOR_MAP)
    predicate = opt_operand_def(K.I1)

    SYNTAX: ClassVar = syntax(
        Operand(_MAP), "(, predicate = $predicate)? attr-dict :", map_type(_MAP)
    )
    EXAMPLES: ClassVar = examples(
        "nvgpu.tma.prefetch.descriptor %map : !map",
        "nvgpu.tma.prefetch.descriptor %map, predicate = %p : !map",
    )


@nvgpu_op("tma.fence.descriptor", group=GROUP)
class TmaFenceOp(NvgpuOp):
    """Makes changes to the tensor map in global memory visible to copies that come after."""

    tensorMapDescriptor = operand_def(TENSOR_MAP)

    SYNTAX: ClassVar = syntax(Operand(_MAP), "attr-dict :", map_type(_MAP))
    EXAMPLES: ClassVar = examples("nvgpu.tma.fence.descriptor %map : !map")
