"""The ``nvgpu`` dialect of upstream MLIR: warps, tensor cores, asynchronous copies, barriers, TMA.

Operations, operands and properties are named as upstream names them. ``load()`` gives the xDSL
dialect; import the parts that you need from the modules beside.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


@cache
def load() -> Dialect:
    """The dialect with all operations, attributes and types."""
    from xdsl.ir import Dialect

    from tilewright.dialects.nvgpu import enums, ops, types
    from tilewright.dialects.nvgpu.base import OPERATIONS

    assert ops.__all__
    return Dialect("nvgpu", list(OPERATIONS.values()), [*types.TYPES, *enums.ENUM_ATTRIBUTES])


@cache
def load_nvvm() -> Dialect:
    """Upstream's ``nvvm`` with the products of a warpgroup that are ours alone (``wgmma``)."""
    from tilewright.dialects.nvgpu.wgmma import OPERATIONS
    from tilewright.dialects.upstream import nvvm
    from tilewright.dialects.upstream.base.operations import extended

    return extended(nvvm.load(), OPERATIONS.values())
