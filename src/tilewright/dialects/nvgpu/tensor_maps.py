"""The rules of tensor maps, for every operation that takes one."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import MemRefType

from tilewright.dialects.declare import Report, operand, type_of
from tilewright.dialects.nvgpu import codes
from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes as shared
from tilewright.dialects.upstream.base.shapes import bit_width, is_static, show_shape
from tilewright.dialects.upstream.gpu.spaces import is_shared

MAX_BOX_EXTENT = 256
MAX_COORDINATES = 5
#: The length of a row of a swizzled box, as upstream has it for every swizzle.
SWIZZLED_ROW_BYTES = 128
#: The swizzle whose pattern rows of so many bytes fill. Hardware copies boxes of such rows, though upstream refuses those that
#: are shorter than 128 bytes, and it refuses boxes of longer rows, which upstream takes.
SWIZZLE_OF_ROWS = {32: "swizzle_32b", 64: "swizzle_64b", SWIZZLED_ROW_BYTES: "swizzle_128b"}


def check_map(ty: TensorMapDescriptorType, group: str, report: Report) -> None:
    """Report what is wrong with a tensor map; ``group`` is the value that has it. The rules are those of CUDA's
    ``cuTensorMapEncodeTiled``.
    """
    box, part = ty.tensor, type_of(group)
    if ty.interleave.keyword != "none":
        report.error(
            codes.TENSOR_MAP,
            f"expected a tensor map that is not interleaved, got '{ty.interleave.keyword}'",
            part,
        )
    if not is_shared(box):
        report.error(
            codes.TENSOR_MAP,
            f"expected the box of the tensor map to lie in shared memory, got '{format_type(box)}'",
            part,
        )
    if not is_static(box):
        report.error(
            codes.TENSOR_MAP,
            f"expected the box of the tensor map to have static extents, got '{format_type(box)}'",
            part,
        )
        return
    extents = box.get_shape()
    if wrong := [extent for extent in extents if not 1 <= extent <= MAX_BOX_EXTENT]:
        report.error(
            codes.TENSOR_MAP,
            f"expected the extents of the box to be from 1 to {MAX_BOX_EXTENT}, got {wrong[0]} in "
            f"'{format_type(box)}'",
            part,
        )
    if len(extents) > 1 and ty.swizzle.keyword != "none":
        row_bits = extents[-1] * bit_width(box.element_type)
        fills = SWIZZLE_OF_ROWS.get(row_bits // 8) == ty.swizzle.keyword
        if row_bits != 8 * SWIZZLED_ROW_BYTES and not fills:
            report.error(
                codes.TENSOR_MAP,
                f"expected rows of {SWIZZLED_ROW_BYTES} bytes in a swizzled box, got "
                f"{row_bits / 8:g} bytes in '{format_type(box)}'",
                part,
            )


def check_tile(ty: TensorMapDescriptorType, memref: MemRefType, group: str, report: Report) -> bool:
    """Report where a memref cannot hold boxes of a tensor map; whether its extents are known."""
    box, part = ty.tensor, type_of(group)
    if memref.element_type != box.element_type:
        report.error(
            codes.BOX,
            f"expected '{group}' to have the element type '{format_type(box.element_type)}' of "
            f"the tensor map, got '{format_type(memref.element_type)}'",
            part,
        )
    if not is_shared(memref):
        report.error(
            shared.MEMORY_SPACE,
            f"expected '{group}' to lie in shared memory, got '{format_type(memref)}'",
            part,
        )
    if not is_static(memref):
        report.error(
            codes.BOX,
            f"expected '{group}' to have static extents, got '{format_type(memref)}'",
            part,
        )
        return False
    return True


def check_box(ty: TensorMapDescriptorType, memref: MemRefType, group: str, report: Report) -> None:
    """Report where a memref does not hold just one box of a tensor map."""
    box = ty.tensor
    if not check_tile(ty, memref, group, report) or not is_static(box):
        return
    if memref.get_shape() != box.get_shape():
        report.error(
            codes.BOX,
            f"expected '{group}' to have the shape {show_shape(box.get_shape())} of the tensor "
            f"map's box, got {show_shape(memref.get_shape())}",
            type_of(group),
        )


def check_coordinates(ty: TensorMapDescriptorType, count: int, group: str, report: Report) -> None:
    """Report where another number of coordinates is given than the tensor map has dimensions."""
    rank = ty.tensor.get_num_dims()
    if count > MAX_COORDINATES:
        report.error(
            shared.INDEX_COUNT,
            f"expected at most {MAX_COORDINATES} of '{group}', got {count}",
            operand(group),
        )
    elif count != rank:
        report.error(
            shared.INDEX_COUNT,
            f"expected {rank} of '{group}', one for each dimension of the tensor map, got {count}",
            operand(group),
        )


def box_bytes(ty: TensorMapDescriptorType) -> int:
    """The bytes of a box: what a load completes at its barrier."""
    return prod(ty.tensor.get_shape()) * bit_width(ty.tensor.element_type) // 8
