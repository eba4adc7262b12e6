"""Mathematical functions, from the vectorised library; 16-bit floats through f32."""

from __future__ import annotations

from functools import partial

from llvmlite import ir

from tilewright.cpu import mathlib
from tilewright.cpu.codegen.elementwise.floats import flush
from tilewright.cpu.codegen.elementwise.formats import narrow, widen
from tilewright.cpu.codegen.elementwise.table import emitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import DOUBLE, Element
from tilewright.cpu.codegen.ir.types import Builder as B
from tilewright.cpu.codegen.ir.types import Value as V


def _library(
    name: str,
    b: B,
    *values: V,
    element: Element,
    rounding: str = "full",
    flush_to_zero: bool = False,
) -> V:
    wide = [widen(b, v, element) for v in values]
    if flush_to_zero:
        wide = [flush(b, v) for v in wide]
    bits = 64 if llvm.scalar_of(wide[0].type) == DOUBLE else 32
    found = b.call(_function(b, name, wide[0], bits), wide)
    return narrow(b, flush(b, found) if flush_to_zero else found, element)


def _function(b: B, name: str, operand: V, bits: int) -> ir.Function:
    """The function for vectors as long as an operand."""
    lanes = max(llvm.lanes_of(operand.type), 1)
    return mathlib.emit(b.module, name, lanes, bits, llvm.target_of(b).enabled)


for _name in mathlib.FUNCTIONS:
    _names = ("pow", "fpowf") if _name == "pow" else (_name,)
    emitter(*_names)(partial(_library, _name))


@emitter("fpowi")
def fpowi(b: B, x: V, exponent: V, *, element: Element) -> V:
    """The power of an exponent read signed, in f64, which holds every i32."""
    wide = widen(b, x, element)
    double = llvm.shaped(DOUBLE, wide.type)
    base = wide if wide.type == double else b.fpext(wide, double)
    found = b.call(_function(b, "pow", base, 64), [base, b.sitofp(exponent, double)])
    if wide.type == double:
        return found
    return narrow(b, b.fptrunc(found, wide.type), element)
