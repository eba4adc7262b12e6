"""Calls from generated code to the host."""

from __future__ import annotations

from llvmlite import ir

from tilewright.cpu.codegen.control.polls import attended
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I32, I64, PTR, VOID
from tilewright.cpu.codegen.ir.types import Value

_HOST_CALL, _USER = 1, 2


def call_host(f: FunctionEmitter, site: int, payload: Value, count: Value) -> None:
    """Hand a payload of a site to the host: its address, and its size in bytes or words, as the site has it."""
    b, runtime = f.builder, f.frame.runtime
    # Signals are handled before Python is called: what a handler raises there would be lost.
    attended(f)
    fields = [
        b.load(b.gep(runtime, [ir.Constant(I32, at)], source_etype=PTR), typ=PTR)
        for at in (_HOST_CALL, _USER)
    ]
    signature = ir.FunctionType(VOID, [PTR, I32, PTR, PTR, I64])
    llvm.call_pointer(
        b, fields[0], signature, [fields[1], ir.Constant(I32, site), f.frame.place, payload, count]
    )
