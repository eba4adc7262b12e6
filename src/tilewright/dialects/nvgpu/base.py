"""What every operation of ``nvgpu`` declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tilewright.dialects.declare import declare_op
from tilewright.dialects.upstream.base.operations import UpstreamOp


class NvgpuOp(UpstreamOp):
    """An operation of ``nvgpu``. ``EXAMPLES`` are bodies of a function: see ``examples.wrap``."""


_OpT = TypeVar("_OpT", bound=type[NvgpuOp])

#: Every operation, by mnemonic, in the order of definition.
OPERATIONS: dict[str, type[NvgpuOp]] = {}


def nvgpu_op(mnemonic: str, *, group: str) -> Callable[[_OpT], _OpT]:
    """Declare an operation: its name and its family."""

    def declare(cls: _OpT) -> _OpT:
        defined = declare_op(cls, "nvgpu", mnemonic, group)
        OPERATIONS[mnemonic] = defined
        return defined

    return declare
