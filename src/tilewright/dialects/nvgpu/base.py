"""What every operation of ``nvgpu`` declares."""

from __future__ import annotations

from tilewright.dialects.declare import Declaring
from tilewright.dialects.upstream.base.operations import UpstreamOp


class NvgpuOp(UpstreamOp):
    """An operation of ``nvgpu``. ``EXAMPLES`` are bodies of a function: see ``examples.wrap``."""


#: Every operation, by mnemonic, in the order of definition.
OPERATIONS: dict[str, type[NvgpuOp]] = {}
nvgpu_op = Declaring("nvgpu", OPERATIONS)
