"""Linear layouts: which thread of a block holds which elements of a tile, and where they lie in shared memory.

Tile extents are powers of two, so every distribution is a linear map over GF(2) from the bits of (register, lane, warp)
to the bits of the element's number. See :class:`Layout`.
"""

from tilewright.layouts.conversions import Conversion, SharedConversion, plan_conversion
from tilewright.layouts.fragments import (
    Fragment,
    accumulator,
    operand_a,
    operand_b,
    warpgroup_accumulator,
    warpgroup_operand_a,
)
from tilewright.layouts.layout import Layout
from tilewright.layouts.shared import SharedLayout

__all__ = [
    "Conversion",
    "Fragment",
    "Layout",
    "SharedConversion",
    "SharedLayout",
    "accumulator",
    "operand_a",
    "operand_b",
    "plan_conversion",
    "warpgroup_accumulator",
    "warpgroup_operand_a",
]
