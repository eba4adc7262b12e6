"""Parts of long functions as functions of their own."""

from __future__ import annotations

import re
from ctypes import CFUNCTYPE, c_double

import pytest
from llvmlite import binding, ir

from tilewright.cpu.codegen.ir import outlining
from tilewright.cpu.codegen.ir.outlining import Part
from tilewright.cpu.runtime import engine
from tilewright.cpu.target import cpu_target

_DOUBLE = ir.DoubleType()


def _function(before: int) -> tuple[ir.Module, Part]:
    """A function of some instructions, a part with three results that others use, and what uses them."""
    module = ir.Module()
    made = ir.Function(module, ir.FunctionType(_DOUBLE, [_DOUBLE]), "f")
    b = ir.IRBuilder(made.append_basic_block())
    values = [made.args[0]]
    for _ in range(before):
        values.append(b.fadd(values[-1], ir.Constant(_DOUBLE, 1.0)))
    entry = b.block
    start, end = made.append_basic_block(), made.append_basic_block()
    b.branch(start)
    b.position_at_end(start)
    total = values[0]
    for value in values[1:]:
        total = b.fadd(total, value)
    results = [total, b.fmul(total, total), b.fsub(total, values[-1])]
    b.branch(end)
    b.position_at_end(end)
    b.ret(b.fadd(b.fadd(results[0], results[1]), results[2]))
    return module, Part(made, entry, start, end, first=1, behind=2)


@pytest.mark.parametrize("before", [0, 1, 2, 3, 4, 5, 8, 30])
def test_names_of_results_are_not_those_of_values(
    before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever numbers the values from outside have: those of the arguments for results once met them."""
    monkeypatch.setattr(outlining, "LONG", 0)
    monkeypatch.setattr(outlining, "_SHORT", 0)
    module, part = _function(before)
    assert outlining.outline([part], cpu_target()) == 1
    assert re.search(r"f\.part\.0", str(module))
    engine.parse_ir(str(module), cpu_target())


def test_a_part_outlined_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlining, "LONG", 0)
    monkeypatch.setattr(outlining, "_SHORT", 0)
    found = []
    for cut in (False, True):
        module, part = _function(30)
        if cut:
            outlining.outline([part], cpu_target())
        parsed = engine.parse_ir(str(module), cpu_target())
        with binding.create_mcjit_compiler(
            parsed, binding.Target.from_default_triple().create_target_machine()
        ) as jit:
            jit.finalize_object()
            found.append(CFUNCTYPE(c_double, c_double)(jit.get_function_address("f"))(0.5))
    assert found[0] == found[1]
