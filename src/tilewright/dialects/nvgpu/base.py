"""What every operation of ``nvgpu`` declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from xdsl.irdl import AttrSizedOperandSegments

from tilewright.dialects.declare import DeclaredOp, declare_op
from tilewright.dialects.upstream.base.type_syntax import TYPE_SYNTAX

SEGMENTS = AttrSizedOperandSegments(as_property=True)


class NvgpuOp(DeclaredOp):
    """An operation of ``nvgpu``. ``EXAMPLES`` are bodies of a function: see ``examples.wrap``."""

    TYPE_SYNTAX: ClassVar = TYPE_SYNTAX


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
