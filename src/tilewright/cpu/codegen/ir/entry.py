"""Stacks that are aligned like vectors.

Vectors that registers have no room for go to the stack. The ABI of x86 aligns it to 16 bytes only, so that most vectors
there would lie in two cache lines, and reading them take twice as long. LLVM would align the stack in each function by itself only where
it has set a register aside for the frame before it gives out registers, which scalar code misses then. So the entry of a
kernel aligns the stack once, and all other functions of the module may rely on it.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.cpu.codegen.ir.elements import I32
from tilewright.cpu.codegen.ir.llvm import add_attribute
from tilewright.cpu.target import CpuTarget

#: To how many bits the ABI of x86 aligns the stack.
_ABI_BITS = 128
_ERROR_IF_OTHER = 1


def aligns_stack(module: ir.Module, target: CpuTarget, *, resumed: bool) -> bool:
    """Let the functions of a module rely on a stack that is aligned like vectors, and return whether they do: the kernel must
    be called by ``make_entry`` then. ``resumed``: others than this module call some of them, since they are coroutines."""
    if resumed or not target.is_x86 or target.vector_bits <= _ABI_BITS:
        return False
    name = ir.MetaDataString(module, "override-stack-alignment")
    flag = [ir.Constant(I32, _ERROR_IF_OTHER), name, ir.Constant(I32, target.vector_bits // 8)]
    module.add_named_metadata("llvm.module.flags", module.add_metadata(flag))
    return True


def make_entry(module: ir.Module, symbol: str, inside: ir.Function) -> ir.Function:
    """The kernel that aligns the stack and calls the function that does all."""
    inside.attributes.add("noinline")
    function = ir.Function(module, inside.function_type, symbol)
    add_attribute(function, '"stackrealign"')
    b = ir.IRBuilder(function.append_basic_block("entry"))
    b.ret(b.call(inside, function.args))
    return function
