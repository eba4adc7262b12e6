"""What operands, results and properties of ``nvgpu`` alone may be."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, IntegerType, VectorType
from xdsl.ir import Attribute

from tilewright.dialects.narrowing import is_vector
from tilewright.dialects.nvgpu import types as T
from tilewright.dialects.nvgpu.enums import RcpRoundingModeAttr
from tilewright.dialects.upstream.base.constraints import Kind, exactly


def _is_f32_vector(attr: Attribute) -> bool:
    return (
        is_vector(attr) and isinstance(attr.element_type, Float32Type) and attr.get_num_dims() > 0
    )


METADATA_TYPE = VectorType(IntegerType(16), [2])
F32_VECTOR = Kind("a vector of f32", VectorType, _is_f32_vector)
METADATA = exactly("a vector<2xi16>", METADATA_TYPE)
ASYNC_TOKEN = exactly("a device.async.token", T.DEVICE_ASYNC_TOKEN)
MBARRIER_TOKEN = exactly("an mbarrier.token", T.MBARRIER_TOKEN)
MBARRIER_GROUP = Kind("an mbarrier.group", T.MBarrierGroupType)
TENSOR_MAP = Kind("a tensormap.descriptor", T.TensorMapDescriptorType)
ACCUMULATOR = Kind("a warpgroup.accumulator", T.WarpgroupAccumulatorType)
MATRIX_DESCRIPTOR = Kind("a warpgroup.descriptor", T.WarpgroupMatrixDescriptorType)
RCP_ROUNDING = Kind("a rcp_rounding_mode", RcpRoundingModeAttr)
