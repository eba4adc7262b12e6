"""Functions for what is done often and for what hardly ever is: the one inlined, the other apart, in a place where nothing of the
caller's has to be saved for it."""

from __future__ import annotations

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.types import Builder, Type, Value
from tilewright.cpu.target import CpuTarget

#: Keeps all registers for the caller, who has vectors in them and rarely calls.
_KEEPS_REGISTERS = "preserve_allcc"
_LIKELY = (2000, 1)


def inlined(module: ir.Module, name: str, result: Type, args: list[Type]) -> ir.Function:
    """A function without a body that becomes part of those that call it."""
    function = ir.Function(module, ir.FunctionType(result, args), name)
    function.linkage = "internal"
    for attribute in ("alwaysinline", "nounwind"):
        llvm.add_attribute(function, attribute)
    return function


def apart(module: ir.Module, name: str, args: list[Type], target: CpuTarget) -> ir.Function:
    """A function without a body that stays one, for :func:`call_apart`. All registers are kept, so that results go through
    memory, and no vectors of more than 128 bits are used: LLVM would clear the upper halves of the caller's at the end."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), args), name)
    function.linkage = "internal"
    if target.is_x86:
        function.calling_convention = _KEEPS_REGISTERS
    for attribute in ("noinline", "nounwind"):
        llvm.add_attribute(function, attribute)
    return function


def call_apart(b: Builder, function: ir.Function, args: list[Value]) -> None:
    """Call a function that :func:`apart` made."""
    b.call(function, args, cconv=function.calling_convention)


def branch(b: Builder, condition: Value, likely: ir.Block, other: ir.Block) -> None:
    """Go to ``likely`` where the condition holds, as it nearly always does."""
    found = b.cbranch(condition, likely, other)
    assert found is not None
    found.set_weights(_LIKELY)
