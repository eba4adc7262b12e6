"""The ``nvvm`` dialect, which xDSL has not: what ``nvgpu`` has no operation for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


@cache
def load() -> Dialect:
    """The operations and attributes here."""
    from xdsl.ir import Dialect

    from tilewright.dialects.nvgpu import wgmma
    from tilewright.dialects.upstream.base.operations import OPERATIONS
    from tilewright.dialects.upstream.nvvm import conversions, ops

    assert wgmma.WgmmaProductOp
    attributes = [*ops.ATTRIBUTE_TYPES, *conversions.ATTRIBUTE_TYPES]
    return Dialect("nvvm", list(OPERATIONS["nvvm"].values()), attributes)
