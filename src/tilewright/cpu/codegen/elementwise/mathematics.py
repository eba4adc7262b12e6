"""Mathematical functions, from the vectorised library; 16-bit floats through f32."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from llvmlite import ir

from tilewright.cpu import mathlib
from tilewright.cpu.codegen.elementwise.floats import flush
from tilewright.cpu.codegen.elementwise.formats import narrow, widen
from tilewright.cpu.codegen.elementwise.table import emitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import DOUBLE, I32, Element
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
    found = _called(b, name, wide, bits)
    return narrow(b, flush(b, found) if flush_to_zero else found, element)


def _called(b: B, name: str, operands: list[V], bits: int) -> V:
    """What the function for vectors as long as the operands gives, or as a register; vectors of one lane, which are left where lanes
    are combined, go as numbers."""
    return llvm.by_registers(
        b, operands, bits, lambda values: _called_at_once(b, name, values, bits)
    )


def _called_at_once(b: B, name: str, operands: Sequence[V], bits: int) -> V:
    ty = operands[0].type
    lanes = llvm.lanes_of(ty)
    function = mathlib.emit(b.module, name, max(lanes, 1), bits, llvm.target_of(b).enabled)
    if lanes != 1:
        return b.call(function, list(operands))
    first = ir.Constant(I32, 0)
    found = b.call(function, [b.extract_element(each, first) for each in operands])
    return b.insert_element(llvm.undefined(ty), found, first)


for _name in mathlib.FUNCTIONS:
    _names = ("pow", "fpowf") if _name == "pow" else (_name,)
    emitter(*_names)(partial(_library, _name))


@emitter("fpowi")
def fpowi(b: B, x: V, exponent: V, *, element: Element) -> V:
    """The power of an exponent read signed, in f64, which holds every i32."""
    wide = widen(b, x, element)
    double = llvm.shaped(DOUBLE, wide.type)
    base = wide if wide.type == double else b.fpext(wide, double)
    found = _called(b, "pow", [base, b.sitofp(exponent, double)], 64)
    if wide.type == double:
        return found
    return narrow(b, b.fptrunc(found, wide.type), element)
