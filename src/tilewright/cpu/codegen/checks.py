"""Checks of accesses in checked code: an access that fails one stops the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import Operation

from tilewright.cpu.abi import STOPPED, AssertSite
from tilewright.cpu.codegen.elements import I32, I64
from tilewright.cpu.codegen.hosts import call_host
from tilewright.cpu.codegen.irtypes import Value
from tilewright.cpu.codegen.views import View, as_value
from tilewright.diagnostics import define_code
from tilewright.launching.assertions import OperationSource

if TYPE_CHECKING:
    from tilewright.cpu.codegen.function import FunctionEmitter

OUTSIDE = define_code(
    "cpu-outside-memory",
    "An access of compiled code leaves the memory that its view was made for.",
    "Reported by code that was compiled with checks, at the first such access of a tile block. The "
    "run ends there; what was written before stays.",
)


def require(f: FunctionEmitter, op: Operation, condition: Value, message: str) -> None:
    """Stop the run with a message at the place of an operation unless a condition holds.

    The host gets it as a failed check, and the kernel returns ``STOPPED``.
    """
    b = f.builder
    site = len(f.unit.sites)
    f.unit.sites.append(AssertSite(message, (), OperationSource.of(op), OUTSIDE))
    broken, fine = b.append_basic_block("broken"), b.append_basic_block("fine")
    b.cbranch(condition, fine, broken)
    b.position_at_end(broken)
    payload = f.pointer_to(f.scratch(8))
    b.store(ir.Constant(I64, 0), payload)
    call_host(f, site, payload, ir.Constant(I64, 1))
    b.ret(ir.Constant(I32, STOPPED))
    b.position_at_end(fine)


def check_indices(
    f: FunctionEmitter,
    op: Operation,
    view: View,
    indices: Sequence[Value],
    in_bounds: Sequence[bool],
) -> None:
    """The tile has a part in the memref; all of it along axes that promise so."""
    b = f.builder
    for position, (axis, step, extent) in enumerate(
        zip(view.axes, view.steps, view.dims, strict=True)
    ):
        size = as_value(view.memref.sizes[axis])
        origin = b.mul(indices[position], ir.Constant(I64, step))
        inside = b.icmp_unsigned("<", origin, size)
        require(
            f,
            op,
            inside,
            f"'{op.name}' goes to a tile outside of the memory of its view along axis {position}",
        )
        if position < len(in_bounds) and in_bounds[position]:
            left = b.sub(size, origin)
            whole = b.icmp_unsigned(">=", left, ir.Constant(I64, extent))
            promise = f"'{op.name}' promises to stay inside along axis {position}, and does not"
            require(f, op, whole, promise)
