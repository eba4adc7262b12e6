"""What is put into a module."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from tilewright.cpu.mathlib import FUNCTIONS, emit
from tilewright.cpu.runtime.engine import optimize, parse_ir
from tilewright.cpu.target import cpu_target


def test_a_function_is_put_once() -> None:
    module = ir.Module()
    first = emit(module, "exp", 8, 32)
    assert emit(module, "exp", 8, 32) is first
    assert emit(module, "exp", 4, 32) is not first


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("bits", [32, 64])
def test_no_library_is_called(name: str, bits: int) -> None:
    module = ir.Module()
    function = emit(module, name, 8, bits)
    user = ir.Function(module, function.ftype, "user")
    builder = ir.IRBuilder(user.append_basic_block())
    builder.ret(builder.call(function, user.args))
    target = cpu_target()
    parsed = parse_ir(str(module), target)
    optimize(parsed, target)
    outside = [
        f.name for f in parsed.functions if f.is_declaration and not f.name.startswith("llvm.")
    ]
    assert not outside
    # Inlined: what is left are the user and what rare arguments need.
    kept = [f for f in parsed.functions if not f.is_declaration]
    assert all(f.name == "user" or f.linkage == llvm.Linkage.internal for f in kept)
    assert f"tilewright.{name}.v8f{bits}" not in [f.name for f in kept]
