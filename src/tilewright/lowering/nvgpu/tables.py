"""Memory that a module has: globals of the program, and constants that are no number repeated."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.memory import GetGlobalOp
from tilewright.lowering.nvgpu.state import Threads


def from_table(low: Threads, op: Operation, bits: Sequence[int], name: str) -> SSAValue:
    """The thread's elements of a constant tile of these bits."""
    raise low.refuse("its elements differ")


def global_address(low: Threads, op: GetGlobalOp) -> tuple[SSAValue, T.MemrefType]:
    """The address of a global of the program, and its type."""
    raise low.refuse("globals are not in the module of a GPU yet")
