"""Copies from global to shared memory that run beside the thread which starts them."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, MemRefType
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)

from tilewright.dialects.declare import Report, attr, examples, int_property, operand, type_of
from tilewright.dialects.narrowing import memref_type
from tilewright.dialects.nvgpu import codes
from tilewright.dialects.nvgpu.base import NvgpuOp, nvgpu_op
from tilewright.dialects.nvgpu.constraints import ASYNC_TOKEN
from tilewright.dialects.nvgpu.signature import Tokens, index_number, syntax
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes as shared
from tilewright.dialects.upstream.base import constraints as K
from tilewright.dialects.upstream.base.directives import ATTRIBUTES
from tilewright.dialects.upstream.base.operations import SEGMENTS
from tilewright.dialects.upstream.base.shapes import bit_width, has_unit_stride
from tilewright.dialects.upstream.gpu.spaces import is_shared

GROUP = "asynchronous copies"

#: What one instruction copies, in bytes.
COPY_BYTES = (4, 8, 16)
#: What it copies where it passes by the L1 cache.
BYPASS_BYTES = 16


@nvgpu_op("device_async_copy", group=GROUP)
class DeviceAsyncCopyOp(NvgpuOp):
    """Starts to copy ``dstElements`` elements from ``src`` to ``dst``.

    Only the first ``srcElements`` are read where that is given, and zeros stand for the others.
    The copy belongs to the next group that the thread makes.
    """

    dst = operand_def(K.MEMREF)
    dstIndices = var_operand_def(K.INDEX)
    src = operand_def(K.MEMREF)
    srcIndices = var_operand_def(K.INDEX)
    srcElements = opt_operand_def(K.INDEX)
    dstElements = prop_def(K.INDEX_NUMBER)
    bypassL1 = opt_prop_def(K.FLAG)
    asyncToken = result_def(ASYNC_TOKEN)

    irdl_options = (SEGMENTS,)
    HIDDEN: ClassVar = frozenset({"dstElements"})
    SYNTAX: ClassVar = syntax(
        "$src[$srcIndices*], $dst[$dstIndices*],",
        index_number("dstElements"),
        "(, $srcElements)? attr-dict : type($src) to type($dst)",
    )
    UNDEFINED: ClassVar = (
        "srcElements is more than dstElements",
        "an address is not a multiple of the size of the copy",
        "the destination is read or written before the copy has been waited for",
        "the source is written while the copy runs",
    )
    EXAMPLES: ClassVar = examples(
        "%copy = nvgpu.device_async_copy %global[%i, %j], %shared[%i, %j], 8 : memref<128x128xf16> to memref<64x64xf16, 3>",
        "%copy = nvgpu.device_async_copy %global[%i, %j], %shared[%i, %j], 8, %n {bypassL1} : memref<128x128xf16> to memref<64x64xf16, 3>",
    )

    def check(self, report: Report) -> None:
        src, dst = memref_type(self.src), memref_type(self.dst)
        for name, memref in (("src", src), ("dst", dst)):
            if not has_unit_stride(memref):
                report.error(
                    codes.STRIDE,
                    f"expected '{name}' to have stride 1 in its last dimension, got "
                    f"'{format_type(memref)}'",
                    type_of(name),
                )
        if not is_shared(dst):
            report.error(
                shared.MEMORY_SPACE,
                f"expected 'dst' to lie in shared memory, got '{format_type(dst)}'",
                type_of("dst"),
            )
        if src.element_type != dst.element_type:
            report.error(
                shared.ELEMENT_TYPE,
                f"expected 'dst' to have the element type '{format_type(src.element_type)}' of "
                f"'src', got '{format_type(dst.element_type)}'",
                type_of("dst"),
            )
        for name, memref, indices in (
            ("src", src, self.srcIndices),
            ("dst", dst, self.dstIndices),
        ):
            if len(indices) != memref.get_num_dims():
                report.error(
                    shared.INDEX_COUNT,
                    f"expected {memref.get_num_dims()} indices of '{name}', got {len(indices)}",
                    operand(f"{name}Indices"),
                )
        self._check_size(dst, report)

    def _check_size(self, dst: MemRefType, report: Report) -> None:
        width = bit_width(dst.element_type)
        count = int_property(self, "dstElements")
        allowed = [str(8 * n // width) for n in COPY_BYTES if width and 8 * n % width == 0]
        if not any(8 * n == count * width for n in COPY_BYTES):
            one_of = ", ".join(allowed) or "no number"
            report.error(
                shared.COPY_SIZE,
                f"expected to copy 4, 8 or 16 bytes, which is one of {one_of} of elements of "
                f"'{format_type(dst.element_type)}', got {count}",
                attr("dstElements"),
            )
        elif self.bypassL1 is not None and count * width != 8 * BYPASS_BYTES:
            report.error(
                shared.COPY_SIZE,
                f"expected to copy {BYPASS_BYTES} bytes past the L1 cache, which is "
                f"{8 * BYPASS_BYTES // width} elements of '{format_type(dst.element_type)}', "
                f"got {count}",
                attr("bypassL1"),
            )


@nvgpu_op("device_async_create_group", group=GROUP)
class DeviceAsyncCreateGroupOp(NvgpuOp):
    """A group of all copies that the thread has started and that are in no group yet.

    Groups end in the order in which they are made.
    """

    inputTokens = var_operand_def(ASYNC_TOKEN)
    asyncToken = result_def(ASYNC_TOKEN)

    SYNTAX: ClassVar = (Tokens("inputTokens"), ATTRIBUTES)
    EXAMPLES: ClassVar = examples(
        "%group = nvgpu.device_async_create_group %at, %at",
        """
        %group = nvgpu.device_async_create_group
        %again = nvgpu.device_async_create_group %group
        """,
    )


@nvgpu_op("device_async_wait", group=GROUP)
class DeviceAsyncWaitOp(NvgpuOp):
    """Waits until at most ``numGroups`` groups of the thread, the youngest, are unfinished.

    None may be where ``numGroups`` is absent. Which group the token is of plays no part.
    """

    asyncDependencies = operand_def(ASYNC_TOKEN)
    numGroups = opt_prop_def(K.INT32)

    SYNTAX: ClassVar = syntax("$asyncDependencies attr-dict")
    EXAMPLES: ClassVar = examples(
        "nvgpu.device_async_wait %at",
        "nvgpu.device_async_wait %at {numGroups = 1 : i32}",
    )

    @property
    def groups(self) -> int:
        """How many groups may be unfinished."""
        found = self.numGroups
        return found.value.data if isinstance(found, IntegerAttr) else 0

    def check(self, report: Report) -> None:
        if self.groups < 0:
            report.error(
                shared.GROUP_COUNT,
                f"expected a number of groups in numGroups, got {self.groups}",
                attr("numGroups"),
            )
